#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the vocabularies that `berth vocab` trains with those of the `tokenizers` package.

    check_trainers.py BERTH DUMP_TOKENS [--lines N] [--size N] [--seed S]

Both train on the same lines of message catalogues, in all languages that are installed, by the components of the
tokenizer.json that Berth writes. BPE must have the same pieces, ids and merges. Unigram's scores are sums in another
order, which in the library changes from run to run, so that of two equally useful pieces another one may stay: at most one
piece of 1,000 may be another, and if none is, scores may differ by 1e-6. Then `tokenizers` loads the file, and its ids of the
lines must be those of DUMP_TOKENS. Exits 1 if anything differs, 77 without the packages.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import check_pipelines
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def theirs(kind, path, lines, size):
    """The model that `tokenizers` trains by the components of the file."""
    file = Tokenizer.from_file(str(path))
    if kind == "bpe":
        tokenizer = Tokenizer(models.BPE())
        trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=2, special_tokens=SPECIALS, show_progress=False,
                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    else:
        tokenizer = Tokenizer(models.Unigram())
        trainer = trainers.UnigramTrainer(vocab_size=size, special_tokens=SPECIALS, unk_token="<unk>",
                                          show_progress=False)
    if file.normalizer is not None:
        tokenizer.normalizer = file.normalizer
    tokenizer.pre_tokenizer = file.pre_tokenizer
    tokenizer.train_from_iterator(lines, trainer)
    return json.loads(tokenizer.to_str())["model"]


def compare(kind, own, other, size):
    """What differs, as lines."""
    if kind == "bpe":
        merges = [list(pair) for pair in other["merges"]]
        return ["the pieces differ"] * (own["vocab"] != other["vocab"]) + ["the merges differ"] * (own["merges"] != merges)
    first, second = dict(map(tuple, own["vocab"])), dict(map(tuple, other["vocab"]))
    others = first.keys() - second.keys()
    if others:
        print(f"unigram: {len(others)} pieces of {len(first)} are others: {sorted(others)[:5]}")
        return ["more than one piece of 1,000 is another"] * (1000 * len(others) > size)
    # Characters that no round kept have scores in any order.
    pairs = [(first[piece], second[piece]) for piece in first if len(piece) > 1]
    pairs += zip(sorted(first[piece] for piece in first if len(piece) == 1),
                 sorted(second[piece] for piece in second if len(piece) == 1))
    apart = max(abs(a - b) for a, b in pairs)
    print(f"unigram: the pieces are the same, scores differ by at most {apart:.3g}")
    return [f"a score differs by {apart:.3g}"] * (apart > 1e-6)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("berth")
    parser.add_argument("program")
    parser.add_argument("--lines", type=int, default=20000)
    parser.add_argument("--size", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    texts = check_pipelines.languages()
    if not texts:
        print("skipped: no message catalogues in /usr/share/locale")
        return 77
    draw, failed = random.Random(args.seed), False
    each = max(1, args.lines // len(texts))
    lines = [line for name in sorted(texts) for line in draw.sample(texts[name], min(each, len(texts[name])))]
    # As Berth reads a text: without white space at the ends of lines.
    lines = [line for line in (line.replace("\r", "").replace("\0", "").rstrip() for line in lines) if line]
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for kind in ("bpe", "unigram"):
        for case in ("false", "true"):
            path = folder / f"{kind}-{case}.json"
            subprocess.run([args.berth, "vocab", "--text", folder / "text.txt", "--model_type", kind, "--size",
                            str(args.size), "--do_lower_case", case, "--output", path, "--quiet"], check=True,
                           stdout=subprocess.DEVNULL)
            own = json.loads(path.read_text(encoding="utf-8"))["model"]
            wrong = compare(kind, own, theirs(kind, path, lines, args.size), args.size)
            count, tokens, differ = check_pipelines.compare(args.program, Tokenizer.from_file(str(path)), path, iter(lines))
            wrong += [f"{len(differ)} lines have other tokens"] if differ else []
            print(f"{kind}, lower case {case}: {len(own['vocab'])} pieces of {count} lines, {tokens} tokens: "
                  f"{'; '.join(wrong) or 'the same'}", flush=True)
            failed |= bool(wrong)
    return failed


if __name__ == "__main__":
    sys.exit(main())
