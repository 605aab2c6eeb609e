# SPDX-License-Identifier: Apache-2.0
"""transformers with compressed-tensors reads what `berth convert --to int8` writes. Each matrix is q * scale of the file, and
the cosine of the model's mean embeddings to those of the model in fp32 is at least 0.99 (compressed-tensors quantizes
activations without wide columns).
"""
import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

import shared

TEXTS = ["Who painted the ceiling of the chapel?", "The quick brown fox jumps over the lazy dog.",
         "A layer norm follows each residual sum.", "Prices rose by four percent in the second quarter."]


def embed(model, tokenizer, text):
    with torch.no_grad():
        return model(**tokenizer(text, return_tensors="pt")).last_hidden_state.mean(1)


def wide_scale(scales, q):
    """The scale of each column; scales are those of groups of columns."""
    return scales.repeat_interleave(q.shape[1] // scales.shape[1], 1)


def model_of_yours(given):
    wide_path, path = given.model, shared.convert(given, given.model, "int8", target=given.work / "model-int8")
    tokenizer = AutoTokenizer.from_pretrained(wide_path)
    wide, narrow = AutoModel.from_pretrained(wide_path), AutoModel.from_pretrained(path)
    stored = load_file(path / "model.safetensors")
    state = narrow.state_dict()
    count = 0
    for name, q in stored.items():
        if q.dtype == torch.int8:
            own = name.removeprefix("bert.")
            weight = state[own]
            scale = wide_scale(state[own + "_scale"], q) if weight.dtype == torch.int8 else 1
            assert torch.equal(weight.float() * scale, q.float() * wide_scale(stored[name + "_scale"], q)), name
            count += 1
    assert count > 0
    for text in TEXTS:
        cosine = torch.nn.functional.cosine_similarity(embed(wide, tokenizer, text),
                                                       embed(narrow, tokenizer, text)).item()
        print(f"{cosine:.6f} {text}")
        assert cosine >= 0.99
