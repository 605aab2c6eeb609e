#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the dependencies of src/ (doc/design.md): which room, and which inner room, may include which;
that no files call each other in a circle; that one source file includes a third-party header; that each
parallel region says how many threads it has, as OpenMP's default is all processors; and that messages name
settings as all callers do, "max_seq_length", without the dashes that only the command line has.

Exits 1 and names each include, circle, header, region and message that breaks a rule. Also prints how long files and
functions are, which nothing depends on.
"""
import collections
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
    "metrics": {"core", "text", "format", "data", "model"},
    "train": {"core", "text", "format", "data", "model", "metrics", "report"},
    "serve": {"core", "format"},  # of the library only berth.h, and JSON
    "api": {"core", "text", "format", "net", "data", "model", "metrics", "train", "report"},
}
INNER = {  # inner room -> inner rooms of the same room that it may include besides itself
    "data/batches": set(),
    "data/tables": set(),
    "data/pairs": {"tables", "batches"},
    "data/tagging": {"tables", "batches"},
    "data/squad": set(),
    "data/wikipedia": {"corpus"},
    "data/corpus": set(),
    "data/pretraining": {"batches"},
    "data/masked": {"tables", "batches"},
    "data/packing": {"pretraining"},
    "data/stages": {"corpus", "pretraining", "packing"},
    "format/json": set(),
    "format/checksum": set(),
    "format/archive": set(),
    "format/protobuf": set(),
    "format/tensors": set(),
    "format/safetensors": {"tensors", "json"},
    "format/torch": {"tensors", "archive"},
    "format/deepspeed": {"tensors", "torch"},
    "format/tensorflow": {"tensors", "protobuf", "checksum"},
    "format/containers": {"tensors", "json", "safetensors", "torch", "deepspeed", "tensorflow"},
    "format/hdf5": {"tensors", "archive"},
    "format/export": {"tensors", "protobuf"},
    "format/hub": {"json", "checksum"},
    "format/mediawiki": set(),
    "train/machine": set(),
    "train/settings": set(),
    "train/optimizer": set(),
    "train/engine": {"machine", "optimizer"},
    "train/tasks": {"machine", "settings", "engine"},
    "train/progress": {"optimizer", "engine", "tasks"},
    "train/checkpoint": {"optimizer", "engine", "progress"},
    "train/inference": {"machine", "optimizer", "engine", "tasks", "checkpoint"},
    "train/job": {"machine", "settings", "optimizer", "engine", "tasks", "progress", "checkpoint", "inference"},
    "train/bench": {"machine", "engine", "tasks"},
}
CLI_CORE_ONLY = {"core"}
CLI_MAY_LOOK_INSIDE = {"arguments_file.c", "bench.c", "convert.c", "doctor.c", "experiment.c", "features.c", "inspect.c",
                       "serve.c"}
THIRD_PARTY = ("jansson.h", "dnnl", "oneapi/", "openssl/", "utf8proc.h", "unicode/", "omp.h",
               "curl/", "hdf5", "mpi.h", "cuda", "zlib.h", "expat.h", "bzlib.h", "microhttpd.h")
SHARED_DOORS = {"omp.h"}  # OpenMP is a compiler feature: any room that computes in parallel
CODE = {".c", ".h", ".cu", ".cuh", ".cpp", ".inc"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
PARALLEL = re.compile(r'^\s*#\s*pragma omp parallel\b(?:[^\n]*\\\n)*[^\n]*', re.M)
# The name of a function or object with external linkage, defined in a source file.
DEFINITION = re.compile(r"^(?!static\b|typedef\b|extern\b)[a-z][\w \*]*?\b([a-z_]\w*)"
                        r"\s*(?:\((?=[^;]*?\)\s*\{)|\[[^\]]*\]\s*=|=)", re.M | re.S)
# The rows of the option table, whose descriptions are the program's --help.
OPTION_ROWS = "src/core/option_rows.c"
ROW = re.compile(r"^    \{(?:TEXT|INTEGER|REAL|FLAG|CHOICE)\([^,]+, (\w+),(.*?)(?=^    \{[A-Z]|^\};)", re.M | re.S)
STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"')
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
COMMAND = re.compile(r"`[^`]*`")  # a command line, which has dashes
FLAG = re.compile(r"(?<![\w-])--([a-z]\w*|%)")  # "--%s" is a setting's name
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|^\s*#\s*include[^\n]*|"(?:\\.|[^"\\\n])*"', re.M | re.S)


def main() -> int:
    root = pathlib.Path(__file__).resolve().parent.parent
    problems, doors, settings = [], {}, settings_of(root)
    sources = (path for folder in ("src", "cli") for path in (root / folder).rglob("*"))
    for path in sorted(path for path in sources if path.suffix in CODE):
        relative = path.relative_to(root)
        in_cli = relative.parts[0] == "cli"
        room = "cli" if in_cli else (relative.parts[1] if len(relative.parts) > 2 else "")
        text = path.read_text(encoding="utf-8")
        problems += [f"{relative}: '{line.strip()}' lacks num_threads(...)"
                     for line in PARALLEL.findall(text) if "num_threads(" not in line]
        if not in_cli and room != "serve" and str(relative) != OPTION_ROWS:  # the server is the program's
            problems += [f"{relative}: a message says --{name}: leave out the dashes"
                         for name in flags_of(text) if name in settings]
        for kind, name in INCLUDE.findall(text):
            if name.startswith(THIRD_PARTY):
                doors.setdefault(name, set()).add(str(relative))
                continue
            if kind == "<" or name == "berth.h":
                continue
            target = name.split("/")[0] if "/" in name else room
            if target == room and not in_cli:
                problems += inner_problem(relative, name)
            if target in (room, "cli"):
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
    problems += [f"inner rooms include each other: {', '.join(circle)}" for circle in circles_of(
        {inner: {f"{inner.split('/')[0]}/{other}" for other in others} for inner, others in INNER.items()})]
    problems += [f"files call each other: {', '.join(circle)}"
                 for circle in circles_of(calls_between_files(root / "src"))]
    for problem in problems:
        print(f"dependency check: {problem}", file=sys.stderr)
    print_sizes(root)
    return 1 if problems else 0


def settings_of(root: pathlib.Path) -> set:
    """The names of the option table's rows, and their other names."""
    names = {"%"}
    for name, row in ROW.findall((root / OPTION_ROWS).read_text(encoding="utf-8")):
        aliases = re.search(r'\.aliases = ((?:"[^"]*"\s*)+)', row)
        names |= {name, *(" ".join(STRING.findall(aliases[1])).split() if aliases else ())}
    return names


