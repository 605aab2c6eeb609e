#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/golden/preln_*.safetensors: logits, loss and every gradient of tiny models with layer norms
before the sub-layers and a final one, in float64, one sequence at a time.

transformers has no such BERT, so the encoder is implemented here with torch's functions and its autograd;
`check_post` first runs the same code with the norms after the sub-layers against transformers' BertModel.
Leaves out: dropout, pooler.

    pre_layer_norm.py tests/golden
"""
import math
import os
import sys

import numpy as np
import torch
from torch.nn.functional import gelu, layer_norm, linear, softmax
from transformers import BertModel

import reference as ref

SHAPE = dict(vocab_size=53, max_position_embeddings=40, layer_norm_eps=1e-12, initializer_range=0.3)
CASES = (
    # name, hidden size, heads, layers, inner, activation, lengths of the sequences, seed
    ("preln_erf", 20, 2, 3, 37, "gelu", (1, 7, 33, 12), 41),
    ("preln_tanh", 24, 3, 1, 30, "gelu_new", (40, 5, 2, 17), 42),
)


class Encoder:
    """y = forward(ids, types); `p` holds the parameters by their names in the checkpoint."""

    def __init__(self, config, parameters, pre):
        self.config, self.p, self.pre = config, parameters, pre

    def linear(self, x, name):
        return linear(x, self.p[f"{name}.weight"], self.p[f"{name}.bias"])

    def norm(self, x, name):
        return layer_norm(x, x.shape[-1:], self.p[f"{name}.weight"], self.p[f"{name}.bias"],
                          self.config.layer_norm_eps)

    def attention(self, x, prefix):
        heads = self.config.num_attention_heads
        q, k, v = (self.linear(x, f"{prefix}.attention.self.{part}").unflatten(-1, (heads, -1))
                   .transpose(0, 1) for part in ("query", "key", "value"))
        scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
        context = (softmax(scores, -1) @ v).transpose(0, 1).flatten(1)
        return self.linear(context, f"{prefix}.attention.output.dense")

    def feed_forward(self, x, prefix):
        form = "tanh" if self.config.hidden_act == "gelu_new" else "none"
        inner = gelu(self.linear(x, f"{prefix}.intermediate.dense"), approximate=form)
        return self.linear(inner, f"{prefix}.output.dense")

    def layer(self, x, prefix):
        if self.pre:
            x = x + self.attention(self.norm(x, f"{prefix}.PreAttentionLayerNorm"), prefix)
            return x + self.feed_forward(self.norm(x, f"{prefix}.PostAttentionLayerNorm"), prefix)
        x = self.norm(x + self.attention(x, prefix), f"{prefix}.attention.output.LayerNorm")
        return self.norm(x + self.feed_forward(x, prefix), f"{prefix}.output.LayerNorm")

    def forward(self, ids, types):
        prefix = "bert.embeddings"
        x = (self.p[f"{prefix}.word_embeddings.weight"][ids]
             + self.p[f"{prefix}.position_embeddings.weight"][:len(ids)]
             + self.p[f"{prefix}.token_type_embeddings.weight"][types])
        x = self.norm(x, f"{prefix}.LayerNorm")
        for i in range(self.config.num_hidden_layers):
            x = self.layer(x, f"bert.encoder.layer.{i}")
        return self.norm(x, "bert.encoder.FinalLayerNorm") if self.pre else x


def make_leaves(parameters):
    return {n: torch.from_numpy(v).double().requires_grad_() for n, v in parameters.items()}


def pre_parameters(config, seed):
    """The parameters of transformers' model, with the layers' norms under their other names."""
    out = {}
    for name, value in ref.random_parameters(config, seed).items():
        name = name.replace(".attention.output.LayerNorm.", ".PostAttentionLayerNorm.")
        out[name.replace(".output.LayerNorm.", ".PreAttentionLayerNorm.")] = value
    rng = np.random.default_rng(seed + 300)
    for part, mean in (("weight", 1.0), ("bias", 0.0)):
        values = mean + 0.1 * rng.standard_normal(config.hidden_size)
        out[f"bert.encoder.FinalLayerNorm.{part}"] = values.astype(np.float32)
    return out


def check_post(config, batch, seed):
    parameters = ref.random_parameters(config, seed)
    theirs = BertModel(config, add_pooling_layer=False).double().eval()
    theirs.load_state_dict({n.removeprefix("bert."): torch.from_numpy(v).double()
                            for n, v in parameters.items() if n.startswith("bert.")})
    ours = Encoder(config, make_leaves(parameters), pre=False)
    for ids, types in zip(batch.ids, batch.types):
        ids, types = torch.as_tensor(ids).long(), torch.as_tensor(types).long()
        expected = theirs(input_ids=ids[None], token_type_ids=types[None]).last_hidden_state[0]
        assert torch.allclose(ours.forward(ids, types), expected, rtol=0, atol=1e-12)


def run(encoder, batch):
    logits, loss = [], 0.0
    for ids, types, start, end in zip(batch.ids, batch.types, batch.starts, batch.ends):
        y = encoder.forward(torch.as_tensor(ids).long(), torch.as_tensor(types).long())
        z = encoder.linear(y, "qa_outputs")
        scores = torch.log_softmax(z, 0)
        loss = loss - (scores[start, 0] + scores[end, 1]) / 2 / len(batch.ids)
        logits.append(z.detach())
    loss.backward()
    return torch.cat(logits), loss.item()


def make(folder, name, hidden, heads, layers, inner, activation, lengths, seed):
    config = ref.make_config(hidden_size=hidden, num_attention_heads=heads, num_hidden_layers=layers,
                             intermediate_size=inner, hidden_act=activation,
                             attn_implementation="eager", **SHAPE)
    batch = ref.Batch.random(lengths, config, seed + 100)
    check_post(config, batch, seed)
    parameters = pre_parameters(config, seed)
    leaves = make_leaves(parameters)
    logits, loss = run(Encoder(config, leaves, pre=True), batch)
    tensors = dict(parameters)
    tensors.update(batch.tensors())
    tensors["logits"] = logits.numpy().astype(np.float32)
    tensors["loss"] = np.array([loss], np.float32)
    padding = leaves["bert.embeddings.word_embeddings.weight"].grad
    padding[config.pad_token_id] = 0  # as transformers' table with a padding_idx has it
    tensors.update({f"grad.{n}": p.grad.numpy().astype(np.float32) for n, p in leaves.items()})
    path = os.path.join(folder, f"{name}.safetensors")
    ref.write(path, tensors, config, seed=seed, pre_layer_norm=True)
    print(name, os.path.getsize(path) // 1024, "KiB, loss", round(loss, 4))


if __name__ == "__main__":
    for case in CASES:
        make(sys.argv[1], *case)
