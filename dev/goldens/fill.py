#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/golden/fill: a tiny BertForMaskedLM with its tokenizer, texts with [MASK], and what the fill-mask
pipeline of transformers finds for them (fill.json), in float64 from float32 weights.

    fill.py tests/golden/fill
"""
import json
import pathlib
import sys

import torch
import transformers

from words_model import words_model

TEXTS = ["the [MASK] fox jumped over the lazy dog.", "Café in [MASK], is good!", "[MASK]", "un[MASK] film , 中 [MASK] ?",
         "the zebra is [MASK]", "[MASK] [MASK] [MASK] the dog"]
TOP_K = 4
TARGETS = ["dog", "fox", "paris", "dog", "the"]


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(8)
    tokenizer, config = words_model(folder)
    model = transformers.BertForMaskedLM(config)
    torch.nn.init.normal_(model.cls.predictions.bias, std=0.5)
    model.eval().save_pretrained(folder)
    for extra in folder.glob("generation_config.json"):
        extra.unlink()
    fill = transformers.pipeline("fill-mask", model=model.double(), tokenizer=tokenizer, device="cpu", top_k=TOP_K)
    found = [{"text": text, "found": fill(text), "targets": TARGETS, "among": fill(text, targets=TARGETS)}
             for text in TEXTS]
    (folder / "fill.json").write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


main()
