#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/golden/encoder: a tiny BertModel as a folder, and transformers' embeddings of some texts in
float64: the mean, [CLS] and maximum of each text's rows, unscaled and scaled to length 1. With --pre, makes
tests/golden/encoder_preln: the same for an encoder with layer norms before its sub-layers
(pre_layer_norm.py), which transformers does not have.

    embeddings.py tests/golden/encoder
    embeddings.py tests/golden/encoder_preln --pre
"""
import os
import sys

import numpy as np
import torch
from transformers import BertConfig, BertModel, BertTokenizer

import pre_layer_norm as pre
import reference as ref
import tensors

WORDS = ("[PAD] [UNK] [CLS] [SEP] [MASK] anna ben cora red blue green black ball book lamp coat the of is "
         "what colour has who ? . ##s and a").split()
TEXTS = ["the red ball of anna is blue .", "", "who has a coat and a lamp ?", "ben", "the lamps of cora",
         "what colour has the book of ben and the ball of cora and the lamp of anna and the coat of ben ?"]
LENGTH = 16  # the last text is truncated


def parameters_of(model, seed):
    rng = np.random.default_rng(seed)
    return {n: ((1 if n.endswith("LayerNorm.weight") else 0) +
                0.2 * rng.standard_normal(tuple(p.shape))).astype(np.float32)
            for n, p in sorted(model.named_parameters())}


def usual():
    config = BertConfig(vocab_size=len(WORDS), hidden_size=24, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=40, max_position_embeddings=32)
    model = BertModel(config, add_pooling_layer=False)
    parameters = parameters_of(model, 41)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.from_numpy(parameters[name]))
    model = model.double().eval()
    return config, parameters, lambda ids: model(torch.tensor([ids]))[0][0]


def norms_before():
    config = BertConfig(vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=20, max_position_embeddings=16, initializer_range=0.3)
    body = {n: v for n, v in pre.pre_parameters(config, 43).items() if n.startswith("bert.")}
    encoder = pre.Encoder(config, pre.make_leaves(body), pre=True)
    parameters = {n.removeprefix("bert."): v for n, v in body.items()}
    return config, parameters, lambda ids: encoder.forward(torch.tensor(ids), torch.zeros(len(ids), dtype=int))


def main(folder, make):
    os.makedirs(folder, exist_ok=True)
    config, parameters, rows_of = make()
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(WORDS) + "\n")
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        file.write(config.to_json_string())
    tensors.write_safetensors(os.path.join(folder, "model.safetensors"), parameters, {"format": "pt"})
    tokenizer = BertTokenizer(os.path.join(folder, "vocab.txt"))
    out = {"mean": [], "cls": [], "max": []}
    for text in TEXTS:
        with torch.no_grad():
            rows = rows_of(tokenizer(text, truncation=True, max_length=LENGTH)["input_ids"])
        out["mean"].append(rows.mean(0))
        out["cls"].append(rows[0])
        out["max"].append(rows.max(0).values)
    found = {}
    for name, rows in out.items():
        rows = torch.stack(rows)
        found[name] = rows.numpy().astype(np.float32)
        found[name + ".normalized"] = torch.nn.functional.normalize(rows, dim=1).numpy().astype(np.float32)
    ref.write(os.path.join(folder, "embeddings.safetensors"), found, texts=TEXTS, max_seq_length=LENGTH)


main(sys.argv[1], norms_before if "--pre" in sys.argv else usual)
