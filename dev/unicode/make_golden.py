#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the golden files of tests/text from the reference programs (see check_tokenizer.py).

    make_golden.py tests/text [--data FOLDER]

tokenizer_vocab.txt   a small vocabulary: letters, marks and a few words, made here
tokenizer_golden.txt  a line a case: settings, the text in hexadecimal, id:begin:end of each token
                      (Google's rules: ids only); then tokenizers of other kinds, trained here on the words below: a
                      line with its tokenizer.json, then cases with the word of each token and the decoded text
data_hashes.h         with --data: for each text file of that folder, the number of lines and tokens
                      and a hash of all ids and offsets. The texts themselves are not in it.
"""
import argparse
import json
import pathlib
import random
import tempfile
import unicodedata

from check_pipelines import kinds, strings
from check_tokenizer import (SPECIALS, bare_pipeline, generated_texts, hugging_face, read_vocab,
                             references)

WORDS = ("the a an of to in and was is quick brown fox jump s ed ing un aff able cafe naive token "
         "ization word piece straße istanbul Istanbul Paris ΟΔΟΣ οδος οδοσ σοφος 2026 19 84 don t"
         ).split()
CASES = [
    "", " ", "the", "The quick brown fox jumps.", "unaffable", "un-aff-able!", "tokenization  of\twords",
    "Café naïve café", "don't", "Straße", "STRASSE", "İstanbul Istanbul", "ΟΔΟΣ ΣΟΦΟΣ Σ ΑΣ. ΑΣ'Α",
    "a\u0301\u0327\u0316b", "中国 the中a", "한국어 각", "\U0001f600\U0001f3fd a\u200db",
    "[CLS] the [SEP]", "a[MASK]b[cls][PAD]", "[UNK", "[[CLS]]", "the\u00a0a\u2028an\u3000of",
    "a\u00adb\u200bc\ufeffd", "\x00\x01\x7f\x85\ufffd", "x" * 100, "x" * 101, "é" * 100,
    "é" * 101, "x" * 200, "x" * 201, "가" * 34, "\ue000a\U000f0000", "\u037e;\u1fef`\u0387",
    "\U0001d15e\u0327\U0001d160\u0301", "a\u302e\u0316b\u0316\u302e", "\u0344\u302e\u0340", "\u212b\u2126\u212a",
    "ǅ ǆ Ǆ ß ẞ ﬁ", "\u1e9b\u0323", "२ हिन्दी தமிழ்", "\u09cb\u0dde", "！？。、", "…—“quoted”",
]


def small_vocab():
    letters = sorted(set("".join(CASES) + "".join(WORDS)))
    forms = set()
    for c in letters:
        for form in (c, c.lower()):
            forms.update(unicodedata.normalize("NFD", form))
            forms.update(form)
    forms = sorted(c for c in forms if unicodedata.category(c)[0] not in "CZ")
    tokens = SPECIALS + forms + ["##" + c for c in forms]
    tokens += [word for word in WORDS + ["##" + word for word in WORDS] if word not in tokens]
    random.Random(3).shuffle(tokens)
    return {token: number for number, token in enumerate(tokens)}


def golden_lines(vocab, extra):
    texts = CASES + list(generated_texts(extra, 7))
    for name, settings, reference in references(vocab):
        for text, tokens in zip(texts, reference(texts)):
            fields = [str(i) if begin is None else f"{i}:{begin}:{end}" for i, begin, end in tokens]
            yield " ".join(settings) + "\t" + text.encode().hex() + "\t" + " ".join(fields)


REPLACEMENTS = {"\t": " ", "\r": " ", "\r\n": " ", "\u00a0": " ", "\u3000": " ", "\u00ad": "", "\u200b": " ",
                "\ufb01": "fi", "\u2122": "TM", "e\u0301": "\u00e9", "o\u0302\u0301": "\u1ed1", "\uff01": "!", "\u2026": "..."}


def pipeline_lines():
    """Tokenizers of other kinds than BERT's, and what `tokenizers` makes of texts with them."""
    draw = random.Random(5)
    sentences = [" ".join(draw.choice(WORDS) for _ in range(draw.randint(2, 9))) + draw.choice(["", ".", "!", " 2026"])
                 for _ in range(400)] + CASES * 3
    texts = CASES + ["  two  blanks ", "a <mask>b  <mask> <s></s>", "Added addedAdded added \u00c9t\u00e9  x", "''q''"]
    texts += list(strings(60, 11))
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as rules:
        rules.writelines("\t".join(" ".join(f"{ord(c):X}" for c in text) for text in pair) + "\n"
                         for pair in REPLACEMENTS.items())
        rules.flush()
        for name, make in kinds([text for text in sentences if text and "\0" not in text], 240, normalization_rule_tsv=rules.name).items():
            if name in ("bpe-bytes-prefix", "bpe-suffix", "bpe-fallback", "unigram", "unigram-xlm", "unigram-bytes",
                        "wordpiece-other"):
                tokenizer = make()
                yield f"{name}\t{json.dumps(json.loads(tokenizer.to_str()), separators=(',', ':'))}\t"
                for text in texts:
                    encoding = tokenizer.encode(text, add_special_tokens=False)
                    fields = [f"{i}:{begin}:{end}:{word}" for i, (begin, end), word in
                              zip(encoding.ids, encoding.offsets, encoding.word_ids)]
                    decoded = tokenizer.decode(encoding.ids, skip_special_tokens=False)
                    yield "\t".join([name, text.encode().hex(), " ".join(fields), decoded.encode().hex()])


def mix(value, number):
    """One step of FNV-1a with a 32-bit number instead of a byte."""
    return ((value ^ number) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF


def hash_file(path, encode):
    lines = path.read_bytes().decode("utf-8").split("\n")
    count, value = 0, 0xCBF29CE484222325
    for tokens in encode(lines):
        count += len(tokens)
        for token in tokens:
            for number in token:
                value = mix(value, number)
        value = mix(value, 0xFFFFFFFF)
    return len(lines), count, value


def hash_rows(folder):
    vocab = read_vocab(folder / "vocab" / "bert-base-uncased-vocab.txt")
    for lower in (1, 0):
        encode = hugging_face(bare_pipeline(vocab, "uncased" if lower else "cased"))
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".txt", ".json"):
                lines, tokens, value = hash_file(path, encode)
                name = path.relative_to(folder).as_posix()
                yield f'    {{"{name}", {lower}, {lines}, {tokens}, 0x{value:016X}u}},'


HEADER = """// SPDX-License-Identifier: Apache-2.0
// Made by dev/unicode/make_golden.py; do not edit. What `tokenizers` makes of each line of the data
// files with bert-base-uncased-vocab.txt: counts, and FNV-1a over id, begin, end of every token and
// 0xFFFFFFFF after every line.
#ifndef BERTH_TEST_DATA_HASHES_H
#define BERTH_TEST_DATA_HASHES_H

#include <stdint.h>

static const struct {
    const char *file;
    int lower_case;
    uint64_t lines, tokens, hash;
} data_hashes[] = {
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path)
    arguments = parser.parse_args()
    vocab = small_vocab()
    with open(arguments.folder / "tokenizer_vocab.txt", "w", encoding="utf-8", newline="\n") as file:
        file.writelines(token + "\n" for token in vocab)
    with open(arguments.folder / "tokenizer_golden.txt", "w", encoding="ascii") as file:
        file.writelines(line + "\n" for line in golden_lines(vocab, 50))
        file.writelines(line + "\n" for line in pipeline_lines())
    if arguments.data:
        rows = "\n".join(hash_rows(arguments.data))
        (arguments.folder / "data_hashes.h").write_text(HEADER + rows + "\n};\n\n#endif\n")


if __name__ == "__main__":
    main()
