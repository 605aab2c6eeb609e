#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that `berth as` knows every flag of the programs that Berth replaces.

    check_flags.py BERTH                    exits 1 if a flag of flags.txt is not in the help of its program
    check_flags.py BERTH --reference FILE   exits 1 if the text FILE names a flag that flags.txt lacks
"""
import pathlib
import re
import subprocess
import sys

LIST = pathlib.Path(__file__).with_name("flags.txt")
PROPOSED = {"num_processes", "sigterm_exit"}  # of Berth itself, in the text for --reference


def read_programs() -> dict:
    """The flags of each program, "SYSTEM/NAME"; those of launchers and tools under ""."""
    programs, names = {"": set()}, []
    for line in LIST.read_text(encoding="utf-8").split("\n"):
        if line.startswith("["):
            names = [] if ": " in line else [name.strip() for name in line.strip("[]").split(",")]
            programs.update({name: set() for name in names})
        elif line and not line.startswith("#"):
            for name in names or [""]:
                programs[name] |= {normal(flag) for flag in line.split()}
    return programs


def normal(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def flags_of(berth: str, program: str) -> set:
    text = subprocess.run([berth, "as", program, "--help"], capture_output=True, text=True, check=True).stdout
    return {normal(flag) for flag in re.findall(r"^  -+(\S+)", text, re.M)}


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
        missing = flags_in(pathlib.Path(reference).read_text(encoding="utf-8")) - set().union(*programs.values())
        problems = [f"{reference} names --{flag}, tests/seeds/flags.txt does not" for flag in sorted(missing)]
    else:
        problems = [f"`berth as {program} --help` lacks {flag}" for program, flags in programs.items() if program
                    for flag in sorted(flags - flags_of(berth, program))]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
