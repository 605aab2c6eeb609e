#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the tokens per second of Berth and of Hugging Face's `tokenizers`, on one core each.

    compare_tokenizer.py BENCH_TOKENIZER VOCAB|TOKENIZER.json SQUAD_JSON|LINES [--seconds S] [--rounds N]

BENCH_TOKENIZER is the program that tests/text builds from bench/tokenizer.c. The text is the contexts of
SQUAD_JSON, or lines. Both programs alternate for N rounds. `tokenizers` runs without its thread pool, with one text per
call and with all texts in one call, and the faster one counts. Prints one JSON object with the median and the
best of each and the ratio of the bests.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # read when the package is first used

import tokenizers  # noqa: E402
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers  # noqa: E402


def reference(vocab_path):
    if vocab_path.endswith(".json"):
        return Tokenizer.from_file(vocab_path)
    with open(vocab_path, encoding="utf-8", newline="\n") as lines:
        vocab = {line.rstrip("\n"): number for number, line in enumerate(lines)}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True,
                                                      strip_accents=None, lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def passes(encode, texts, seconds):
    """Tokens of a pass and the tokens a second of each pass within `seconds`."""
    rates, begin = [], time.perf_counter()
    while not rates or time.perf_counter() - begin < seconds:
        before = time.perf_counter()
        encodings = encode(texts)
        elapsed = time.perf_counter() - before
        tokens = sum(len(encoding.ids) for encoding in encodings)
        rates.append(tokens / elapsed)
    return tokens, rates


def contexts(path):
    if not path.endswith(".json"):
        with open(path, encoding="utf-8", newline="\n") as lines:
            return lines.read().split("\n")
    with open(path, encoding="utf-8") as file:
        data = json.load(file)["data"]
    return [paragraph["context"].replace("\n", " ") for article in data
            for paragraph in article["paragraphs"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("vocab")
    parser.add_argument("squad")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    texts = contexts(arguments.squad)
    tokenizer = reference(arguments.vocab)
    methods = {
        "single": lambda items: [tokenizer.encode(item, add_special_tokens=False)
                                 for item in items],
        "batch": lambda items: tokenizer.encode_batch(items, add_special_tokens=False),
        "batch_fast": lambda items: tokenizer.encode_batch_fast(items, add_special_tokens=False),
    }
    berth, theirs = [], {name: [] for name in methods}
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        file.write("\n".join(texts))
        file.flush()
        for _ in range(arguments.rounds):
            output = subprocess.run([arguments.program, arguments.vocab, file.name,
                                     str(arguments.seconds)], stdout=subprocess.PIPE, check=True)
            berth.append(json.loads(output.stdout))
            for name, encode in methods.items():
                tokens, rates = passes(encode, texts, arguments.seconds)
                theirs[name] += rates
                assert tokens == berth[-1]["tokens"], (tokens, berth[-1]["tokens"])
    best = max(one["best_tokens_per_second"] for one in berth)
    fastest = max(theirs, key=lambda name: max(theirs[name]))
    print(json.dumps({
        "texts": len(texts), "tokens": berth[0]["tokens"],
        "berth_tokens_per_second": round(statistics.median(
            one["tokens_per_second"] for one in berth)),
        "berth_best_tokens_per_second": round(best),
        "tokenizers": tokenizers.__version__, "tokenizers_call": fastest,
        "tokenizers_tokens_per_second": round(statistics.median(theirs[fastest])),
        "tokenizers_best_tokens_per_second": round(max(theirs[fastest])),
        "ratio": round(best / max(theirs[fastest]), 2)}))


if __name__ == "__main__":
    main()
