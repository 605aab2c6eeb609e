#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the dependencies of src/ and of the program's parts beside it (doc/develop/design.md): which room, and which inner room, may include
which; that no files call each other in a circle; that one source file includes a third-party header; that each
parallel region says how many threads it has, as OpenMP's default is all processors; that messages name settings as
all callers do, "max_seq_length", without the dashes that only the command line has; that numbers of models are computed
by functions that have the same bits everywhere (core/portable_math.h), not by the C library's; and that the words of other
programs (flags, names, recipes) are in compat/ and a few named files only. Also that every source file begins with a head,
which says more than the names of the file and of its functions do.

Exits 1 and names each include, circle, header, region, message, word and file that breaks a rule. Also prints how long files
and functions are, how much of them is comments, and how many functions have one caller, which nothing depends on.
"""
import collections
import pathlib
import re
import statistics
import sys

ALLOWED = {  # room -> rooms it may include besides itself and berth.h
    "core": set(),
    "compat": {"core", "format", "settings"},  # JSON
    "text": {"core", "format"},
    "format": {"core"},
    "report": {"core", "settings", "format"},  # event files are TFRecord and protobuf
    "absent": {"core", "report", "data"},  # what only the program does
    "settings": {"core", "format"},  # JSON
    "device": {"core", "comm", "emulation"},  # of the tests, where the host compiles kernels
    "comm": {"core"},
    "data": {"core", "text", "format", "comm"},
    "model": {"core", "format", "device"},
    "metrics": {"core", "text", "format", "data", "model"},
    "train": {"core", "settings", "text", "format", "device", "comm", "data", "model", "metrics", "report"},
    "task": {"core", "settings", "text", "format", "device", "comm", "data", "model", "metrics", "train"},
    "api": {"core", "settings", "text", "format", "device", "comm", "data", "model", "metrics", "train", "task", "report"},
    "fetch": {"core", "format"},
    "page": {"core", "format", "report"},
    "serve": {"core", "settings", "format", "task"},
    "wiki": {"core", "comm", "text", "format", "data"},
    "bench": {"core", "settings", "text", "format", "device", "comm", "data", "model", "train", "task", "cli"},  # its program reads options as cli does
}
PARTS = ("compat", "bench", "fetch", "page", "serve", "wiki", "cli")  # of the program, beside src
INNER = {  # inner room -> inner rooms of the same room that it may include besides itself
    "data/batches": set(),
    "data/tables": set(),
    "data/pairs": {"tables", "batches"},
    "data/tagging": {"tables", "batches"},
    "data/squad": set(),
    "data/wikipedia": set(),
    "data/corpus": set(),
    "data/pretraining": {"batches"},
    "data/masked": {"tables", "batches"},
    "data/packing": {"pretraining"},
    "data/stages": {"corpus", "pretraining", "packing"},
    "device": set(),
    "device/cpu": {""},
    "device/gpu": {""},
    "format/json": set(),
    "format/checksum": set(),
    "format/archive": set(),
    "format/protobuf": set(),
    "format/sentencepiece": {"protobuf"},
    "format/tensors": set(),
    "format/safetensors": {"tensors", "json"},
    "format/torch": {"tensors", "archive"},
    "format/deepspeed": {"tensors", "torch"},
    "format/tensorflow": {"tensors", "protobuf", "checksum"},
    "format/containers": {"tensors", "json", "safetensors", "torch", "deepspeed", "tensorflow"},
    "format/hdf5": {"tensors", "archive"},
    "format/export": {"tensors", "protobuf"},
    "format/hub": {"json", "checksum"},
    "format/manifest": {"json", "checksum"},
    "train/machine": set(),
    "train/optimizer": set(),
    "train/engine": {"machine", "optimizer"},
    "train/tasks": {"machine", "engine"},
    "train/progress": {"optimizer", "engine", "tasks"},
    "train/checkpoint": {"optimizer", "engine", "progress"},
    "train/inference": {"machine", "optimizer", "engine", "tasks", "checkpoint"},
    "train/job": {"machine", "optimizer", "engine", "tasks", "progress", "checkpoint", "inference"},
}
# Which rooms below the jobs know the settings of an owner, and which files know those of all: what compares all rows among
# ranks, and what saves and restores them.
OWNERS = {
    "model": {"train/engine", "train/checkpoint"},
    "features": set(),
    "task": set(),
    "optimizer": {"train/optimizer", "train/progress"},
    "engine": {"train/engine"},
    "run": {"train/progress", "train/checkpoint"},
    "report": {"report", "train/checkpoint"},
    "machine": {"train/machine"},
}
OF_JOBS = {"task", "train/job", "train/inference", "train/tasks"}  # and what is not in src, or above them
KNOW_ALL = {"src/train/machine/machine.c", "src/train/machine/machine.h", "src/train/machine/rank_facts.c",
            "src/train/machine/rank_facts.h", "src/train/progress/progress.c", "src/train/progress/run_facts.c"}
# The devices and transports themselves are no business of the rooms that use them.
DOORS_OF_ROOM = {"comm": {"comm/comm.h", "comm/comm_forecast.h", "comm/heartbeat.h"}, "device": {"device/device.h", "device/device_batch.h", "device/operations.inc"}}
CLI_MAY = {"core", "comm", "settings", "api", *PARTS}
CLI_MAY_LOOK_INSIDE = {"arguments_file.c", "bench.c", "doctor.c", "features.c", "find_files.c", "report.c", "run.c", "run.h", "serve.c", "tasks.c", "texts.c", "verb_list.c", "verbs.c"}
# Where words of other programs may be besides compat/: (file, words). Keys of files that other programs write are
# names of flags, too.
FOREIGN_WORDS = {
    "cli/as.c": {"do_train", "run_squad"},  # examples of the door
    "src/task/pretrain.c": "recipes",
    "src/settings/rows.c": "recipes",
    "src/settings/recipes.c": "recipes",
    "src/settings/deepspeed_keys.c": {"activation_checkpointing", "log_level"},
    "src/api/convert.c": {"torch_dtype"},
    "src/api/vocab.c": {"model_type"},
    "src/model/config.c": {"model_type", "torch_dtype"},
    "src/model/folder_class.c": {"model_type"},
    "src/model/folder_words.c": {"model_type"},
    "serve/protocol_kserve.c": {"model_name"},
}
PROGRAMS = re.compile(r"\b(run_(?:squad|glue|qa|ner|mlm|classifier|pretraining)|bertPrep|launch_benchmark|deepspeed_train|"
                      r"create_pretraining_data|pack_pretraining_data_pytorch)\b")
THIRD_PARTY = ("jansson.h", "oneapi/", "openssl/", "utf8proc.h", "unicode/", "omp.h",
               "curl/", "hdf5", "mpi.h", "cuda", "zlib.h", "expat.h", "bzlib.h", "microhttpd.h")
SHARED_DOORS = {"omp.h"}  # OpenMP is a compiler feature: any room that computes in parallel
CODE = {".c", ".h", ".cu", ".cuh", ".cpp", ".inc"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
PARALLEL = re.compile(r'^\s*#\s*pragma omp parallel\b(?:[^\n]*\\\n)*[^\n]*', re.M)
# The name of a function or object with external linkage, defined in a source file.
DEFINITION = re.compile(r"^(?!static\b|typedef\b|extern\b)[a-z][\w \*]*?\b([a-z_]\w*)"
                        r"\s*(?:\((?=[^;]*?\)\s*\{)|\[[^\]]*\]\s*=|=)", re.M | re.S)
STATIC = re.compile(r"^static [^;=(]*?\b([a-z_]\w*)\((?=[^;{]*\)\s*\{)", re.M)  # a static function, defined
# The rows of the option table, whose descriptions are the program's --help.
OPTION_ROWS = "src/settings/rows.c"
ROW = re.compile(r"^    \{(?:TEXT|INTEGER|REAL|FLAG|CHOICE)\([^,]+,\s*\w+,\s*(\w+),(.*?)(?=^    \{[A-Z]|^\};)", re.M | re.S)
# What the help of the program's verbs says, which are made of these rows.
HELP_OF_TASKS = re.compile(r"^static const struct task_command .*?^    \{\.verb = NULL\}\};", re.M | re.S)
STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"')
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
COMMAND = re.compile(r"`[^`]*`")  # a command line, which has dashes
ROW_TEXT = re.compile(r'\.(?:usage|example|notes|help|json)\s*=\s*(?:"(?:\\.|[^"\\\n])*"\s*)+')  # what --help prints
FLAG = re.compile(r"(?<![\w-])--([a-z]\w*|%)")  # "--%s" is a setting's name
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|^\s*#\s*include[^\n]*|"(?:\\.|[^"\\\n])*"', re.M | re.S)

# The head of a source file: the comment after the line of its licence. It says what the file is for, where it is in the path
# of a run, and what it leaves to which other file. Words count once, and as new unless a name in the file has them.
HEAD = re.compile(r"\A(?://[^\n]*\n((?://[^\n]*\n)*)|/\*[^\n]*\n(.*?)\*/)", re.S)
HEAD_WORDS, HEAD_NEW_WORDS = 15, 5
NO_WORDS = set("a an and are as at be by for from in is it its not of on or see so that the their them these they this to which with".split())
NAMED = re.compile(r"\b([a-z_]\w*)\s*\(")

# Functions whose results C libraries round differently, and where they may: of GPUs, of figures and of text.
ROUNDED = re.compile(r"(?<![\w.>])((?:exp2?|expm1|log(?:2|10|1p)?|pow|erfc?|tanh?|sin|cos|cbrt)f?)\(")
MAY_ROUND = ("src/device/gpu/", "src/comm/forecast.c", "wiki/", "page/", "bench/")


def main() -> int:
    root = pathlib.Path(__file__).resolve().parent.parent
    problems, doors, settings = [], {}, settings_of(root)
    sources = (path for folder in ("src", *PARTS) for path in (root / folder).rglob("*"))
    for path in sorted(path for path in sources if path.suffix in CODE):
        relative = path.relative_to(root)
        in_cli = relative.parts[0] == "cli"
        room = relative.parts[0] if relative.parts[0] != "src" else (relative.parts[1] if len(relative.parts) > 2 else "")
        text = path.read_text(encoding="utf-8")
        problems += [f"{relative}: '{line.strip()}' lacks num_threads(...)"
                     for line in PARALLEL.findall(text) if "num_threads(" not in line]
        if not str(relative).startswith(MAY_ROUND):
            problems += [f"{relative}: {name}() is rounded by each C library in its way: see core/portable_math.h"
                         for name in ROUNDED.findall(NOT_CODE.sub("", text))]
        if room not in PARTS and str(relative) != OPTION_ROWS:
            problems += [f"{relative}: a message says --{name}: leave out the dashes"
                         for name in flags_of(HELP_OF_TASKS.sub("", text)) if name in settings]
        for kind, name in INCLUDE.findall(text):
            if name.startswith(THIRD_PARTY):
                doors.setdefault(name, set()).add(str(relative))
                continue
            if kind == "<" or name == "berth.h":
                continue
            target = name.split("/")[0] if "/" in name else room
            if target == room and relative.parts[0] == "src":
                problems += inner_problem(relative, name)
            problems += owner_problem(relative, name)
            if target in (room, "cli"):
                continue
            if relative.parts[0] == "src" and name not in DOORS_OF_ROOM.get(target, {name}):
                problems.append(f"{relative}: only the room '{target}' may include \"{name}\"")
            if in_cli:
                good = target in CLI_MAY or relative.name in CLI_MAY_LOOK_INSIDE
            else:
                good = target in ALLOWED.get(room, set())
            if not good:
                problems.append(f"{relative}: room '{room}' may not include \"{name}\"")
    for header, users in sorted(doors.items()):
        if len(users) > 1 and header not in SHARED_DOORS:
            problems.append(f"<{header}> has {len(users)} doors: {', '.join(sorted(users))}")
    problems += [f"inner rooms include each other: {', '.join(circle)}" for circle in circles_of(
        {inner: {"/".join([inner.split("/")[0], *filter(None, [other])]) for other in others} for inner, others in INNER.items()})]
    problems += [f"files call each other: {', '.join(circle)}"
                 for folders in (["src"], PARTS)
                 for circle in circles_of(calls_between_files(root, folders))]
    problems += foreign_words(root)
    problems += [problem for folder in ("include", "src", *PARTS) for path in sorted((root / folder).rglob("*"))
                 if path.suffix in CODE for problem in head_problem(path.relative_to(root), path.read_text(encoding="utf-8"))]
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
    """The names after "--" in the strings of C source, but not in those of --help, nor of commands in backquotes."""
    joined = "\n".join(STRING.findall(re.sub(r'"\s*"', "", ROW_TEXT.sub("", COMMENT.sub("", text)))))
    return FLAG.findall(COMMAND.sub("", joined))


def inner_problem(relative: pathlib.Path, name: str) -> list:
    """The rule that src/ROOM/INNER/FILE or src/ROOM/FILE breaks by including ROOM/NAME."""
    room, inner = relative.parts[1], "/".join(relative.parts[1:-1][:2])
    target = "/".join(name.split("/")[:-1][:2])
    if not any(key.startswith(room + "/") for key in INNER):
        return []
    for place in (inner, target):
        if place not in INNER:
            return [f"{relative}: '{place}' is not one of the inner rooms of '{room}'"]
    if target == inner or target.partition("/")[2] in INNER[inner]:
        return []
    return [f"{relative}: inner room '{inner}' may not include \"{name}\""]


def owner_problem(relative: pathlib.Path, name: str) -> list:
    """The settings that a file includes and its room does not own."""
    room = "/".join(relative.parts[1:-1][:2])
    if not name.startswith("settings/") or relative.parts[0] != "src" or room in OF_JOBS | {"api", "settings"} \
            or str(relative) in KNOW_ALL:
        return []
    return [] if room in OWNERS.get(name[len("settings/"):-2], set()) else \
        [f"{relative}: '{room}' does not own \"{name}\" (OWNERS)"]


def foreign_words(root: pathlib.Path) -> list:
    """The texts outside compat/ that have a flag, a recipe or the name of another program."""
    flags, listed = set(), False
    for line in (root / "tests/seeds/flags.txt").read_text(encoding="utf-8").split("\n"):
        if line.startswith("["):
            listed = ": " not in line
        elif listed and not line.startswith("#"):
            flags |= {flag.replace("-", "_") for flag in line.split()}
    recipes = set(re.findall(r'RECIPE\([^,]*, "([\w-]+)"', (root / "src/settings/recipes.c").read_text("utf-8")))
    texts = {path.relative_to(root).as_posix(): COMMENT.sub("", path.read_text(encoding="utf-8"))
             for folder in ("src", *PARTS) if folder != "compat" for path in sorted((root / folder).rglob("*")) if path.suffix in CODE}
    flags -= native_names(texts)
    problems = []
    for file, text in texts.items():
        allowed = FOREIGN_WORDS.get(file, set())
        for literal in STRING.findall(text):
            words = {word.replace("-", "_") for word in re.findall(r"(?<![\w.])--([A-Za-z][\w-]*)", literal)}
            words |= {literal} if "_" in literal else set()
            found = (words & flags) | set(PROGRAMS.findall(literal))
            found |= recipes & set(re.findall(r"[\w-]+-[\w-]+", literal)) if allowed != "recipes" else set()
            problems += [f"{file}: '{word}' is a word of another program, which belongs into compat/"
                         for word in sorted(found - (set() if allowed == "recipes" else allowed))]
    return problems


def native_names(texts: dict) -> set:
    """Names and aliases of the options of Berth: those of the option table, and the verbs' own."""
    names = set()
    for text in texts.values():
        names |= set(re.findall(r'\{(?:INTEGER|REAL|FLAG|TEXT|CHOICE)\("[\w-]+",\s*\w+,\s*(\w+),', text))
        names |= set(re.findall(r'(?:CLI|JOB)_(?:FLAG|TEXT|INTEGER|REAL|LIST)\("(\w+)"', text))
        for alias in re.findall(r'\.aliases\s*=\s*((?:"[^"]*"\s*)+)', text):
            names |= set(" ".join(STRING.findall(alias)).split())
    return names


