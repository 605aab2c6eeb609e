#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes doc/original-flags.md: the flags of the programs that Berth replaces, and what each means in Berth.

    list_original_flags.py BERTH                    prints the page
    list_original_flags.py BERTH --check            exits 1 if the page in doc/ differs, or a flag is refused
    list_original_flags.py BERTH --reference FILE   exits 1 if the text FILE names a flag that the page lacks

tests/seeds/flags.txt lists the flags; what they mean comes from the program: its help, and whether it takes the flag.
With the note "refused" a flag is expected to be refused.
"""
import functools
import os
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROPOSED = {"num_processes", "sigterm_exit"}  # of Berth itself, in the text for --reference
PAGE = ROOT / "doc/original-flags.md"
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Written by dev/list_original_flags.py; do not edit. -->
# Flags of the original programs

This page is for those who have a command line of one of the programs below. It says of each flag whether
Berth accepts it and what it means in Berth. Replace the program by `berth` and the verb, and keep the flags.

- **Accepted** is "yes", "no", or "without effect". Berth prints a note for each flag of a command line that has
  no effect or a different one than in the original.
- In option names `-` and `_` are the same.
- A flag that is not in a table is an error. `berth VERB --help all` lists the options of a verb.
- The tests run whole command lines of the programs (`tests/seeds`).
"""


class Program:
    """A section of flags.txt: a program, the verb that replaces it, its flags with their notes."""

    def __init__(self, title: str):
        self.system, self.name, *verb = [part.strip() for part in title.split("·")]
        self.verb = verb[0] if verb else None
        self.flags = {}


def read_programs() -> list:
    programs = []
    for line in (ROOT / "tests/seeds/flags.txt").read_text(encoding="utf-8").split("\n"):
        if line.startswith("["):
            programs.append(Program(line.strip("[]")))
        elif line and not line.startswith("#"):
            flags, _, note = line.partition(": ")
            programs[-1].flags.update((flag, note) for flag in flags.split())
    return programs


def normal(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def spelled(flag: str) -> str:
    """A flag of one letter is listed with its dash."""
    return flag if flag.startswith("-") else f"--{flag}"


class Row:
    """An option as the help describes it."""

    def __init__(self, names: list, group: str, text: str):
        self.name, self.group = names[0], group
        self.help = re.sub(r" \[[^\[]*\]$", "", re.sub(r"; (DeepSpeed's key: \S+|a resumed run must keep it)", "", text))


@functools.cache
def options_of(berth: str, verb: str) -> dict:
    """The options of a verb by their names and aliases."""
    text = subprocess.run([berth, *verb.split(), "--help", "all"], capture_output=True, text=True, check=True,
                          env=os.environ | {"COLUMNS": "1000"}).stdout
    rows, group = {}, ""
    lines = text.split("\n")
    for line, after in zip(lines, lines[1:]):
        names = re.findall(r"(?:^  |, )--(\w+)", line) if line.startswith("  --") else []
        group = line if re.fullmatch(r"[a-z-]+", line) else group
        for name in names:
            rows.setdefault(name, Row(names, group, after.strip()))
    return rows


def answer_to(berth: str, verb: str, flag: str) -> str:
    """What the program says to a command line of this flag alone, which the help does not list."""
    return subprocess.run([berth, *verb.split(), spelled(flag)], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL).stderr


def marked(text: str) -> str:
    """The text with its options as code, except within code."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"(--\w+)", r"`\1`", part) for part in parts[::2]]
    return "`".join(parts)


def describe(berth: str, program: Program, flag: str, options: dict) -> tuple:
    """(accepted, meaning, note) of a flag."""
    row, note = options.get(normal(flag)), program.flags[flag]
    if row is None and "unknown option" in answer_to(berth, program.verb, flag):
        return "no", "", ""
    if flag.startswith("-"):
        return "yes", f"`{note}`", ""
    if row is None:
        return "without effect", "", note or "other verbs use it"
    if row.group == "without-effect":
        return "without effect", "", "; ".join(filter(None, [note, row.help]))
    meaning = row.help if row.name == normal(flag) else f"`--{row.name}`: {row.help}"
    return "yes", marked(meaning), note


def wrapped(text: str) -> str:
    return textwrap.fill(text, 110, break_long_words=False, break_on_hyphens=False)


def heading_of(program: Program) -> str:
    return f"{program.system}: `{program.name}` is `berth {program.verb}`"


def contents_of(programs: list) -> str:
    """A table of the programs, with a link to the section of each."""
    rows = ["| from | program | verb |", "| --- | --- | --- |"]
    for program in programs:
        if program.verb is not None:
            anchor = re.sub(r"[^\w -]", "", heading_of(program).lower()).replace(" ", "-")
            rows.append(f"| {program.system} | [{program.name}](#{anchor}) | `berth {program.verb}` |")
    return "\n".join(rows) + "\n"


def page_of(berth: str, programs: list) -> tuple:
    """The page, and the flags that the program refuses or takes against the list."""
    text, surprises = [HEAD, contents_of(programs)], []
    for program in programs:
        if program.verb is None:
            flags = ", ".join(f"`{spelled(flag)}`" for flag in program.flags)
            belong = f"These flags belong to {program.name} and stay as they are: {flags}."
            text.append(f"## {program.system.capitalize()}\n\n{wrapped(belong)}\n")
            continue
        options = options_of(berth, program.verb)
        text.append(f"## {heading_of(program)}\n\n"
                    "| flag | accepted | meaning in Berth | note |\n| --- | --- | --- | --- |")
        for flag in program.flags:
            cells = describe(berth, program, flag, options)
            if (cells[0] == "no") != (program.flags[flag] == "refused"):
                surprises.append(f"{program.name}: {spelled(flag)}: accepted: {cells[0]}")
            text.append(f"| `{spelled(flag)}` | " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        text.append("")
    return "\n".join(text).rstrip("\n") + "\n", surprises


def flags_in(text: str) -> set:
    """The flags that a description of programs names: those with dashes, and the keys of lists of flags."""
    text = re.sub(r"\{[^}]*\}", "", text)  # values
    found = set(re.findall(r"(?<![\w-])--([A-Za-z][\w-]*\w)(?![\w/-])", text))
    for listed in re.findall(r"^(?:Flags|Model keys after `--` \(defaults\)|\w+ flags|run_\w+): (.*)", text, re.M):
        found |= set(re.findall(r"(?:^|[;,/] )([a-z]+(?:[-_][a-z0-9]+)+)(?![\w/-])", listed))
    return {normal(flag) for flag in found} - PROPOSED


def main(berth: str, mode: str = "", reference: str = "") -> int:
    programs = read_programs()
    if mode == "--reference":
        listed = {normal(flag) for program in programs for flag in program.flags}
        missing = sorted(flags_in(pathlib.Path(reference).read_text(encoding="utf-8")) - listed)
        for flag in missing:
            print(f"{reference} names --{flag}, tests/seeds/flags.txt does not")
        return 1 if missing else 0
    page, problems = page_of(berth, programs)
    if mode != "--check":
        print(page, end="")
        return 0
    if page != PAGE.read_text(encoding="utf-8"):
        problems.append("doc/original-flags.md is not what dev/list_original_flags.py writes: run it again")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
