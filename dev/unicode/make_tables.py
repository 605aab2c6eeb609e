#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes src/text/unicode_tables.h by querying the reference programs for every code point.

Hugging Face's rules are derived from the `tokenizers` package (what it drops, treats as white space, pads,
splits at, decomposes, reorders and lower-cases); Google's from Python's own str and unicodedata, which its
tokenization.py uses. Nothing is read from the Unicode files themselves, so the tables reproduce the versions
and the errors of the two programs.

    python3 dev/unicode/make_tables.py > src/text/unicode_tables.h      (needs: tokenizers)
"""
import sys
import unicodedata

import tokenizers
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

DROP, SPACE, PUNCTUATION, CJK, MARK, MAPPED, KEPT, CASED, IGNORABLE, WORD = (1 << i for i in range(10))
POINTS = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
HANGUL = range(0xAC00, 0xD7A4)
BLOCK = 128
POOL = 0x80000000


class HuggingFace:
    """Probes of the tokenizers package."""

    def __init__(self):
        self.whole = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
        self.whole.add_special_tokens([AddedToken("<x>", single_word=True)])
        self.clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True,
                                                strip_accents=None, lowercase=False)
        self.full = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True,
                                               strip_accents=None, lowercase=True)
        self.strip = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False,
                                                strip_accents=True, lowercase=False)
        self.nfd = normalizers.NFD()
        self.lower = normalizers.Lowercase()
        self.lower_only = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False,
                                                     strip_accents=False, lowercase=True)
        self.split = pre_tokenizers.BertPreTokenizer()
        self.marks = {c for c in map(chr, POINTS)
                      if self.nfd.normalize_str(c) == c and not self.strip.normalize_str(c)}
        self.representatives = {}
        for point in POINTS:
            number = unicodedata.combining(chr(point))
            if number and self.nfd.normalize_str(chr(point)) == chr(point) and self.moves(chr(point)):
                self.representatives.setdefault(number, chr(point))
        self.ordered = sorted(self.representatives)

    def swaps(self, first, second):
        return first != second and self.nfd.normalize_str(first + second) == second + first

    def moves(self, c):
        """Whether the package treats c as a combining character: older ones of class 1 or 240 move."""
        return self.swaps(c, "\u0334") or self.swaps("\u0345", c)

    def combining(self, c):
        """The combining class by which the package orders c, found by comparison with others."""
        if not self.moves(c):
            return 0
        fitting = [n for n in self.ordered if not self.swaps(c, self.representatives[n])
                   and not self.swaps(self.representatives[n], c)]
        assert len(fitting) == 1, (hex(ord(c)), fitting)
        return fitting[0]

    def surface(self, c):
        text = self.clean.normalize_str("a" + c + "a")
        if text == "aa":
            return DROP
        if text == "a a":
            return SPACE
        flags = CJK if text == "a " + c + " a" else 0
        assert flags or text == "a" + c + "a", hex(ord(c))
        pieces = [piece for piece, _ in self.split.pre_tokenize_str("a" + c + "a")]
        assert pieces in (["a" + c + "a"], ["a", c, "a"]), hex(ord(c))
        return flags | (PUNCTUATION if len(pieces) == 3 else 0)

    def is_word(self, c):
        """Whether a token that must be a single word is not found beside c."""
        return "<x>" not in self.whole.encode("<x>" + c).tokens

    def expansion(self, c):
        return self.nfd.normalize_str(c)

    def after(self, c):
        """The result for one character of an expansion."""
        return "" if c in self.marks else self.lower.normalize_str(c)

    def lowered(self, c):
        return self.lower_only.normalize_str(c)

    def stripped(self, c):
        return self.strip.normalize_str(c)

    def check(self, c, flags, output):
        padded = " " + output + " " if flags & CJK else output
        assert self.full.normalize_str("a" + c + "a") == "a" + padded + "a", hex(ord(c))


class Google:
    """Probes of Python's str and unicodedata in the order that tokenization.py uses them."""

    RANGES = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
              (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))

    def combining(self, c):
        return unicodedata.combining(c)

    def surface(self, c):
        point, category = ord(c), unicodedata.category(c)
        if c not in "\t\n\r" and (point in (0, 0xFFFD) or category in ("Cc", "Cf")):
            return DROP
        if c in "\t\n\r" or category == "Zs" or c.isspace():
            return SPACE
        flags = CJK if any(first <= point <= last for first, last in self.RANGES) else 0
        if category[0] == "P" or 33 <= point < 127 and not c.isalnum():
            flags |= PUNCTUATION
        if (c + "\u03a3").lower()[-1] == "\u03c2":
            flags |= CASED
        elif ("a" + c + "\u03a3").lower()[-1] == "\u03c2":
            flags |= IGNORABLE
        return flags

    def expansion(self, c):
        return unicodedata.normalize("NFD", c.lower())

    def after(self, c):
        return "" if unicodedata.category(c) == "Mn" else c

    def lowered(self, c):
        return c.lower()

    def stripped(self, c):
        return "".join(x for x in unicodedata.normalize("NFD", c) if unicodedata.category(x) != "Mn")

    def check(self, c, flags, output):
        pass