def flags_of(text: str) -> list:
    """The names after "--" in the strings of C source, but not those of commands in backquotes."""
    joined = "\n".join(STRING.findall(re.sub(r'"\s*"', "", COMMENT.sub("", text))))
    return FLAG.findall(COMMAND.sub("", joined))


def inner_problem(relative: pathlib.Path, name: str) -> list:
    """The rule that src/ROOM/INNER/FILE or src/ROOM/FILE breaks by including ROOM/NAME."""
    room, inner = relative.parts[1], "/".join(relative.parts[1:-1])
    target = "/".join(name.split("/")[:-1])
    if not any(key.startswith(room + "/") for key in INNER):
        return []
    for place in (inner, target):
        if place not in INNER:
            return [f"{relative}: '{place}' is not one of the inner rooms of '{room}'"]
    if target == inner or target.split("/")[1] in INNER[inner]:
        return []
    return [f"{relative}: inner room '{inner}' may not include \"{name}\""]


def calls_between_files(src: pathlib.Path) -> dict:
    """For each source file the source files that define the functions and objects it names."""
    code = {str(path.relative_to(src)): NOT_CODE.sub("", path.read_text(encoding="utf-8"))
            for path in sorted(src.glob("**/*.c"))}
    owners = collections.defaultdict(set)
    for file, text in code.items():
        for name in DEFINITION.findall(text):
            owners[name].add(file)
    only = {name: files.copy().pop() for name, files in owners.items() if len(files) == 1}
    mention = re.compile(r"(?<!struct )(?<!enum )\b[a-z_]\w*\b")  # a tag is no function
    return {file: {only[name] for name in mention.findall(text) if name in only} - {file}
            for file, text in code.items()}


def circles_of(graph: dict) -> list:
    """The groups of two or more nodes of which each reaches each, as sorted tuples."""
    def reach(start: str) -> set:
        seen, todo = set(), [start]
        while todo:
            for node in graph[todo.pop()] - seen:
                seen.add(node)
                todo.append(node)
        return seen
    reached = {node: reach(node) for node in graph}
    groups = {tuple(sorted(other for other in reached[node] if node in reached[other]))
              for node in graph if node in reached[node]}
    return sorted(groups)


def print_sizes(root: pathlib.Path) -> None:
    lines, functions = {}, []
    for path in [*root.glob("src/**/*.c"), *root.glob("cli/*.c")]:
        text = path.read_text(encoding="utf-8").splitlines()
        lines[path.relative_to(root)] = len(text)
        begin = None
        for number, line in enumerate(text):
            if begin is None and re.match(r"^[a-z].*\)\s*\{$|^ +.*\) \{$", line) and not line.startswith("    if"):
                begin = number
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
