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

WORDS = ("the a an quick brown fox jump ##s ##ed over lazy dog paris is in france . , ? ! ' n't 's é café 中 un "
         "##able good bad film hello").split()
TEXTS = ["the [MASK] fox jumped over the lazy dog.", "Café in [MASK], is good!", "[MASK]", "un[MASK] film , 中 [MASK] ?",
         "the zebra is [MASK]", "[MASK] [MASK] [MASK] the dog"]
TOP_K = 4


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    torch.manual_seed(8)
    transformers.utils.logging.set_verbosity_error()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (folder / "vocab.txt").write_text("".join(f"{w}\n" for w in specials + WORDS), encoding="utf-8")
    tokenizer = transformers.BertTokenizer(vocab={w: i for i, w in enumerate(specials + WORDS)})
    config = transformers.BertConfig(
        vocab_size=len(specials) + len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=24, initializer_range=0.5)
    model = transformers.BertForMaskedLM(config)
    torch.nn.init.normal_(model.cls.predictions.bias, std=0.5)
    model.eval().save_pretrained(folder)
    for extra in folder.glob("generation_config.json"):
        extra.unlink()
    fill = transformers.pipeline("fill-mask", model=model.double(), tokenizer=tokenizer, device="cpu", top_k=TOP_K)
    found = [{"text": text, "found": fill(text)} for text in TEXTS]
    (folder / "fill.json").write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


main()