def describe(rules, word_points):
    """(flags, combining class) of every point, and the outputs of the mapped ones."""
    kinds, outputs = {}, {}
    for point in POINTS:
        c = chr(point)
        flags = rules.surface(c) | (WORD if point in word_points else 0)
        if flags & (DROP | SPACE):
            kinds[point] = (flags, 0)
            continue
        expansion = rules.expansion(c)
        output = "".join(map(rules.after, expansion))
        rules.check(c, flags, output)
        classes = [rules.combining(x) for x in expansion]
        kept = [x for x, n in zip(expansion, classes) if n and rules.after(x)]
        if kept:
            flags |= KEPT
            # The run algorithm in basic.c relies on these.
            assert output == expansion and not flags & (CJK | PUNCTUATION)
            assert expansion == c if classes[0] else all(classes[1:])
        elif classes[0]:
            assert output == "" and all(classes), hex(point)
        if output == "":
            flags |= MARK
        elif output != c:
            flags |= MAPPED
            if point in HANGUL:
                assert output == unicodedata.normalize("NFD", c)
            else:
                outputs[point] = output
        kinds[point] = (flags, classes[0])
    for output in outputs.values():
        flags = [kinds[ord(x)][0] for x in output]
        assert not any(flag & SPACE for flag in flags)
        assert len(flags) == 1 or not any(flag & PUNCTUATION for flag in flags)
    return kinds, outputs


def describe_parts(rules, kinds, outputs):
    """The result of lower-casing points alone, and of stripping alone where it differs from both."""
    lowered, stripped = {}, {}
    for point in POINTS:
        c = chr(point)
        flags = kinds[point][0]
        if flags & (DROP | SPACE) or point in HANGUL:
            continue
        lower, strip = rules.lowered(c), rules.stripped(c)
        # Only stripping removes characters or leaves marks whose order matters.
        assert lower and len(lower) <= 3 and (strip == "") == bool(flags & MARK), hex(point)
        assert not flags & KEPT or strip == outputs.get(point, c), hex(point)
        if lower != c:
            lowered[point] = lower
        if strip and strip != outputs.get(point, c):
            stripped[point] = strip
    return lowered, stripped


def other_outputs(google, hugging, otherwise):
    """Google's entries that differ from the common ones, which include points that Google's lack."""
    differing = {point: output for point, output in google.items() if hugging.get(point) != output}
    return differing | {point: otherwise.get(point, chr(point))
                        for point in hugging if point not in google}


def runs_of(outputs, pool):
    """[first, last, step, to]: first, first + step, ... become to, to + step, ..."""
    runs = []
    for point, output in sorted(outputs.items()):
        if len(output) > 1:
            runs.append([point, point, 1, POOL | len(pool)])
            pool.extend([len(output)] + [ord(x) for x in output])
            continue
        if runs:
            first, last, step, to = runs[-1]
            gap = point - last
            if (not to & POOL and ord(output) - to == point - first and gap <= 2
                    and (gap == step or first == last)):
                runs[-1][1:3] = point, gap
                continue
        runs.append([point, point, 1, ord(output)])
    return runs


def rows(items, width=100):
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) + 2 > width:
            lines.append(line)
            line = "   "
        line += " " + item + ","
    return "\n".join(lines + [line])


