#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the output of `berth convert --to int8` with transformers and compressed-tensors and compares it.

Every dequantized matrix must equal q * scale of the file, and the cosine of the model's mean embeddings to those of
the model in fp32 must be at least 0.99 (compressed-tensors quantizes activations without wide columns). Prints the
number of matrices and the cosines. Needs: torch, transformers, compressed-tensors, safetensors.

    check_int8.py all-MiniLM-L6-v2 minilm-int8
"""
import sys

import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

TEXTS = ["Who painted the ceiling of the chapel?", "The quick brown fox jumps over the lazy dog.",
         "A layer norm follows each residual sum.", "Prices rose by four percent in the second quarter."]


def embed(model, tokenizer, text):
    with torch.no_grad():
        return model(**tokenizer(text, return_tensors="pt")).last_hidden_state.mean(1)


def wide_scale(scales, q):
    """The scale of each column; scales are those of groups of columns."""
    return scales.repeat_interleave(q.shape[1] // scales.shape[1], 1)


def main():
    wide_path, path = sys.argv[1:]
    tokenizer = AutoTokenizer.from_pretrained(wide_path)
    wide, narrow = AutoModel.from_pretrained(wide_path), AutoModel.from_pretrained(path)
    stored = load_file(path + "/model.safetensors")
    state = narrow.state_dict()
    count = 0
    for name, q in stored.items():
        if q.dtype == torch.int8:
            own = name.removeprefix("bert.")
            weight = state[own]
            scale = wide_scale(state[own + "_scale"], q) if weight.dtype == torch.int8 else 1
            assert torch.equal(weight.float() * scale, q.float() * wide_scale(stored[name + "_scale"], q)), name
            count += 1
    print(count, "matrices equal")
    assert count > 0
    for text in TEXTS:
        cosine = torch.nn.functional.cosine_similarity(embed(wide, tokenizer, text),
                                                       embed(narrow, tokenizer, text)).item()
        print(f"{cosine:.6f} {text}")
        assert cosine >= 0.99


main()
