#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that what README.md and the pages of doc/ name exists: files, verbs and their options, tests, variables, inner
rooms. That pages refer to each other by links, which lead somewhere, and that doc/index.md has each of them. And that
every script may be run.

    documents.py BERTH BUILD_FOLDER SOURCE_FOLDER

Exits 1 and names each one that does not. Whether the commands work is checked by the tests that run them
(run_commands_of of lib.sh).
"""
import csv
import os
import pathlib
import re
import runpy
import subprocess
import sys

FOLDERS = "bench|cli|cmake|compat|demo|deploy|dev|doc|examples|fetch|fuzz|include|package|page|serve|src|tests|wiki"
ROOMS = "|".join(path.name for path in (pathlib.Path(__file__).parents[2] / "src").iterdir() if path.is_dir())
PATH = re.compile(rf"(?<![\w./<-])(?:(?:{FOLDERS})/[\w./*-]*\w|(?:{ROOMS})/[\w/*]+\.(?:c|h|cu|cuh|cpp|inc)\b)")
FILE = re.compile(r"`([\w*-]+\.(?:c|h|cu|cuh|cpp|inc|py|sh))`")
PLACEHOLDER = re.compile(r"\b[A-Z]+\b|(?<=_)[A-Z]+\b")
OPTION = re.compile(r"(?<![\w-])--([a-z][\w-]*)")
COMMAND = re.compile(r"(?<![\w/-])berth ([a-z][^|;&<>`\n]*)")
FAULTS = 48  # of the reliability plan
MEASUREMENTS = "doc/develop/measurements"
# Files that other programs write or that the text calls elsewhere.
FOREIGN_FILES = {"zero_to_fp32.py", "run_mlm.py", "run_classifier.py", "evaluate-v2.0.py"}
FOREIGN_OPTIONS = {  # cmake, ctest, WikiExtractor, mpirun, srun, sbatch, deepspeed, docker, apptainer, sarus, kubectl
    "rm", "build_arg", "privileged", "entrypoint", "namespace", "bind", "mount", "for", "dependency",
    "nodes", "ntasks_per_node", "time", "num_nodes", "num_gpus",
    "bind_to", "map_by", "mpi", "cpus_per_task", "cpu_bind", "build", "preset", "test_dir", "output_on_failure", "no_templates", "install", "prefix"}


def run(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def normal(option: str) -> str:
    return option.replace("-", "_").rstrip("_")


def options_in(text: str) -> set:
    return {normal(name) for name in OPTION.findall(text)}


def not_executable(root: pathlib.Path) -> list:
    """Scripts with an interpreter's name and without the right to run."""
    files = [path for path in root.iterdir() if path.is_file()]
    files += [path for folder in [*FOLDERS.split("|"), ".ci"] for path in (root / folder).rglob("*") if path.is_file()]
    scripts = []
    for path in files:
        with path.open("rb") as file:
            if file.read(2) == b"#!" and not os.access(path, os.X_OK):
                scripts.append(f"{path.relative_to(root)}: a script that cannot be run: chmod +x")
    return scripts


class Program:
    """The verbs and the options that each accepts, and the programs of `berth as` with theirs: from the help."""

    def __init__(self, berth: str):
        usage = run(berth, "--help")
        self.verbs = {}
        for name, objective in re.findall(r"^  ([a-z]+(?: [a-z]+)?)  +(?:with (--objective \w+): )?(?=\w)", usage, re.M):
            accepted = options_in(run(berth, *name.split(), *objective.split(), "--help", "all")) | {"help", "version"}
            self.verbs[name] = self.verbs.get(name, set()) | accepted
        self.others = set()  # other programs
        own = set().union(*self.verbs.values())
        for block in run(berth, "as").split("\n\n")[1:]:
            system, *rows = block.strip().split("\n")
            for name in [row.split()[0] for row in rows if row.startswith("  ") and ".sh " not in row]:
                self.others.add(name)
                self.verbs["as"] |= options_in(run(berth, "as", f"{system}/{name}", "--help"))
        self.verbs["as"] |= own | {"print_command"}
        self.options = set().union(*self.verbs.values())

    def verb_of(self, words: list) -> str:
        pair = " ".join(words[:2])
        return pair if pair in self.verbs else words[0]

    def accepts(self, option: str, verbs: list) -> bool:
        known = set().union(*(self.verbs[verb] for verb in verbs)) if verbs else self.options
        return not known.isdisjoint({option, option.removeprefix("no_"), option.removeprefix("no")})