def print_runs(name, runs):
    print(f"static const struct unicode_run {name}[] = {{")
    print(rows("{0x%X, 0x%X, %d, 0x%X}" % tuple(run) for run in runs))
    print("};\n")


def print_stages(kind_of):
    blocks, stage1 = {}, []
    for start in range(0, 0x110000, BLOCK):
        block = tuple(kind_of[start:start + BLOCK])
        stage1.append(blocks.setdefault(block, len(blocks)))
    while len(stage1) > 1 and stage1[-1] == stage1[-2]:
        stage1.pop()  # the rest of the code points looks like the last block
    assert len(blocks) < 256
    print(f"#define UNICODE_BLOCK {BLOCK}")
    print(f"#define UNICODE_STAGE1 {len(stage1)}\n")
    print("static const uint8_t unicode_stage1[UNICODE_STAGE1] = {")
    print(rows(map(str, stage1)))
    print("};\n")
    print("static const uint8_t unicode_stage2[][UNICODE_BLOCK] = {")
    for block in blocks:
        # Trailing copies of the first kind are omitted if it is 0, which C fills in.
        values = list(block)
        while len(values) > 1 and values[-1] == 0:
            values.pop()
        print("{\n" + rows(map(str, values)) + "\n},")
    print("};\n")


def main():
    hugging, google = HuggingFace(), Google()
    word_points = {point for point in POINTS if hugging.is_word(chr(point))}
    hugging_kinds, hugging_outputs = describe(hugging, word_points)
    google_kinds, google_outputs = describe(google, word_points)
    hugging_parts = describe_parts(hugging, hugging_kinds, hugging_outputs)
    google_parts = describe_parts(google, google_kinds, google_outputs)
    numbers, kind_of = {}, []
    for point in range(0x110000):
        # The UTF-8 decoder never yields surrogates.
        pair = (hugging_kinds.get(point, (0, 0)), google_kinds.get(point, (0, 0)))
        kind_of.append(numbers.setdefault(pair, len(numbers)) if point >= 0x80 else None)
    for point in range(0x80):
        pair = (hugging_kinds[point], google_kinds[point])
        kind_of[point] = numbers.setdefault(pair, len(numbers))
    plain = numbers.get(((0, 0), (0, 0)))
    assert len(numbers) <= 256 and plain is not None
    order = sorted(numbers, key=lambda pair: (numbers[pair] != plain, numbers[pair]))
    renamed = {numbers[pair]: place for place, pair in enumerate(order)}
    kind_of = [renamed[kind] for kind in kind_of]

    pool = []
    common = runs_of(hugging_outputs, pool)
    other = runs_of({point: output for point, output in google_outputs.items()
                     if hugging_outputs.get(point) != output}, pool)

    print("// SPDX-License-Identifier: Apache-2.0")
    print("// Made by dev/unicode/make_tables.py; do not edit. "
          f"Column 0: tokenizers {tokenizers.__version__};\n"
          f"// column 1: Python with Unicode {unicodedata.unidata_version}. "
          "unicode.h and unicode.c describe the tables.")
    print("#ifndef BERTH_TEXT_UNICODE_TABLES_H\n#define BERTH_TEXT_UNICODE_TABLES_H\n")
    print('#include "text/unicode.h"\n')
    print("// clang-format off")
    print("struct unicode_run {\n    uint32_t first, last, step, to;\n};\n")
    print_stages(kind_of)
    print("static const struct unicode_properties unicode_property_table[][2] = {")
    print(rows("{{%d, %d}, {%d, %d}}" % (a + b) for a, b in order))
    print("};\n")
    print_runs("unicode_runs", common)
    print_runs("unicode_google_runs", other)
    for name, ours, theirs, otherwise in zip(("lower", "strip"), hugging_parts, google_parts,
                                             ({}, google_outputs)):
        print_runs(f"unicode_{name}_runs", runs_of(ours, pool))
        print_runs(f"unicode_google_{name}_runs",
                   runs_of(other_outputs(theirs, ours, otherwise), pool))
    print("static const uint32_t unicode_pool[] = {")
    print(rows("0x%X" % value for value in pool))
    print("};\n// clang-format on\n\n#endif")
    print(f"{len(numbers)} kinds, {len(common)} + {len(other)} runs, {len(pool)} pooled",
          file=sys.stderr)


if __name__ == "__main__":
    main()
