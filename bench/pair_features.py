# SPDX-License-Identifier: Apache-2.0
"""Reads MRPC's raw files as inputs for PyTorch, with transformers' own tokenizer: [CLS] a [SEP] b [SEP],
truncated to max_seq. Leaves out other tasks and other layouts.
"""
from dataclasses import dataclass

from transformers import BertTokenizerFast


@dataclass
class Feature:
    input_ids: list
    token_type_ids: list
    label: int


def load(vocab, path, max_seq):
    """Features of msr_paraphrase_*.txt: a header, then Quality, two numbers and two texts."""
    tokenizer = BertTokenizerFast(vocab, do_lower_case=True)
    rows = []
    with open(path, encoding="utf-8-sig", newline="\n") as file:
        next(file)
        for line in file:
            rows.append(line.rstrip("\r\n").split("\t"))
    parts = tokenizer([r[3] for r in rows], [r[4] for r in rows], truncation=True, max_length=max_seq)
    return [Feature(i, t, int(r[0]))
            for i, t, r in zip(parts["input_ids"], parts["token_type_ids"], rows)]
