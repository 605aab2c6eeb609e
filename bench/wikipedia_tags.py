#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a silver set for token classification from a dump of Wikipedia: its authors marked names and
terms by links, and the subject of a page by bold type.

A sentence's words get tags in IOB2, in CoNLL's columns (word, tag), train.txt, valid.txt and test.txt:

    TITLE   bold text in the first paragraph of a page
    NAME    the text of a link whose first word begins with a capital or a digit
    TERM    the text of any other link

Only running text counts: templates, tables, references, lists, headings, images and categories are left
out. Paragraphs are cut into sentences after . ! ? before a blank and a capital, words are runs of letters
and digits, and every other character is a word of its own. Sentences have 5 to 100 words, one of them
tagged. Pages, not sentences, are divided: of ten pages eight train, one validates, one tests.

The tags are noisy on purpose: authors link a name once a page, so many mentions have no tag.

    wikipedia_tags.py enwiki-sample.xml.bz2 FOLDER
"""
import bz2
import collections
import os
import re
import sys
import xml.etree.ElementTree as tree

INNERMOST = [re.compile(r"\{\{[^{}]*\}\}"), re.compile(r"\{\|(?:(?!\{\||\|\}).)*\|\}", re.S)]
DROPPED = [re.compile(r"<!--.*?-->", re.S), re.compile(r"<ref[^<>]*/>"),
           re.compile(r"<(ref|math|gallery|code|pre|nowiki|timeline|blockquote)\b.*?</\1>", re.S | re.I),
           re.compile(r"<[^<>]*>"), re.compile(r"__[A-Z]+__")]
MARKED = re.compile(r"\[\[([^\[\]]*)\]\]|'''(.+?)'''")
WORD = re.compile(r"[^\W_]+|[^\w\s]")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'(\[]*[A-Z])")
ENTITIES = {"&nbsp;": " ", "&ndash;": "-", "&mdash;": "-", "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"'}
# Stand for the marks while a paragraph is cut into sentences: begin of each type, end.
MARKS = {"TITLE": "\ue000", "NAME": "\ue001", "TERM": "\ue002"}
END = "\ue003"


def clean(text):
    for pattern in DROPPED:
        text = pattern.sub("", text)
    for pattern in INNERMOST:  # from the inside outwards
        found = 1
        while found:
            text, found = pattern.subn("", text)
    for name, character in ENTITIES.items():
        text = text.replace(name, character)
    return re.sub(r"\[https?://\S+\s?([^\]]*)\]", r"\1", text)


def mark(paragraph, is_first):
    """Replaces links and bold text by their visible text between marks."""
    def visible(match):
        if match[1] is None:
            inner = MARKED.sub(lambda m: m[0] if m[1] is None else m[1].split("|")[-1], match[2])
            return MARKS["TITLE"] + inner + END if is_first else inner
        target, _, shown = match[1].partition("|")
        shown = shown.split("|")[-1] or target
        if ":" in target:  # an image, a category, another wiki
            return "" if not target.startswith(":") else shown
        first = WORD.search(shown)
        if first is None:
            return shown
        kind = "NAME" if first[0][0].isupper() or first[0][0].isdigit() else "TERM"
        return MARKS[kind] + shown + END

    # Bold text that holds links first, then the links outside.
    return re.sub(r"''+", "", MARKED.sub(visible, paragraph))


def tagged(sentence):
    """The words of a marked sentence with their tags."""
    kinds = {character: kind for kind, character in MARKS.items()}
    rows, kind, begins = [], None, False
    for piece in re.findall(f"[{''.join(MARKS.values())}{END}]|{WORD.pattern}", sentence):
        if piece in kinds:
            kind, begins = kinds[piece], True
        elif piece == END:
            kind = None
        else:
            rows.append((piece, "O" if kind is None else ("B-" if begins else "I-") + kind))
            begins = False
    return rows


def sentences(text):
    is_first = True
    for line in clean(text).split("\n"):
        line = line.strip()
        if len(line) < 40 or line[0] in "=*#:;|!{}<[" and not line.startswith("[["):
            continue
        # A mark never ends a sentence: what it holds stays together.
        for sentence in SENTENCE_END.split(mark(line, is_first)):
            rows = tagged(sentence)
            if 5 <= len(rows) <= 100 and any(tag != "O" for _, tag in rows):
                yield rows
        is_first = False


def pages(path):
    with bz2.open(path, "rb") as file:
        for _, element in tree.iterparse(file):
            if element.tag.endswith("}page"):
                space = element.find("{*}ns")
                text = element.find("{*}revision/{*}text")
                if space.text == "0" and element.find("{*}redirect") is None and text is not None and text.text:
                    yield text.text
                element.clear()


def main():
    path, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    counts = collections.defaultdict(collections.Counter)
    files = {name: open(os.path.join(folder, name + ".txt"), "w", encoding="utf-8")
             for name in ("train", "valid", "test")}
    for number, text in enumerate(pages(path)):
        part = {8: "valid", 9: "test"}.get(number % 10, "train")
        counts[part]["pages"] += 1
        for rows in sentences(text):
            counts[part]["sentences"] += 1
            for word, tag in rows:
                counts[part][tag] += 1
                files[part].write(f"{word} {tag}\n")
            files[part].write("\n")
    for name, file in files.items():
        file.close()
        print(name, dict(sorted(counts[name].items())))


main()
