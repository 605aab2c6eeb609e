#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the quality of the plain text of a Wikipedia dump: debris, overlap with WikiExtractor's,
sentences.

    bench/wikipedia_text.py DUMP.xml[.bz2] OURS [--wikiextractor THEIRS] [--seed 1] [--sentences 50]

OURS and THEIRS are folders of files as WikiExtractor writes them (OURS: extracted/wikicorpus_en of `berth
prepare --stages text`; THEIRS: `wikiextractor --no-templates -o THEIRS DUMP`; if its regular expressions
contain (?i), Python 3.11 needs that at their start: fix a private copy). Needs only Python. Prints

- debris: braces, bars, tags, doubled brackets, file links, reference marks, entities, left in OURS;
- overlap: per article 2 M / (a + b) in characters, where M are the characters of the words that both texts
  have in the same order; the mean, and the worst five with the first words that only one has;
- sentences: of --sentences sentences, drawn from OURS by --seed, how many occur word for word in the page after
  its markup is removed by regular expressions that share nothing with the cleaner.
"""
import argparse
import bz2
import difflib
import html
import pathlib
import random
import re
import sys
import xml.etree.ElementTree as ElementTree

DEBRIS = {
    "brace": r"[{}]",
    "bar": r"\|",
    "tag": r"</?[A-Za-z][^<>]*>|<!--|-->",
    "double bracket": r"\[\[|\]\]",
    "file link": r"(?i)\b(?:file|image|category):[^ ]|\bthumb\b.*\bpx\b",
    "reference": r"(?i)</?ref|cite (?:web|book|news|journal)|access-?date ?=",
    "entity": r"&(?:[A-Za-z]+|#[0-9]+);",
    "quote marks": r"''",
    "empty parentheses": r"\(\s*[,;]?\s*\)",
    "switch": r"__[A-Z]+__",
}


def read_articles(folder: str, escaped: bool) -> dict[str, str]:
    articles = {}
    for path in sorted(pathlib.Path(folder).glob("*/wiki_*")):
        lines, article = path.read_text(encoding="utf-8").split("\n"), None
        for line in lines:
            begin = re.match(r'<doc id="(\d+)"', line)
            if begin:
                article, rows = begin.group(1), []
            elif line == "</doc>":
                articles[article] = "\n".join(row for row in rows[1:] if row)  # without its title
            elif article:
                rows.append(html.unescape(line) if escaped else line)
    return articles


def read_dump(path: str) -> dict[str, tuple[str, str]]:
    opened = bz2.open(path) if path.endswith(".bz2") else open(path, "rb")
    pages, tag = {}, lambda element: element.tag.rsplit("}", 1)[-1]
    with opened as file:
        for _, element in ElementTree.iterparse(file):
            if tag(element) == "page":
                parts = {tag(child): child for child in element.iter()}
                own = next(child.text for child in element if tag(child) == "id")
                pages[own] = (parts["title"].text, parts["text"].text or "")
                element.clear()
    return pages


def count_debris(articles: dict[str, str]) -> None:
    total = 0
    for kind, pattern in DEBRIS.items():
        found = [(own, match) for own, text in articles.items() for match in re.finditer(pattern, text)]
        total += len(found)
        shown = "; ".join(f"{own}: {match.string[max(0, match.start() - 30):match.end() + 30]!r}"
                          for own, match in found[:3])
        print(f"debris: {kind}: {len(found)} {shown}")
    print(f"debris: {total} in all, in {len(articles)} articles")


def overlap(ours: str, theirs: str) -> tuple[float, list[str]]:
    # A word's quotes may differ: WikiExtractor writes italics as quotations.
    words = [re.findall(r"\w+|[^\w\s\"']", text) for text in (ours, theirs)]
    matched, notes = 0, []
    sizes = [sum(map(len, one)) for one in words]
    matcher = difflib.SequenceMatcher(None, words[0], words[1], autojunk=len(words[0]) > 4000)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            matched += sum(map(len, words[0][a:b]))
        else:
            notes.append((sum(map(len, words[0][a:b])) + sum(map(len, words[1][c:d])),
                          f"ours {' '.join(words[0][a:b])[:90]!r} theirs {' '.join(words[1][c:d])[:90]!r}"))
    notes.sort(reverse=True)
    return (2 * matched / sum(sizes) if sum(sizes) else 1.0), [note for _, note in notes[:3]]


def compare(ours: dict[str, str], theirs: dict[str, str], pages) -> None:
    rows = []
    for own in theirs:
        if theirs[own].strip() or ours.get(own, ""):
            rows.append((*overlap(ours.get(own, ""), theirs[own]), own))
    rows.sort(key=lambda row: row[0])
    mean = sum(row[0] for row in rows) / len(rows)
    print(f"overlap: mean {mean:.4f} of {len(rows)} articles; "
          f"{sum(row[0] < 0.95 for row in rows)} below 0.95")
    for ratio, notes, own in rows[:5]:
        print(f"overlap: {ratio:.4f} {own} {pages[own][0]!r}")
        for note in notes:
            print(f"    {note}")


def bare(text: str) -> str:
    """The page's text with its markup taken out, crudely: only letters and digits are compared."""
    text = re.sub(r"(?s)<!--.*?-->", "", text)
    text = re.sub(r"(?s)<ref[^>/]*/>|<ref.*?</ref>", "", text)
    text = re.sub(r"(?s)<math.*?</math>", "formula", text)
    for _ in range(3):
        text = re.sub(r"\{\{(?:lang\|[^|{}]*|lang-[a-z-]*|nowrap|transl(?:\|[^|{}]*)+?|convert|angbr|nihongo)"
                      r"\|([^{}|]*)(?:\|(km|mi|m|ft|cm|mm|kg|°C|sqmi|km2|C|in|lb)\b[^{}]*)?(?:\|[^{}]*)?\}\}",
                      r"\1 \2", text)
    for _ in range(12):
        text = re.sub(r"\{\{[^{}]*\}\}", "", text)
    text = re.sub(r"\[\[(?:[^\[\]|]*\|)?([^\[\]]*)\]\]", r"\1", text)
    text = re.sub(r"\[(?:https?:)?//\S+ ?([^\]]*)\]", r"\1", text)
    text = html.unescape(re.sub(r"<[^<>]*>", "", text))
    return re.sub(r"formula\d+", "formula", re.sub(r"[\W_]+", "", text))


