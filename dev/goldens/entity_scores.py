#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/metrics/entities.golden.txt with seqeval: the scores of random tags, good and bad ones, of
each scheme, in its default mode and, where the scheme allows the tags, in mode "strict".

A case is a line "case NAME", a line for the tags of each sentence (reference, then " | ", then prediction),
and lines "scores MODE precision recall f1 accuracy" with 17 digits, MODE "default" or a scheme; "types MODE"
lists "TYPE precision recall f1 number".

    entity_scores.py tests/metrics/entities.golden.txt
"""
import random
import sys
import warnings

from seqeval import scheme as schemes
from seqeval.metrics import accuracy_score, classification_report, f1_score, precision_score, recall_score

LETTERS = {"IOB1": "IOB", "IOB2": "IOB", "IOE1": "IOE", "IOE2": "IOE", "IOBES": "IOBES", "BILOU": "BILOU"}
TYPES = ("PER", "LOC", "B-ORG", "x")
# Tags that no scheme has, for the default mode alone.
ODD = ("B", "I", "PER", "NOUN", "X", "Y-LOC", ".", "E-", "I--", "BPER", "\u00dc-LOC", "o", "O-x")


def random_tags(rng, letters, count, odd):
    tags = []
    for _ in range(count):
        if odd and rng.random() < 0.4:
            tags.append(rng.choice(ODD))
            continue
        letter = rng.choice(letters)
        kind = tags[-1].partition("-")[2] if tags and "-" in tags[-1] and rng.random() < 0.7 else rng.choice(TYPES)
        tags.append("O" if letter == "O" else f"{letter}-{kind or 'x'}")
    return tags


def predicted(rng, reference, letters, odd):
    error_rate = rng.choice((0.0, 0.05, 0.3, 1.0))
    other = random_tags(rng, letters, len(reference), odd)
    return [b if rng.random() < error_rate else a for a, b in zip(reference, other)]


def line(numbers):
    return " ".join(f"{float(number):.17g}" for number in numbers)


def scores(truth, guess, mode):
    keys = {} if mode == "default" else {"mode": "strict", "scheme": getattr(schemes, mode)}
    report = classification_report(truth, guess, output_dict=True, zero_division=0, **keys)
    overall = [score(truth, guess, zero_division=0, **keys) for score in (precision_score, recall_score, f1_score)]
    yield f"scores {mode} {line([*overall, accuracy_score(truth, guess)])}"
    types = sorted(kind for kind in report if not kind.endswith(" avg"))
    yield f"types {mode} {len(types)}"
    for kind in types:
        own = report[kind]
        yield f"{kind} {line([own['precision'], own['recall'], own['f1-score']])} {int(own['support'])}"


def main():
    warnings.simplefilter("ignore")
    rng = random.Random(11)
    out = []
    for number in range(60):
        name = rng.choice(list(LETTERS))
        odd = number % 5 == 4
        truth = [random_tags(rng, LETTERS[name], rng.randint(1, 12), odd) for _ in range(rng.randint(1, 6))]
        guess = [predicted(rng, tags, LETTERS[name], odd) for tags in truth]
        out.append(f"case {number}-{name}")
        out += [f"{' '.join(a)} | {' '.join(b)}" for a, b in zip(truth, guess)]
        for mode in ["default"] if odd else ["default", name]:
            out += scores(truth, guess, mode)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")


main()
