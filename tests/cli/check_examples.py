#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what a program of examples/ printed with what the program `berth` shows, or with a file of tests/golden.

    check_examples.py NAME PRINTED FILE...
"""
import json
import math
import pathlib
import re
import sys


def close(a: float, b: float, bound: float) -> bool:
    return abs(a - b) <= bound


def answer(lines: list, shown: str):
    answers = json.loads(shown)["answers"]
    return [f"{100 * each['probability']:5.1f} %  {each['text']} [{each['start']}, {each['end']})" for each in answers]


# The examples name no precision: the library takes the machine's faster one, bf16 on some. What they print is what `berth`
# prints with --precision auto, to the last digit, and what transformers finds in fp32 as far as bf16 allows: it rounds
# each activation by up to 2^-9 of it, which moves a probability of these models by up to 0.015. Berth's fp32 is compared
# with the same files in test_texts.sh.
ROUNDED = 0.02


def fill(lines: list, shown: str, golden: str):
    own, words = json.loads(shown)[:3], json.loads(golden)[0]["found"][:3]
    if not all(a["token_str"] == b["token_str"] and close(a["score"], b["score"], ROUNDED) for a, b in zip(own, words)):
        return words
    return [", ".join(f"{word['token_str']} {word['score']:.4f}" for word in own)]


def tag(lines: list, shown: str, golden: str):
    own, row = json.loads(shown), json.loads(golden)[0]
    same = len(own) == len(row["first"]) and all(
        all(a[key] == b[key] for key in ("entity_group", "start", "end")) and close(a["score"], b["score"], ROUNDED)
        for a, b in zip(own, row["first"]))
    return [f"1  {each['entity_group']:<5} {each['score']:.3f}  {row['text'][each['start']:each['end']]}"
            for each in own] if same else row["first"]


def vectors(shown: str) -> list:
    return [json.loads(line)["embedding"] for line in shown.splitlines()]


def threads(lines: list, shown: str):
    rows = vectors(shown)
    found = re.fullmatch(r"(\d+) texts, sum (-?[\d.]+)", lines[0])
    if int(found[1]) != len(rows) or not close(float(found[2]), sum(map(sum, rows)), 1e-4):
        return [f"{len(rows)} texts, sum {sum(map(sum, rows)):.6f}"]
    return lines


def nearest(lines: list, shown: str, texts: str):
    query, *rows = vectors(shown)
    scores = sorted(((sum(a * b for a, b in zip(query, row)), text) for row, text in zip(rows, texts.splitlines())),
                    reverse=True)[:5]
    found = [line.split("  ", 1) for line in lines]
    same = len(found) == len(scores) and all(close(float(score), right, 1e-4) and text == name
                                             for (score, text), (right, name) in zip(found, scores))
    return lines if same else scores


def rerank(lines: list, numbers: str, passages: str):
    numbers = [1 / (1 + math.exp(-float(number))) for number in numbers.split()]
    scores = sorted(zip(numbers, passages.splitlines()), reverse=True)
    found = [line.split("  ", 1) for line in lines]
    same = len(found) == len(scores) and all(close(float(score), right, 2e-4) and text == name
                                             for (score, text), (right, name) in zip(found, scores))
    return lines if same else scores


def train(lines: list, records: str, config: str):
    """The losses are those of the program until the one at which the example stops."""
    steps = [record for record in map(json.loads, records.splitlines()) if record["kind"] == "step"]
    if not 1 < len(steps) or not any(step["loss"] < 0.3 for step in steps[:-1]):
        return ["a training that the example ends early"]
    losses = [f"{step['step']} {step['loss']:.4f}" for step in steps]
    count = next((i + 1 for i, step in enumerate(steps) if step["loss"] < 0.3), len(steps))
    scores = [line.split() for line in lines[count + 1:]]
    if json.loads(config)["architectures"] != ["BertForSequenceClassification"] or \
            sorted(name for name, _ in scores) != ["bad", "good"] or not close(sum(float(s) for _, s in scores), 1, 2e-4):
        return ["good and bad with probabilities"]
    return [*losses[:count], f"{count} updates", *lines[count + 1:]]


def convert(lines: list, shown: str):
    names = [line.split()[0] for line in lines[:-1]]
    missing = [name for name in names if name not in shown]
    return missing if missing or not names else [*lines[:-1], f"{len(names)} tensors"]


def main():
    name, printed, *files = sys.argv[1:]
    lines = pathlib.Path(printed).read_text().splitlines()
    expected = globals()[name](lines, *(pathlib.Path(file).read_text() for file in files))
    if lines != expected:
        sys.exit(f"printed {lines}, expected {expected}")


main()
