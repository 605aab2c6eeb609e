#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes sparse.json: what a SparseEncoder of sentence-transformers (SpladePooling, max) makes of texts with the model of
tests/golden/fill, in float64 from float32 weights.

    sparse.py tests/golden/fill
"""
import json
import pathlib
import sys

import sentence_transformers
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sparse_encoder.modules import SpladePooling

TEXTS = ["the quick brown fox jumped over the lazy dog.", "Café in France, is good!", "film", "unable bad film hello ? 中",
         "the fox is in paris , the dog is over the film , the bad film is in france ."]


def main():
    folder = pathlib.Path(sys.argv[1])
    body = Transformer(str(folder), transformer_task="fill-mask", max_seq_length=16)
    model = sentence_transformers.SparseEncoder(modules=[body, SpladePooling("max")], device="cpu").double()
    found = []
    for text, row in zip(TEXTS, model.encode(TEXTS, convert_to_sparse_tensor=False).tolist(), strict=True):
        words = [{"token": token, "token_str": model.tokenizer.convert_ids_to_tokens(token), "weight": weight}
                 for token, weight in enumerate(row) if weight > 0]
        found.append({"text": text, "words": sorted(words, key=lambda word: -word["weight"])})
    (folder / "sparse.json").write_text(json.dumps({"max_seq_length": 16, "found": found}, ensure_ascii=False, indent=1) + "\n",
                                        encoding="utf-8")


main()