def head_problem(relative: pathlib.Path, text: str) -> list:
    """What a file's head lacks."""
    def words(of: str) -> list:
        return re.findall(r"[a-z]{2,}", of.lower())

    def stems(of: list) -> set:
        return {re.sub(r"(?:ing|ed|es|s|e)$", "", word) if len(word) > 3 else word for word in of} - NO_WORDS
    found = HEAD.match(text)
    head = (found[1] or found[2] or "") if found else ""
    names = words(" ".join([*relative.with_suffix("").parts, *NAMED.findall(NOT_CODE.sub("", text))]).replace("_", " "))
    count, new = len(re.findall(r"[\w'./-]*\w", head)), len(stems(words(head)) - stems(names))
    if count == 0:
        return [f"{relative}: lacks a head: what the file is for, where it is in a run, and what it leaves to others"]
    if count < HEAD_WORDS:
        return [f"{relative}: its head has {count} words, expected at least {HEAD_WORDS}"]
    if new < HEAD_NEW_WORDS:
        return [f"{relative}: its head says little more than the names in the file do ({new} other words)"]
    return []


def calls_between_files(root: pathlib.Path, folders: list) -> dict:
    """For each source file the source files that define the functions and objects it names."""
    code = {str(path.relative_to(root)): NOT_CODE.sub("", path.read_text(encoding="utf-8"))
            for folder in folders for path in sorted((root / folder).glob("**/*.c"))}
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
    """Prints figures of the size of files and functions, of comments, and of static functions with one caller."""
    lines, functions, comments, once, statics = {}, {}, 0, 0, 0
    for path in [path for folder in ("src", *PARTS) for path in root.glob(f"{folder}/**/*.c")]:
        text = path.read_text(encoding="utf-8")
        lines[path.relative_to(root)] = text.count("\n")
        comments += sum(len(comment.splitlines()) for comment in COMMENT.findall(STRING.sub('""', text)))
        begin = None
        for number, line in enumerate(text.splitlines()):
            if begin is None and re.match(r"^[a-z].*\)\s*\{$|^ +.*\) \{$", line) and not line.startswith("    if"):
                begin = number
            if line == "}" and begin is not None:
                functions[f"{path.relative_to(root)}:{begin + 1}"] = number - begin + 1
                begin = None
        code = NOT_CODE.sub("", text)
        names, calls = (collections.Counter(re.findall(pattern, code)) for pattern in (r"\w+", r"(\w+)\s*\("))
        defined = STATIC.findall(text)
        statics += len(defined)
        once += sum(1 for name in defined if names[name] == calls[name] == 2)  # the definition and a call
    if not functions:
        return
    longest, longest_function = max(lines, key=lines.get), max(functions, key=functions.get)
    total = sum(lines.values())
    short = sum(1 for length in functions.values() if length <= 60) / len(functions)
    print(f"sizes: {len(lines)} source files, {total} lines, {comments / total:.1%} comments, longest {longest} "
          f"({lines[longest]}), {sum(1 for length in lines.values() if length < 50)} of less than 50; {len(functions)} functions, "
          f"median {statistics.median(functions.values()):.0f} lines, {short:.0%} of at most 60, longest {longest_function} "
          f"({functions[longest_function]}); {statics} static functions, {once / statics:.0%} with one call")


if __name__ == "__main__":
    sys.exit(main())