def check_sentences(ours: dict[str, str], pages, seed: int, count: int) -> None:
    sentences = sorted((own, sentence) for own, text in ours.items() for line in text.split("\n")
                       for sentence in re.findall(r"[A-Z][^.!?]{30,}[.!?](?= [A-Z]|$)", line))
    missing = []
    for own, sentence in random.Random(seed).sample(sentences, count):
        plain = re.sub(r"formula\d+", "formula", re.sub(r"[\W_]+", "", sentence))
        if plain not in bare(pages[own][1]):
            missing.append(f"{own} {pages[own][0]!r}: {sentence!r}")
    print(f"sentences: {count - len(missing)} of {count} occur in their pages (seed {seed})")
    for row in missing:
        print(f"    not found: {row}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dump")
    parser.add_argument("ours")
    parser.add_argument("--wikiextractor")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sentences", type=int, default=50)
    options = parser.parse_args()
    ours, pages = read_articles(options.ours, False), read_dump(options.dump)
    print(f"articles: {len(ours)}, {sum(map(len, ours.values()))} characters")
    count_debris(ours)
    if options.wikiextractor:
        compare(ours, read_articles(options.wikiextractor, True), pages)
    check_sentences(ours, pages, options.seed, options.sentences)
    return 0


if __name__ == "__main__":
    sys.exit(main())
