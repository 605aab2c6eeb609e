#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes data/unicode.txt by querying the reference programs for every code point.

Hugging Face's rules are derived from the `tokenizers` package (what it drops, treats as white space, pads,
splits at, decomposes, reorders and lower-cases); Google's from Python's own str and unicodedata, which its
tokenization.py uses. Nothing is read from the Unicode files themselves, so the tables reproduce the versions
and the errors of the two programs. The official SQuAD scores are defined by Python scripts, so what Python's
re and str.lower() take for letters is there as well.

What other components of the package than BERT's take characters for is column 2. Its clusters of characters are seen
through a table of replacements (charsmap), which replaces a cluster by what one of its characters becomes.

    python3.11 dev/unicode/make_tables.py > data/unicode.txt      (needs: regex, sentencepiece, tokenizers)
"""
import io
import tempfile
import textwrap
import unicodedata

import regex
import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

DROP, SPACE, PUNCTUATION, CJK, MARK, MAPPED, KEPT, CASED, IGNORABLE, WORD = (1 << i for i in range(10))
POINTS = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
HANGUL = range(0xAC00, 0xD7A4)


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
        elif self.is_ignorable(c):
            flags |= IGNORABLE
        return flags

    def is_ignorable(self, c):
        """Whether a capital sigma skips c when it looks for its neighbours."""
        return (c + "\u03a3").lower()[-1] != "\u03c2" == ("a" + c + "\u03a3").lower()[-1]

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
    """The results of lower-casing points alone and of stripping alone, of which the outputs consist."""
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
        assert "".join(map(rules.lowered, strip)) == ("" if flags & MARK else outputs.get(point, c)), hex(point)
        if lower != c:
            lowered[point] = lower
        if strip not in ("", c):
            stripped[point] = strip
    return lowered, stripped


def charsmap(table):
    """A normalizer that replaces the characters of {character: text}."""
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        rules.writelines(f"{ord(c):X}\t{' '.join(f'{ord(x):X}' for x in to)}\n" for c, to in sorted(table.items()))
        rules.flush()
        made = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["a b c d"] * 10), model_writer=made, vocab_size=8,
                                                 normalization_rule_tsv=rules.name, minloglevel=2)
    model = sentencepiece_model_pb2.ModelProto.FromString(made.getvalue())
    return normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap)


def describe_components(combining):
    """{name: {point: value}} of the flags, and {point: text} of what decomposes and composes."""
    nfd, nfkd, nfc = normalizers.NFD(), normalizers.NFKD(), normalizers.NFC()
    by_kind = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    by_digit, strip = pre_tokenizers.Digits(individual_digits=True), normalizers.StripAccents()
    blanks = pre_tokenizers.WhitespaceSplit()
    before = {chr(p) for p in POINTS if regex.fullmatch(r"\p{GCB=Prepend}", chr(p))}
    control = {chr(p) for p in POINTS if regex.fullmatch(r"[\p{GCB=Control}\r\n]", chr(p))} - {"\0"}
    letter, first = charsmap({"a": "X"}), charsmap({c: "Y" for c in before | control})
    flags = {name: {} for name in ("letter", "number", "numeric", "blank", "accent", "joins", "joined", "control")}
    canonical, compatible, composed, classes = {}, {}, {}, {}
    for point in POINTS:
        c = chr(point)
        found = {"letter": len(by_kind.pre_tokenize_str("a" + c + "a")) == 1,
                 "number": len(by_kind.pre_tokenize_str("1" + c + "1")) == 1,
                 "numeric": len(by_digit.pre_tokenize_str("a" + c + "a")) == 3,
                 "blank": len(blanks.pre_tokenize_str("a" + c + "a")) == 2,
                 "accent": not strip.normalize_str(c),
                 "joins": c != "a" and letter.normalize_str("a" + c) == "X",
                 "joined": c in before and first.normalize_str(c + "a") == "Y",
                 "control": c in control and first.normalize_str(c + "\u0301") == "Y\u0301"}
        for name, is_set in found.items():
            if is_set:
                flags[name][point] = True
        if point in HANGUL:
            continue
        whole, compat = nfd.normalize_str(c), nfkd.normalize_str(c)
        if whole != c:
            canonical[point] = whole
            start = nfc.normalize_str(whole[:-1])
            if nfc.normalize_str(c) == c:
                assert len(start) == 1 and nfc.normalize_str(start + whole[-1]) == c, hex(point)
                composed[point] = start + whole[-1]
        elif combining(c):
            classes[point] = combining(c)
        if compat != whole:
            compatible[point] = compat
    return flags, classes, canonical, compatible, composed


def joined(first, last):
    return f"{first:X}" if first == last else f"{first:X}-{last:X}"


def ranges(values):
    """Words for {point: value}: ranges with the same value, which is left out if it is True."""
    runs = []
    for point, value in sorted(values.items()):
        if runs and runs[-1][1] == point - 1 and runs[-1][2] == value:
            runs[-1][1] = point
        else:
            runs.append([point, point, value])
    return [joined(first, last) + ("" if value is True else f"={value}") for first, last, value in runs]


def mappings(outputs):
    """Words for {point: text}: first, first + step, ... become to, to + step, ..."""
    runs = []
    for point, output in sorted(outputs.items()):
        if len(output) == 1 and runs and len(runs[-1][3]) == 1:
            first, last, step, to = runs[-1]
            gap = point - last
            if ord(output) - ord(to) == point - first and gap <= 2 and (gap == step or first == last):
                runs[-1][1:3] = point, gap
                continue
        runs.append([point, point, 1, output])
    return [joined(first, last) + (f"/{step}" if step > 1 else "") + ">" + "+".join(f"{ord(x):X}" for x in to)
            for first, last, step, to in runs]


def print_section(name, columns, words):
    if words:
        print(f":{name} {columns}")
        print(textwrap.fill(" ".join(words), 120, break_long_words=False, break_on_hyphens=False))


def print_both(name, ours, theirs):
    """A section of what {point: value} of the columns have in common, then one of each column's own."""
    same = {point: value for point, value in ours.items() if theirs.get(point) == value}
    print_section(name, "01", ranges(same))
    for column, values in enumerate((ours, theirs)):
        print_section(name, column, ranges({p: value for p, value in values.items() if p not in same}))


