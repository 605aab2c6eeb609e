#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/golden/pretraining_*.safetensors with transformers' BertForPreTraining and masked_*.safetensors
with its BertForMaskedLM: losses, logits and every gradient of tiny models in float64, one sequence at a time.

The loss is the mean over all masked tokens of the batch, plus with BertForPreTraining the mean over its
sequences, which for a batch without padding is the class's own loss. The decoder is the word table. The logits
are those of the sequences, or with BertForMaskedLM of the masked tokens. Leaves out: dropout (0 here).

    pretraining_heads.py tests/golden
"""
import os
import sys

import numpy as np
import torch
from transformers import BertConfig, BertForMaskedLM, BertForPreTraining

import reference as ref

CASES = (
    # class, name, settings, lengths of the sequences, masked tokens of each, seed
    (BertForPreTraining, "pretraining_erf", dict(vocab_size=97, hidden_size=20, hidden_act="gelu"), (12, 33, 5, 20), (2, 5, 0, 3), 51),
    # More masked tokens than the decoder processes at a time.
    (BertForPreTraining, "pretraining_tanh", dict(vocab_size=41, hidden_size=16, hidden_act="gelu_new"),
     (60,) * 40, (39,) * 40, 52),
    (BertForMaskedLM, "masked_erf", dict(vocab_size=97, hidden_size=20, hidden_act="gelu"),
     (12, 33, 5, 20), (2, 5, 0, 3), 53),
    (BertForMaskedLM, "masked_tanh", dict(vocab_size=13, hidden_size=16, hidden_act="gelu_new"),
     (60,) * 40, (39,) * 40, 54),
)


def random_parameters(model, seed):
    rng = np.random.default_rng(seed)
    out = {}
    for name, p in sorted(model.named_parameters()):
        values = rng.standard_normal(tuple(p.shape))
        out[name] = (1 + 0.1 * values if name.endswith("LayerNorm.weight")
                     else 0.1 * values if name.endswith("bias") else 0.3 * values).astype(np.float32)
    return out


def run(model, batch, masked, labels):
    total = sum(len(positions) for positions, _ in masked)
    ce = torch.nn.functional.cross_entropy
    seen, words, sentences = [], 0.0, 0.0
    for ids, types, (positions, wanted), label in zip(batch.ids, batch.types, masked, labels):
        out = model(input_ids=torch.as_tensor(ids)[None].long(), token_type_ids=torch.as_tensor(types)[None].long())
        is_masked = isinstance(model, BertForMaskedLM)
        decoded = (out.logits if is_masked else out.prediction_logits)[0, positions]
        losses = []
        if not is_masked:
            losses.append(ce(out.seq_relationship_logits, torch.tensor([label])) / len(labels))
            sentences += losses[0].item()
        if len(positions):
            losses.append(ce(decoded, torch.as_tensor(wanted).long(), reduction="sum") / total)
            words += losses[-1].item()
        if losses:
            sum(losses[1:], losses[0]).backward()
        seen.append(decoded.detach() if is_masked else out.seq_relationship_logits.detach())
    return torch.cat(seen), words, sentences


def check_class_itself(model, batch, masked, labels):
    """The same numbers from the class's own loss, on a batch whose sequences are all as long."""
    if len(set(map(len, batch.ids))) > 1:
        return
    wanted = torch.full((len(labels), len(batch.ids[0])), -100)
    for row, (positions, words) in enumerate(masked):
        wanted[row, positions] = torch.as_tensor(words).long()
    more = {} if isinstance(model, BertForMaskedLM) else {"next_sentence_label": torch.as_tensor(labels)}
    out = model(input_ids=torch.as_tensor(np.stack(batch.ids)).long(),
                token_type_ids=torch.as_tensor(np.stack(batch.types)).long(), labels=wanted, **more)
    _, words, sentences = run(model, batch, masked, labels)
    assert abs(out.loss.item() - words - sentences) < 1e-12
    model.zero_grad()


def make(folder, kind, name, keys, lengths, counts, seed):
    config = BertConfig(num_attention_heads=2, num_hidden_layers=2, intermediate_size=30,
                        max_position_embeddings=64, layer_norm_eps=1e-12, hidden_dropout_prob=0.0,
                        attention_probs_dropout_prob=0.0, attn_implementation="eager", **keys)
    model = kind(config).double().eval()
    parameters = random_parameters(model, seed)
    with torch.no_grad():
        for key, p in model.named_parameters():
            p.copy_(torch.from_numpy(parameters[key]))
    rng = np.random.default_rng(seed + 200)
    batch = ref.Batch.random(lengths, config, seed + 100)
    batch.starts = batch.ends = None
    batch.ids = [np.maximum(ids, 1) for ids in batch.ids]  # no [PAD], whose embedding is not trained
    masked = [(np.sort(rng.permutation(n)[:c]).astype(np.int32),
               rng.integers(0, config.vocab_size, c).astype(np.int32)) for n, c in zip(lengths, counts)]
    labels = rng.integers(0, 2, len(lengths))
    check_class_itself(model, batch, masked, labels)
    seen, words, sentences = run(model, batch, masked, labels)
    tensors = {**parameters, **batch.tensors(),
               **({"labels": labels.astype(np.int32)} if kind is BertForPreTraining else {}),
               "masked_counts": np.array(counts, np.int32),
               "masked_positions": np.concatenate([p for p, _ in masked]),
               "masked_labels": np.concatenate([w for _, w in masked]),
               "logits": seen.numpy().astype(np.float32),
               "loss": np.array([words + sentences], np.float32)}
    tensors.update({f"grad.{n}": g.astype(np.float32) for n, g in ref.gradients(model).items()})
    path = os.path.join(folder, f"{name}.safetensors")
    ref.write(path, tensors, config, seed=seed)
    print(name, os.path.getsize(path) // 1024, "KiB, losses", round(words, 4), round(sentences, 4))


for case in CASES:
    make(sys.argv[1], *case)