def code_of(text: str) -> str:
    """Code blocks, with continued lines joined, and code spans, a line each."""
    blocks = re.findall(r"^ *```(?:sh|console)?\n(.*?)^ *```", text, re.M | re.S)
    blocks += re.findall(r"(?:^    .*\n)+", text, re.M)
    return "\n".join(re.sub(r"\\\n\s*", "", block) for block in blocks) + "\n" + \
        "\n".join(span.replace("\n", " ") for span in re.findall(r"`([^`]+)`", re.sub(r"^ *```.*$", "", text, flags=re.M)))


def missing_files(text: str, root: pathlib.Path, names: set):
    for path in sorted(set(PATH.findall(text))):
        pattern = PLACEHOLDER.sub("*", path)
        of_image = pattern.replace("examples/", "deploy/scripts/")
        if not any(any(root.glob(where)) for where in (pattern, "src/" + pattern, of_image)):
            yield f"no file {path}"
    for name in sorted(set(FILE.findall(text)) - FOREIGN_FILES):
        if not any(pathlib.PurePath(known).match(PLACEHOLDER.sub("*", name)) for known in names):
            yield f"no file is called {name}"


def wrong_commands(text: str, program: Program, elsewhere: set):
    code = code_of(text)
    for command in COMMAND.findall(code):
        verb = program.verb_of(command.split())
        verbs = [name for name in program.verbs if name == verb or name.startswith(verb + " ")]
        if not verbs:
            yield f"no verb: berth {command.strip()}"
            continue
        for option in sorted(options_in(command)):
            if not program.accepts(option, verbs):
                yield f"berth {verb} has no --{option}"
    for option in sorted(options_in(text)):
        if not program.accepts(option, []) and option not in elsewhere:
            yield f"no --{option} anywhere"


def rows_of(text: str, title: str):
    """The first cell of each row of the tables with a column of this title, and the cell below the title."""
    column = None
    for line in text.split("\n"):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            column = None
        elif title in cells:
            column = cells.index(title)
        elif column is not None and column < len(cells) and not set(line) <= set("|- :"):
            yield cells[0], cells[column]


def missing_tests(text: str, tests: set, functions: set):
    """Each row of a table with a column "test" names one, or a program of dev/ or bench/. A part of a test has the
    name of its function, or is quoted with that name's words."""
    for first, cell in rows_of(text, "test"):
        names = re.findall(r"`([a-z]\w*)`", cell)
        for name in names:
            if name not in tests and not any(name.endswith("_") and test.startswith(name) for test in tests):
                yield f"no test {name}"
        if not names and not re.search(r"`(?:dev|bench)/", cell) and cell != "see below":
            yield f"no test in the row \"{first}\""
        for part in re.findall(r'"([^"]+)"|\btest_(\w+)', cell):
            if max(part).replace(" ", "_") not in functions:
                yield f"no part of a test is called {max(part)}"


def numbers_of(cell: str) -> set:
    """Of a cell like "5, 7"."""
    return {int(number) for number in cell.split(", ")} if re.fullmatch(r"\d+(, \d+)*", cell) else set()


def incomplete_faults(text: str, nightly: str):
    """The table of faults has a row for each number of the plan, and dev/nightly runs the programs that its rows name."""
    faults = [(numbers_of(first), cell) for first, cell in rows_of(text, "test") if numbers_of(first)]
    for number in sorted(set(range(1, FAULTS + 1)) - set().union(*(numbers for numbers, _ in faults))):
        yield f"no row for fault {number}"
    for name in sorted(set(re.findall(r"`((?:dev|bench)/[\w./-]+)", " ".join(cell for _, cell in faults)))):
        if name not in nightly:
            yield f"dev/nightly does not run {name}"


def incomplete_table(root: pathlib.Path, name: str, names: set):
    """The rows of a file of measurements are those names, perhaps with a remark in brackets."""
    with (root / MEASUREMENTS / name).open(encoding="utf-8", newline="") as file:
        found = {row[0].partition(" (")[0] for row in list(csv.reader(file))[1:]}
    for missing in sorted(found ^ names):
        yield f"{name}: {missing}: the rows and the program must agree"


def wrong_measurements(root: pathlib.Path, pages: dict):
    """A file of measurements has a name for each column and as many cells in each row, and a page names it."""
    for path in sorted((root / MEASUREMENTS).iterdir()):
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        if len(set(rows[0])) < len(rows[0]) or "" in rows[0] or any(len(row) != len(rows[0]) for row in rows):
            yield f"{path.name}: names of columns, or numbers of cells"
        if not any(f"measurements/{path.name})" in text for text in pages.values()):
            yield f"{path.name}: no page names it"