def print_mapping(name, ours, theirs):
    print_section(name, "01", mappings(ours))
    print_section(name, 1, mappings({p: theirs.get(p, chr(p)) for p in {*ours, *theirs} if ours.get(p) != theirs.get(p)}))


HEAD = """# SPDX-License-Identifier: Apache-2.0
# What two programs take characters for: Hugging Face's tokenizers {} (column 0), and Python with Unicode {}
# (column 1), as Google's tokenization.py asks it. dev/unicode/make_tables.py made this file by asking both about every
# code point; data/make_tables.c makes the tables of src/text from it. NOTICE names the sources.
#
# A section is ":NAME COLUMNS" and its words. FIRST-LAST are code points; =N is their combining class; FIRST-LAST/2>TO maps
# every second one, FIRST to TO; >A+B maps to several. The columns of `lower` and `strip` after the first are what differs.
# Column 2 is what other components of tokenizers than BERT's take characters for."""


def main():
    hugging, google = HuggingFace(), Google()
    word_points = {point for point in POINTS if hugging.is_word(chr(point))}
    kinds, outputs = zip(describe(hugging, word_points), describe(google, word_points))
    parts = [describe_parts(*each) for each in zip((hugging, google), kinds, outputs)]
    print(HEAD.format(tokenizers.__version__, unicodedata.unidata_version))
    for name, flag in (("drop", DROP), ("space", SPACE), ("punctuation", PUNCTUATION), ("cjk", CJK), ("mark", MARK),
                       ("kept", KEPT), ("cased", CASED), ("ignorable", IGNORABLE), ("word", WORD)):
        print_both(name, *({p: True for p, (flags, _) in each.items() if flags & flag} for each in kinds))
    print_both("combining", *({p: number for p, (_, number) in each.items() if number} for each in kinds))
    for name, ours, theirs in zip(("lower", "strip"), *parts):
        print_mapping(name, ours, theirs)
    print_section("python_word", 1, ranges({p: True for p in POINTS if chr(p).isalnum() or chr(p) == "_"}))
    dropped = {p for p, (flags, _) in kinds[1].items() if flags & (DROP | SPACE)}
    print_section("python_ignorable", 1, ranges({p: True for p in dropped if google.is_ignorable(chr(p))}))
    flags, classes, *forms = describe_components(hugging.combining)
    for name, points in flags.items():
        print_section(name, 2, ranges(points))
    print_section("combining", 2, ranges(classes))
    for name, outputs in zip(("canonical", "compatible", "composed"), forms):
        print_section(name, 2, mappings(outputs))


if __name__ == "__main__":
    main()
