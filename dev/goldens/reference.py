# SPDX-License-Identifier: Apache-2.0
"""Common parts of the golden makers: running transformers' BertForQuestionAnswering on packed batches.

A packed batch is a list of (ids, token types) and the labels. In float64 and float32 each sequence runs
alone, so padding and masks have no influence. Under autocast the batch is padded to its longest sequence, as
a PyTorch user would do, and the padding is excluded from the softmax of the loss. The loss is the mean over
the sequences of (CE(start) + CE(end)) / 2.

Leaves out: dropout (always 0 here), pooler, training.
"""
import json

import numpy as np
import torch
from transformers import BertConfig, BertForQuestionAnswering

CONFIG_KEYS = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
               "intermediate_size", "max_position_embeddings", "type_vocab_size", "hidden_act",
               "layer_norm_eps", "initializer_range", "hidden_dropout_prob",
               "attention_probs_dropout_prob", "pad_token_id", "model_type")


def make_config(**keys):
    keys.setdefault("hidden_dropout_prob", 0.0)
    keys.setdefault("attention_probs_dropout_prob", 0.0)
    return BertConfig(architectures=["BertForQuestionAnswering"], **keys)


def make_model(config, parameters, dtype=torch.float64, attention="eager"):
    """A model with these float32 parameters, computing in dtype, dropout off."""
    config = BertConfig.from_dict({**config.to_dict(), "hidden_dropout_prob": 0.0,
                                   "attention_probs_dropout_prob": 0.0})
    config._attn_implementation = attention
    model = BertForQuestionAnswering(config).to(dtype)
    wanted = {n for n, _ in model.named_parameters()}
    assert wanted == set(parameters), wanted ^ set(parameters)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.from_numpy(parameters[name]))
    return model.eval()


def random_parameters(config, seed, scale=None):
    """float32 parameters with no trivial value: biases and layer norms are random as well."""
    rng = np.random.default_rng(seed)
    scale = scale or config.initializer_range
    out = {}
    for name, p in sorted(BertForQuestionAnswering(config).named_parameters()):
        values = rng.standard_normal(tuple(p.shape))
        if name.endswith("LayerNorm.weight"):
            values = 1 + 0.1 * values
        elif name.endswith("bias"):
            values = 0.1 * values
        else:
            values = scale * values
        out[name] = values.astype(np.float32)
    return out


class Batch:
    def __init__(self, ids, types, starts=None, ends=None):
        self.ids, self.types, self.starts, self.ends = ids, types, starts, ends

    @staticmethod
    def random(lengths, config, seed):
        rng = np.random.default_rng(seed)
        ids = [rng.integers(0, config.vocab_size, n) for n in lengths]
        cut = [int(rng.integers(1, n + 1)) for n in lengths]
        last = config.type_vocab_size - 1
        types = [np.where(np.arange(n) < c, 0, last) for n, c in zip(lengths, cut)]
        starts = [int(rng.integers(0, n)) for n in lengths]
        ends = [int(rng.integers(s, n)) for s, n in zip(starts, lengths)]
        return Batch(ids, types, starts, ends)

    def tensors(self, suffix=""):
        lengths = [len(i) for i in self.ids]
        out = {"ids": np.concatenate(self.ids), "token_type_ids": np.concatenate(self.types),
               "cu_seqlens": np.cumsum([0] + lengths)}
        if self.starts is not None:
            out["start_positions"], out["end_positions"] = self.starts, self.ends
        return {k + suffix: np.asarray(v, dtype=np.int32) for k, v in out.items()}


def half_loss(logits, start, end):
    ce = torch.nn.functional.cross_entropy
    return (ce(logits[None, :, 0], torch.tensor([start])) + ce(logits[None, :, 1], torch.tensor([end]))) / 2


def run(model, batch, backward=True):
    """Packed logits [T, 2] and the mean loss; gradients are added to the parameters."""
    packed, total = [], 0.0
    for i, (ids, types) in enumerate(zip(batch.ids, batch.types)):
        with torch.set_grad_enabled(backward):
            out = model(input_ids=torch.as_tensor(ids)[None].long(),
                        token_type_ids=torch.as_tensor(types)[None].long())
            logits = torch.stack([out.start_logits[0], out.end_logits[0]], -1)
            if batch.starts is not None:
                loss = half_loss(logits, batch.starts[i], batch.ends[i]) / len(batch.ids)
                total += loss.item()
                if backward:
                    loss.backward()
        packed.append(logits.detach())
    return torch.cat(packed), total


def gradients(model):
    return {n: p.grad.detach().double().numpy() for n, p in model.named_parameters()}