def words_of_keys(text: str):
    """The keys of the rows of src/report/keys.c, and those that other keys only end with."""
    rows, _, ends = text.partition("const struct key_row key_rows[] = {")[2].partition("// --- what other keys end with")
    first = re.compile(r'^ +\{(?:\.keys = )?((?:\s*"[^"]*")+)', re.M)
    return [[word for row in first.findall(part) for word in "".join(re.findall(r'"([^"]*)"', row)).split()]
            for part in (rows, ends)]


def wrong_keys(root: pathlib.Path):
    """A key that the sources give to a record or to a score is in the table of keys, nothing else is in it, and
    doc/develop/records.md lists it. In series of evaluations "eval_" stands before a key."""
    table = root / "src/report/keys.c"
    sources = {path: path.read_text(encoding="utf-8") for path in root.glob("src/**/*.c") if path != table}
    keys, _ = words_of_keys(table.read_text(encoding="utf-8"))
    given = re.compile(r'\b(?:log_(?:integer|real|text)\(|add_unless_nan\(&\w+,|task_score_add\(\w+,|'
                       r'add\(scores,)\s*"([^"]+)"')
    of_sinks = {path for path in sources if path.parent == table.parent}
    for path in sorted(set(sources) - of_sinks):
        for key in sorted(set(given.findall(sources[path])) - set(keys)):
            yield f"{path.name}: the key {key} is not in src/report/keys.c"
    series = {key for key in keys if key.removeprefix("eval_") in set(keys) - {key}}
    everything = "\n".join(sources.values())
    for key in sorted(set(keys) - series):
        if f'"{key}"' not in everything:
            yield f"keys.c: no source has the key {key}"
    section = (root / "doc/develop/records.md").read_text(encoding="utf-8").partition("](../compatibility.md")[2]
    lines = [line.partition("|")[2].partition("|")[2] for line in section.split("\n") if line.startswith("| ")]
    listed = set(re.findall(r"`([^`]+)`", "\n".join(lines) + section.partition("\n|")[0]))
    listed -= {"_bytes", "_seconds", "_ms", "_flops", "_per_second", "src/report/keys.c", "null", "kind", "text",
               "Config", "eval_", "berth plot"}
    for key in sorted((set(keys) - series) ^ (listed - series)):
        yield f"records.md: {key}: the list and src/report/keys.c must agree"


def outside_code(text: str) -> str:
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)


