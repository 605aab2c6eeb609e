#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/golden/class_*.safetensors and token_*.safetensors with transformers' BertForSequenceClassification
and BertForTokenClassification: logits, loss and every gradient of tiny classifiers, of a regression and of a
multi-label classifier, in float64, one sequence at a time.

The loss is the mean over the sequences (of a token classifier over all labelled tokens) of the class's own
loss: cross entropy, with one output the squared error, with several labels the cross entropy of their
sigmoids. Where classes have weights, it is torch's CrossEntropyLoss(weight, label_smoothing) of all labels
at once. Leaves out: dropout (0 here), other heads (make_goldens.py).

    class_heads.py tests/golden [NAME...]
"""
import os
import sys

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, BertForTokenClassification

import reference as ref

SHAPE = dict(vocab_size=53, num_attention_heads=2, num_hidden_layers=2, intermediate_size=30,
             max_position_embeddings=40, layer_norm_eps=1e-12, initializer_range=0.3)
CASES = (
    # name, hidden size, outputs, lengths of the sequences, seed
    ("class_two", 20, 2, (1, 7, 33, 12), 31),
    ("class_five", 24, 5, (5, 40, 17, 2, 9, 9, 1), 32),
    ("class_regression", 20, 1, (3, 29, 8), 33),
    ("class_labels", 20, 4, (6, 21, 9, 2), 34),
    ("class_weighted", 20, 3, (4, 19, 7, 11, 2), 35),
    ("token_plain", 20, 5, (3, 30, 12), 36),
    ("token_weighted", 24, 4, (2, 9, 33, 6), 37),
)
# Of the cases with class weights.
SMOOTHING = {"class_weighted": 0.1, "token_weighted": 0.25}


def random_parameters(model, scale, seed):
    rng = np.random.default_rng(seed)
    out = {}
    for name, p in sorted(model.named_parameters()):
        values = rng.standard_normal(tuple(p.shape))
        out[name] = (1 + 0.1 * values if name.endswith("LayerNorm.weight")
                     else 0.1 * values if name.endswith("bias") else scale * values).astype(np.float32)
    return out


def run(model, batch, labels):
    logits, loss = [], 0.0
    for ids, types, label in zip(batch.ids, batch.types, labels):
        out = model(input_ids=torch.as_tensor(ids)[None].long(),
                    token_type_ids=torch.as_tensor(types)[None].long(), labels=label[None])
        (out.loss / len(labels)).backward()
        loss += out.loss.item() / len(labels)
        logits.append(out.logits.detach()[0])
    return torch.stack(logits), loss


def criterion(name, weights):
    """The loss of all labels of a batch at once; None: that of the model."""
    if not name.startswith("token") and name not in SMOOTHING:
        return None
    return torch.nn.CrossEntropyLoss(weight=weights, label_smoothing=SMOOTHING.get(name, 0.0), ignore_index=-100)


def run_at_once(model, batch, labels, loss):
    """labels: one for each sequence, or for each token."""
    logits = []
    for ids, types in zip(batch.ids, batch.types):
        out = model(input_ids=torch.as_tensor(ids)[None].long(), token_type_ids=torch.as_tensor(types)[None].long())
        logits.append(out.logits.flatten(0, -2))
    logits = torch.cat(logits)
    value = loss(logits, labels)
    value.backward()
    return logits.detach(), value.item()


def label_tokens(tensors, lengths, outputs, rng):
    """Labels about two thirds of the tokens, at least one of each sequence."""
    rows = [sorted(rng.choice(n, max(1, 2 * n // 3), replace=False)) for n in lengths]
    wanted = rng.integers(0, outputs, sum(map(len, rows))).astype(np.int32)
    tensors["masked_counts"] = np.array([len(r) for r in rows], np.int32)
    tensors["masked_positions"] = np.concatenate(rows).astype(np.int32)
    tensors["masked_labels"] = wanted
    labels = np.full(sum(lengths), -100)
    labels[np.concatenate([np.array(r) + sum(lengths[:i]) for i, r in enumerate(rows)])] = wanted
    return torch.from_numpy(labels)


def make(folder, name, hidden, outputs, lengths, seed):
    config = BertConfig(hidden_size=hidden, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                        num_labels=outputs,
                        problem_type="multi_label_classification" if name == "class_labels" else None,
                        attn_implementation="eager", **SHAPE)
    kind = BertForTokenClassification if name.startswith("token") else BertForSequenceClassification
    model = kind(config).double().eval()
    parameters = random_parameters(model, SHAPE["initializer_range"], seed)
    with torch.no_grad():
        for key, p in model.named_parameters():
            p.copy_(torch.from_numpy(parameters[key]))
    batch = ref.Batch.random(lengths, config, seed + 100)
    batch.starts = batch.ends = None
    rng = np.random.default_rng(seed + 200)
    tensors = dict(parameters)
    tensors.update(batch.tensors())
    weights = None
    if name in SMOOTHING:
        tensors["class_weights"] = rng.uniform(0.5, 3, outputs).astype(np.float32)
        tensors["label_smoothing"] = np.array([SMOOTHING[name]], np.float32)
        weights = torch.from_numpy(tensors["class_weights"]).double()
    loss_of_all = criterion(name, weights)
    if name.startswith("token"):
        labels = label_tokens(tensors, lengths, outputs, rng)
    elif outputs == 1:
        tensors["targets"] = rng.uniform(0, 5, len(lengths)).astype(np.float32)
        labels = torch.from_numpy(tensors["targets"]).double()
    elif config.problem_type is not None:
        tensors["shares"] = rng.integers(0, 2, (len(lengths), outputs)).astype(np.float32)
        labels = torch.from_numpy(tensors["shares"]).double()
    else:
        tensors["labels"] = rng.integers(0, outputs, len(lengths)).astype(np.int32)
        labels = torch.from_numpy(tensors["labels"]).long()
    logits, loss = (run(model, batch, labels) if loss_of_all is None
                    else run_at_once(model, batch, labels, loss_of_all))
    tensors["logits"] = logits.numpy().astype(np.float32)
    tensors["loss"] = np.array([loss], np.float32)
    tensors.update({f"grad.{n}": g.astype(np.float32) for n, g in ref.gradients(model).items()})
    path = os.path.join(folder, f"{name}.safetensors")
    ref.write(path, tensors, config, seed=seed)
    print(name, os.path.getsize(path) // 1024, "KiB, loss", round(loss, 4))


for case in CASES:
    if len(sys.argv) < 3 or case[0] in sys.argv[2:]:
        make(sys.argv[1], *case)