def autocast_gradients(config, parameters, batch, attention):
    """Gradients and packed logits of CPU autocast in bfloat16, the batch padded and masked."""
    model = make_model(config, parameters, torch.float32, attention)
    lengths = [len(i) for i in batch.ids]
    shape = (len(lengths), max(lengths))
    ids, types, mask = (torch.zeros(shape, dtype=torch.long) for _ in range(3))
    for row, n in enumerate(lengths):
        ids[row, :n] = torch.as_tensor(batch.ids[row])
        types[row, :n] = torch.as_tensor(batch.types[row])
        mask[row, :n] = 1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(input_ids=ids, token_type_ids=types, attention_mask=mask)
    loss = 0.0
    for logits, target in ((out.start_logits, batch.starts), (out.end_logits, batch.ends)):
        logits = logits.float().masked_fill(mask == 0, float("-inf"))
        loss = loss + torch.nn.functional.cross_entropy(logits, torch.tensor(target)) / 2
    loss.backward()
    packed = torch.stack([out.start_logits, out.end_logits], -1).float().detach()
    return gradients(model), torch.cat([packed[i, :n] for i, n in enumerate(lengths)])


def cosine(a, b):
    """Of two whole gradients; 1 if both are zero (a one-token sequence has no loss)."""
    dot = sum((a[n] * b[n]).sum() for n in a)
    size = np.sqrt(sum((v ** 2).sum() for v in a.values()) * sum((v ** 2).sum() for v in b.values()))
    return float(dot / size) if size > 0 else 1.0


def relative(a, b):
    return float(np.linalg.norm(np.asarray(a, np.float64) - b) / np.linalg.norm(b))


def gradient_tensors(config, parameters, batch):
    """Everything that a gradient golden contains besides parameters and inputs, and a line of figures."""
    model = make_model(config, parameters)
    logits, loss = run(model, batch)
    true = gradients(model)
    norm = np.sqrt(sum((v ** 2).sum() for v in true.values()))
    out = {"logits": logits.numpy().astype(np.float32), "loss": np.array([loss], np.float32)}
    out.update({f"grad.{n}": v.astype(np.float32) for n, v in true.items()})
    figures = {"T": len(logits), "loss": round(loss, 4), "|G0|": round(float(norm), 4)}
    for prefix, attention in (("autocast", "sdpa"), ("autocast_eager", "eager")):
        rough, rough_logits = autocast_gradients(config, parameters, batch, attention)
        for n, v in true.items():
            out[f"{prefix}_error.{n}"] = np.array([np.linalg.norm(rough[n] - v)], np.float32)
        out[f"{prefix}_cosine"] = np.array([cosine(rough, true)], np.float32)
        out[f"{prefix}_logits_error"] = np.array([relative(rough_logits, logits.numpy())], np.float32)
        figures[f"{prefix}_cosine"] = round(cosine(rough, true), 6)
        figures[f"{prefix}_logits"] = round(relative(rough_logits, logits.numpy()), 5)
    single = make_model(config, parameters, torch.float32)
    single_logits, _ = run(single, batch)
    figures["fp32_logits"] = float(f"{(single_logits.double() - logits).abs().max():.2g}")
    g32 = gradients(single)
    figures["fp32_worst"] = float("%.2g" % max(
        np.linalg.norm(g32[n] - true[n]) / (1e-4 * np.linalg.norm(true[n]) + 1e-6 * norm + 1e-30)
        for n in true))
    return out, figures


def write(path, tensors, config=None, **metadata):
    """Writes a safetensors file with everything in sorted order (the library's own order of metadata is
    random), so that the same tensors give the same bytes. Metadata are strings."""
    meta = {k: v if isinstance(v, str) else json.dumps(v) for k, v in metadata.items()}
    if config is not None:
        keys = CONFIG_KEYS + (() if config.num_labels == 2 else ("id2label",))
        meta["config"] = json.dumps({k: config.to_dict()[k] for k in keys})
    types = {"float32": "F32", "float64": "F64", "int32": "I32"}
    header, at, blocks = {}, 0, []
    if meta:
        header["__metadata__"] = dict(sorted(meta.items()))
    for name in sorted(tensors, key=lambda n: (-tensors[n].dtype.itemsize, n)):
        block = np.ascontiguousarray(tensors[name])
        header[name] = {"dtype": types[block.dtype.name], "shape": list(tensors[name].shape),
                        "data_offsets": [at, at + block.nbytes]}
        at += block.nbytes
        blocks.append(block.tobytes())
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text + b"".join(blocks))
