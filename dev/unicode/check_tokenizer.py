#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Berth's tokenizer with the reference programs on real and on generated text.

    check_tokenizer.py DUMP_TOKENS [--data FOLDER] [--strings N] [--seed S] [--only WORD]

DUMP_TOKENS is the program that tests/text builds. The references are the `tokenizers` package, alone and with
the special tokens that `transformers` gives its BERT tokenizer, ids and offsets; and for Google's rules the
words of tokenization.py, implemented below, ids only. Real text: every line of every file in FOLDER, and
every string in its JSON files. Generated text: N strings for each reference over an alphabet from all of
Unicode, with a vocabulary that has every code point as a piece, so that ids show every single character.
Prints one line for each comparison; exits 1 if anything differs.
"""
import argparse
import bz2
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

import numpy
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CHUNK = 200000


# --- references -----------------------------------------------------------------------------------

def accents(case):
    """strip_accents in the form of dump_tokens' settings."""
    return True if "-strip" in case else False if "-keep" in case else None


def bare_pipeline(vocab, case):
    lower = case.startswith("uncased")
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars="-whole" not in case, strip_accents=accents(case),
        lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def with_special_tokens(vocab, case):
    from transformers import BertTokenizerFast
    from transformers.utils import logging
    logging.set_verbosity_error()
    tokenizer = BertTokenizerFast(vocab=vocab, do_lower_case=case.startswith("uncased"),
                                  strip_accents=accents(case),
                                  tokenize_chinese_chars="-whole" not in case)
    return tokenizer.backend_tokenizer


def hugging_face(tokenizer):
    """A function from texts to lists of (id, begin, end)."""
    def encode(texts):
        for encoding in tokenizer.encode_batch(texts, add_special_tokens=False):
            offsets = encoding.offsets
            yield [(i, b, e) for i, (b, e) in zip(encoding.ids, offsets)]
    return encode


def google_words(text, case):
    """BasicTokenizer of Google's tokenization.py."""
    ranges = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
              (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))
    clean = []
    for c in text:
        category = unicodedata.category(c)
        if c in " \t\n\r" or category == "Zs":
            clean.append(" ")
        elif ord(c) in (0, 0xFFFD) or category in ("Cc", "Cf"):
            continue
        elif "-whole" not in case and any(first <= ord(c) <= last for first, last in ranges):
            clean.append(" " + c + " ")
        else:
            clean.append(c)
    for word in "".join(clean).split():
        if case.startswith("uncased"):
            word = word.lower()
        if accents(case) or accents(case) is None and case.startswith("uncased"):
            word = unicodedata.normalize("NFD", word)
            word = "".join(c for c in word if unicodedata.category(c) != "Mn")
        begin = 0
        for at, c in enumerate(word):
            if 33 <= ord(c) < 127 and not c.isalnum() or unicodedata.category(c)[0] == "P":
                yield from filter(None, (word[begin:at], c))
                begin = at + 1
        if word[begin:]:
            yield word[begin:]


def google_pieces(word, vocab):
    """WordpieceTokenizer of Google's tokenization.py."""
    unknown = [vocab["[UNK]"]]
    if len(word) > 200:
        return unknown
    ids, begin = [], 0
    while begin < len(word):
        end = len(word)
        while end > begin and ("##" if begin else "") + word[begin:end] not in vocab:
            end -= 1
        if end == begin:
            return unknown
        ids.append(vocab[("##" if begin else "") + word[begin:end]])
        begin = end
    return ids


def google(vocab, case):
    def encode(texts):
        for text in texts:
            yield [(i, None, None) for word in google_words(text, case)
                   for i in google_pieces(word, vocab)]
    return encode


# --- texts ----------------------------------------------------------------------------------------

