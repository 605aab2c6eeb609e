#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the dependency star of src/ (doc/design.md) and that every third-party header has one door.

Exits 1 and names each include that breaks a rule. Also prints how long files and functions are:
a mirror, not a gate.
"""
import pathlib
import re
import statistics
import sys

ALLOWED = {  # room -> rooms it may include besides itself and berth.h
    "core": set(),
    "text": {"core"},
    "format": {"core"},
    "net": {"core", "format"},
    "report": {"core", "format"},  # event files are TFRecord and protobuf
    "cpu": {"core"},
    "gpu": {"core"},
    "comm": {"core"},
    "data": {"core", "text", "format"},
    "model": {"core", "format"},
    "task": {"core", "text", "format", "data", "model"},
    "train": {"core", "text", "format", "data", "model", "task", "report"},
    "api": {"core", "text", "format", "net", "data", "model", "task", "train", "report"},
}
CLI_CORE_ONLY = {"core"}
CLI_MAY_LOOK_INSIDE = {"bench.c", "doctor.c", "features.c"}
THIRD_PARTY = ("jansson.h", "dnnl", "oneapi/", "openssl/", "utf8proc.h", "unicode/", "omp.h",
               "curl/", "hdf5", "mpi.h", "cuda", "zlib.h", "expat.h", "bzlib.h")
SHARED_DOORS = {"omp.h"}  # OpenMP is a compiler feature: any room that computes in parallel

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def main() -> int:
    root = pathlib.Path(__file__).resolve().parent.parent
    problems, doors = [], {}
    for path in sorted([*root.glob("src/**/*.[ch]"), *root.glob("cli/*.[ch]")]):
        relative = path.relative_to(root)
        in_cli = relative.parts[0] == "cli"
        room = "cli" if in_cli else (relative.parts[1] if len(relative.parts) > 2 else "")
        for kind, name in INCLUDE.findall(path.read_text(encoding="utf-8")):
            if name.startswith(THIRD_PARTY):
                doors.setdefault(name, set()).add(str(relative))
                continue
            if kind == "<" or name == "berth.h":
                continue
            target = name.split("/")[0] if "/" in name else room
            if target == room or target == "cli":
                continue
            if in_cli:
                good = target in CLI_CORE_ONLY or relative.name in CLI_MAY_LOOK_INSIDE
            else:
                good = target in ALLOWED.get(room, set())
            if not good:
                problems.append(f"{relative}: room '{room}' may not include \"{name}\"")
    for header, users in sorted(doors.items()):
        if len(users) > 1 and header not in SHARED_DOORS:
            problems.append(f"<{header}> has {len(users)} doors: {', '.join(sorted(users))}")
    for problem in problems:
        print(f"dependency check: {problem}", file=sys.stderr)
    print_sizes(root)
    return 1 if problems else 0


def print_sizes(root: pathlib.Path) -> None:
    lines, functions = {}, []
    for path in [*root.glob("src/**/*.c"), *root.glob("cli/*.c")]:
        text = path.read_text(encoding="utf-8").splitlines()
        lines[path.relative_to(root)] = len(text)
        begin = None
        for number, line in enumerate(text):
            if begin is None and re.match(r"^[a-z].*\)\s*\{$|^ +.*\) \{$", line) and not line.startswith("    if"):
                begin = number if not line.startswith("     ") or begin is None else begin
            if line == "}" and begin is not None:
                functions.append(number - begin + 1)
                begin = None
    if not functions:
        return
    longest = max(lines, key=lines.get)
    short = sum(1 for length in functions if length <= 60) / len(functions)
    print(f"sizes: {len(lines)} source files, {sum(lines.values())} lines, longest {longest} "
          f"({lines[longest]}); {len(functions)} functions, median {statistics.median(functions):.0f} "
          f"lines, {short:.0%} of at most 60")


if __name__ == "__main__":
    sys.exit(main())
