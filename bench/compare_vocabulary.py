#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares vocabularies of `berth vocab` with those of tokenizers' WordPiece trainer.

Trains both on the same text at several sizes. Prints, for held-out text, the tokens per word of each (by
tokenizers' BERT tokenizer), the number of common pieces, and the seconds.

    compare_vocabulary.py --berth build/release/berth --train corpus.txt --test held-out.txt
"""
import argparse
import os
import subprocess
import tempfile
import time

from tokenizers import BertWordPieceTokenizer


def theirs(text, size, output):
    tokenizer = BertWordPieceTokenizer(lowercase=True)
    begin = time.perf_counter()
    tokenizer.train([text], vocab_size=size, min_frequency=2, limit_alphabet=1000,
                    show_progress=False)
    seconds = time.perf_counter() - begin
    pieces = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    with open(output, "w", encoding="utf-8") as file:
        file.writelines(piece + "\n" for piece, _ in pieces)
    return seconds


def ours(berth, text, size, output):
    begin = time.perf_counter()
    subprocess.run([berth, "vocab", "--text", text, "--size", str(size), "--output", output,
                    "--quiet"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def tokens_per_word(vocabulary, text):
    tokenizer = BertWordPieceTokenizer(vocabulary, lowercase=True)
    tokens = words = 0
    with open(text, encoding="utf-8") as file:
        for line in file:
            encoding = tokenizer.encode(line, add_special_tokens=False)
            tokens += len(encoding.ids)
            words += len(set(encoding.word_ids))
    return tokens / words


def pieces_of(path):
    with open(path, encoding="utf-8") as file:
        return set(file.read().splitlines())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--berth", default="berth")
    parser.add_argument("--train", required=True, help="text, a paragraph a line")
    parser.add_argument("--test", required=True, help="held-out text")
    parser.add_argument("--sizes", type=int, nargs="+", default=[2000, 8000, 16000, 30522])
    args = parser.parse_args()
    print("size    pieces berth/theirs  same    tokens per word berth/theirs   ratio  seconds")
    with tempfile.TemporaryDirectory() as folder:
        a, b = os.path.join(folder, "berth.txt"), os.path.join(folder, "theirs.txt")
        for size in args.sizes:
            seconds = ours(args.berth, args.train, size, a), theirs(args.train, size, b)
            mine, other = pieces_of(a), pieces_of(b)
            x, y = tokens_per_word(a, args.test), tokens_per_word(b, args.test)
            print(f"{size:6}  {len(mine):6}/{len(other):6}  {len(mine & other):6}  "
                  f"{x:.4f}/{y:.4f}  {x / y:.4f}  {seconds[0]:.2f}/{seconds[1]:.2f}")
            os.unlink(a)


if __name__ == "__main__":
    main()