def strings_of(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from strings_of(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings_of(item)


def real_texts(folder):
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        raw = path.read_bytes()
        if path.suffix == ".bz2":
            raw = bz2.decompress(raw)
        text = raw.decode("utf-8")
        yield from text.split("\n")
        if path.suffix == ".json":
            yield from strings_of(json.loads(text))


def alphabets(everything):
    """Lists of characters that texts are drawn from, the odd ones in small company."""
    by_category = {}
    for c in everything:
        by_category.setdefault(unicodedata.category(c), []).append(c)
    marks = [c for c in everything if unicodedata.combining(c)]
    spacing = [c for c in marks if unicodedata.category(c) != "Mn"]
    composed = [c for c in everything if len(unicodedata.normalize("NFD", c)) > 1
                and not 0xAC00 <= ord(c) < 0xD7A4]
    singles = [c for c in everything if c != unicodedata.normalize("NFD", c) and c not in composed]
    music = [chr(p) for p in range(0x1D157, 0x1D1BC)]
    return [
        list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"),
        list(" \t\n\r\x0b\x0c\x00\x1f\x7f\x85\xa0\u2028\u2029\u200b\u200d\u3000\ufeff\ufffd"),
        list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\u037e\u1fef\u0387"),
        list("\u03a3\u03c3\u03c2\u0130\u0131\u1e9eaA.'\u00ad\u0301\u0345 \u02b0"),
        ["ſ", "K", "Å", "Ω", "ẞ", "ß", "é", "É", "ñ", "Ç", "ü", "ﬁ", "Ǆ", "ǅ"],
        marks, spacing, composed, singles, music,
        [chr(p) for p in range(0x0591, 0x05F5)], [chr(p) for p in range(0x0900, 0x0E00)],
        [chr(p) for p in range(0xAC00, 0xD7A4)] + [chr(p) for p in range(0x1100, 0x1200)],
        [chr(p) for p in range(0x3400, 0xA000)] + [chr(p) for p in range(0xF900, 0xFB00)],
        [chr(p) for p in range(0x20000, 0x2FA20)],
        [chr(p) for p in range(0x1F300, 0x1FB00)] + ["\u200d", "\ufe0f", "\U000e0067"],
        [chr(p) for p in (*range(0xE000, 0xE100), *range(0xF0000, 0xF0100), 0x10FFFF, 0x10FFFE)],
        *by_category.values(), everything, everything, everything,
    ]


def generated_texts(count, seed):
    rng = random.Random(seed)
    everything = [chr(p) for p in range(0x110000) if not 0xD800 <= p < 0xE000]
    sources = alphabets(everything)
    for _ in range(count):
        kind = rng.random()
        mixture = [rng.choice(sources) for _ in range(rng.randint(1, 4))]
        if kind < 0.02:  # around the longest word
            letter = rng.choice(["a", "é", "é", "\U0001d15e", "가"])
            yield "x" * rng.randint(0, 3) + letter * rng.randint(31, 202) + " " + letter * 100
        elif kind < 0.07:  # special tokens, complete and damaged
            yield "".join(rng.choice(SPECIALS + ["[", "]", "[cls]", "[CLS", "CLS]", " ", "a", "é",
                                                 "\u0301", "[[", "\U0001d165"])
                          for _ in range(rng.randint(1, 12)))
        else:
            yield "".join(rng.choice(rng.choice(mixture)) for _ in range(rng.randint(1, 30)))


# --- comparison -----------------------------------------------------------------------------------

def berth_tokens(program, vocab_path, rules, case, special, texts):
    data = [text.encode("utf-8") for text in texts]
    packed = b"".join(struct.pack("=I", len(item)) + item for item in data)
    output = subprocess.run([program, vocab_path, rules, case, special], input=packed,
                            stdout=subprocess.PIPE, check=True).stdout
    numbers = numpy.frombuffer(output, dtype=numpy.int32)
    at = 0
    for _ in texts:
        count = int(numbers[at])
        yield numbers[at + 1:at + 1 + 6 * count].reshape(count, 6)
        at += 1 + 6 * count
    assert at == len(numbers)


def byte_offsets_agree(text, tokens):
    """Whether the byte offsets correspond to the character offsets."""
    sizes = numpy.array([0] + [len(c.encode("utf-8")) for c in text]).cumsum()
    return (numpy.array_equal(sizes[tokens[:, 2]], tokens[:, 4])
            and numpy.array_equal(sizes[tokens[:, 3]], tokens[:, 5]))


def compare(name, program, vocab_path, settings, reference, texts):
    strings = tokens = wrong = 0
    chunk = []

    def flush():
        nonlocal strings, tokens, wrong
        ours = berth_tokens(program, vocab_path, *settings, chunk)
        for text, found, expected in zip(chunk, ours, reference(chunk)):
            strings += 1
            tokens += len(found)
            if expected and expected[0][1] is None:
                same = found[:, 0].tolist() == [item[0] for item in expected]
            else:
                same = found[:, (0, 2, 3)].tolist() == [list(item) for item in expected]
            if not same or not byte_offsets_agree(text, found):
                wrong += 1
                if wrong <= 5:
                    print(f"DIFFERENT {name}: {text!a}\n  found    "
                          f"{found[:, (0, 2, 3, 4, 5)].tolist()}\n  expected {expected}")
        chunk.clear()

    for text in texts:
        chunk.append(text)
        if len(chunk) == CHUNK:
            flush()
    if chunk:
        flush()
    print(f"{name}: {strings} texts, {tokens} tokens, {wrong} different", flush=True)
    return wrong


def read_vocab(path):
    with open(path, encoding="utf-8", newline="\n") as lines:
        return {line.rstrip("\n"): number for number, line in enumerate(lines)}


def full_vocab():
    pieces = [chr(p) for p in range(33, 0x110000) if not 0xD800 <= p < 0xE000]
    return {piece: number for number, piece in
            enumerate(SPECIALS + pieces + ["##" + piece for piece in pieces])}


def references(vocab, only=""):
    """(name, settings of dump_tokens, function from texts to tokens) of the chosen references."""
    kinds = {"tokenizers": ("huggingface", "split", lambda *a: hugging_face(bare_pipeline(*a))),
             "transformers": ("huggingface", "keep",
                              lambda *a: hugging_face(with_special_tokens(*a))),
             "google": ("google", "split", google)}
    for case in ("uncased", "cased", "uncased-keep", "cased-strip", "uncased-whole",
                 "cased-strip-whole"):
        for kind, (rules, special, make) in kinds.items():
            name = f"{kind} {case}"
            if only in name:
                yield name, (rules, case, special), make(vocab, case)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--strings", type=int, default=1000000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help='a part of the names: "google", "cased", ...')
    arguments = parser.parse_args()
    wrong = 0
    if arguments.data:
        path = arguments.data / "vocab" / "bert-base-uncased-vocab.txt"
        for name, settings, reference in references(read_vocab(path), arguments.only):
            wrong += compare("data, " + name, arguments.program, path, settings, reference,
                             real_texts(arguments.data))
    if arguments.strings > 0:
        vocab = full_vocab()
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="\n") as file:
            file.write("".join(piece + "\n" for piece in vocab))
            file.flush()
            for name, settings, reference in references(vocab, arguments.only):
                wrong += compare("generated, " + name, arguments.program, file.name, settings,
                                 reference, generated_texts(arguments.strings, arguments.seed))
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