def anchors_of(page: pathlib.Path) -> set:
    """Of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", outside_code(page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-") for heading in headings}


def wrong_links(text: str, page: pathlib.Path):
    """Links that lead nowhere, and pages that are named without a link."""
    text = outside_code(text)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    for link in links:
        path, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"the link {link} leads nowhere"
        elif anchor and anchor not in anchors_of(target):
            yield f"the link {link}: no such heading"
    for name in re.findall(r"(?<!\[)`(doc/[\w/-]+\.md)", re.sub(r"\[[^\]]*\]\([^)]*\)", "", text)):
        if not page.as_posix().endswith(name):
            yield f"{name} is named without a link"


def not_in_index(root: pathlib.Path):
    index = root / "doc/index.md"
    links = re.findall(r"\]\(([^)#\s]+)", index.read_text(encoding="utf-8"))
    listed = {(index.parent / link).resolve() for link in links}
    for page in pages_of(root):
        if page.resolve() not in listed and page != index:
            yield f"index.md: no link to {page.relative_to(root)}"


def pages_of(root: pathlib.Path) -> list:
    return [root / "README.md", *sorted(root.glob("doc/**/*.md"))]


def wrong_rooms(root: pathlib.Path, design: str):
    """Rooms and files of design.md that may include other rooms than dev/check_dependencies.py allows."""
    rules = runpy.run_path(str(root / "dev/check_dependencies.py"))
    allowed = {**rules["INNER"], **rules["ALLOWED"], "cli": rules["CLI_MAY"] - {"cli"}}
    described = {}
    for room, cell in re.findall(r"^\| `(?:src/)?(\w+(?:/\w+)?)` \|[^|\n]*\|([^|\n]*)\|$", design, re.M):
        place = room.partition("/")[0] if room.startswith("device/") else room  # whose rooms are in one row of the rules
        described.setdefault(place, set()).update(set(re.findall(r"[a-z]\w+", cell.replace("berth.h", ""))) - {place})
    for room in sorted({room for room in allowed if not room.startswith("device/")} | described.keys() & allowed.keys()):
        found = described.get(room)
        if found is None:
            yield f"design.md: room {room} is not described"
        elif room == "device":
            found &= allowed.keys() | {"emulation"}  # among other words
        if found is not None and found != allowed[room]:
            yield f"design.md: room {room}: {sorted(found)} and check_dependencies.py's {sorted(allowed[room])} must agree"
    files = set(re.findall(r"`(\w+\.[ch])`", design.partition("files of `cli` may look further inside")[2].partition("\n\n")[0]))
    if files != rules["CLI_MAY_LOOK_INSIDE"]:
        yield f"design.md: files of cli: {sorted(files ^ rules['CLI_MAY_LOOK_INSIDE'])}: design.md and check_dependencies.py must agree"


def main(berth: str, build: str, source: str) -> int:
    root = pathlib.Path(source)
    program = Program(berth)
    names = {path.name for folder in FOLDERS.split("|") for path in (root / folder).rglob("*")}
    originals = (root / "tests/seeds/flags.txt").read_text(encoding="utf-8")
    names |= set(re.findall(r"[\w-]+\.py", originals)) | program.others
    tests = set(re.findall(r"Test +#\d+: (\S+)", run("ctest", "--test-dir", build, "-N")))
    tests |= {path.stem for path in (root / "fuzz").glob("fuzz_*.c")}
    sources = "\n".join(path.read_text(encoding="utf-8", errors="replace")
                        for pattern in ("src/**/*.[ch]", "*/*.[ch]", "tests/**/*.*[chy]", "dev/**/*", "deploy/**/*", "bench/**/*", "run-*",
                                        "examples/*", "CMakeLists.txt", "*/CMakeLists.txt", "package/*", "src/**/*.cmake", "tests/emulation/*")
                        for path in root.glob(pattern) if path.is_file())
    elsewhere = FOREIGN_OPTIONS | options_in(sources) | {normal(name) for name in re.findall(r"[a-z][\w-]*", originals)}
    functions = set(re.findall(r"\b(?:test_)?(\w+)\(", sources)) | tests | {
        pathlib.PurePath(name).stem.removeprefix("test_") for name in names}
    problems = []
    for page in pages_of(root):
        text = page.read_text(encoding="utf-8")
        wrong = [*missing_files(text, root, names), *wrong_commands(text, program, elsewhere),
                 *missing_tests(text, tests, functions), *wrong_links(text, page)]
        wrong += [f"no variable {name}" for name in sorted(set(re.findall(r"\bBERTH_[A-Z_]+\b", text)))
                  if name not in sources]
        wrong += [f"unfinished: {mark}" for mark in re.findall(r"@@\w+@@|TODO", text)]
        problems += [f"{page.name}: {problem}" for problem in wrong]
    testing = (root / "doc/develop/testing.md").read_text(encoding="utf-8")
    problems += incomplete_faults(testing, run("bash", str(root / "dev/nightly"), "--list"))
    targets = {path.stem.removeprefix("fuzz_") for path in (root / "fuzz").glob("fuzz_*.c")}
    kinds = set(re.findall(r"^([\w-]+):?", run(sys.executable, "-B", str(root / "dev/mutate-files"), build, "--list"), re.M))
    verbs = set(run(sys.executable, "-B", str(root / "dev/fail-calls"), build, "--list").strip().split("\n"))
    problems += incomplete_table(root, "fuzzing.csv", targets)
    problems += incomplete_table(root, "mutate-files.csv", kinds)
    problems += incomplete_table(root, "fail-calls.csv", verbs)
    problems += wrong_measurements(root, {page: page.read_text(encoding="utf-8") for page in pages_of(root)})
    design = (root / "doc/develop/design.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^\| `((?:data|format|train)/\w+)` \|", design, re.M))
    folders = {f"{path.parent.name}/{path.name}" for room in ("data", "format", "train")
               for path in (root / "src" / room).iterdir() if any(path.glob("*.c"))}
    problems += wrong_rooms(root, design)
    problems += wrong_keys(root)
    problems += not_in_index(root)
    problems += subprocess.run([str(root / "dev/draw-pictures"), "--check"], capture_output=True, text=True).stdout.splitlines()
    problems += not_executable(root)
    problems += [f"design.md: inner room {name}: described and in src/ must agree" for name in described ^ folders]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
