#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/golden/tags: a tiny BertForTokenClassification with its tokenizer, texts, and what the token-classification
pipeline of transformers finds in them (tags.json), in float64 from float32 weights: entities with the aggregation
strategies "first", "simple", "average" and "max", those of "first" with other labels to ignore, and the words that
are entities' parts (the first piece of each with "none").

    tags.py tests/golden/tags
"""
import json
import pathlib
import sys

import torch
import transformers

from words_model import words_model

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
TEXTS = ["The quick fox jumped over the lazy dog in Paris, France.", "Café in Paris is good! \U0001d400 中 the un dog",
         "hello", "a film , a dog , a fox ! the lazy brown dog is good ?",
         "jumped jumps dogs unable foxs filmed overs goods unlazy browned badable undogs"]


def rounded(rows: list) -> list:
    return [{key: value.item() if hasattr(value, "item") else value for key, value in row.items()} for row in rows]


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(15)
    tokenizer, config = words_model(
        folder, id2label=dict(enumerate(LABELS)), label2id={label: i for i, label in enumerate(LABELS)})
    model = transformers.BertForTokenClassification(config)
    torch.nn.init.normal_(model.classifier.weight, std=2)
    model.classifier.bias.data[0] = -1  # entities are not rare
    model.eval().save_pretrained(folder)
    model = model.double()
    found = []
    for text in TEXTS:
        row = {"text": text}
        for strategy in ("first", "simple", "average", "max", "none"):
            tag = transformers.pipeline("token-classification", model=model, tokenizer=tokenizer, device="cpu",
                                        aggregation_strategy=strategy)
            row[strategy] = rounded(tag(text))
            if strategy == "first":
                row["ignored"] = [{"labels": labels, "found": rounded(tag(text, ignore_labels=labels))}
                                  for labels in ([], ["O", "PER"], ["LOC"])]
        row["none"] = [word for word in row["none"] if not word["word"].startswith("##")]
        found.append(row)
    (folder / "tags.json").write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


main()
