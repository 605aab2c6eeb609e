#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No option without effect, and no alias with one of its own: every row of the option table, in every job that
accepts it.

    option_effects.py BERTH LIST_OPTIONS SOURCE_DIR [ROW...]

For each pair of row and job a small command is run without the option and with it, and the two runs
must differ in what can be seen: exit code, standard output and error without figures of time, and
the files written. An echo is no effect: lines of the plan with the option's name and the settings
kept in trainer_state.json are taken out. A note or a warning is one. What differs between equal runs is
none: a pair that differs is run again.

What runs cannot show on every machine has a reader in READERS instead: a place in the source that
must be there. The cases are in option_cases.py: a row without a case fails, and a case without a row.

An alias is another spelling of its row: with either name the plan (--dry_run) and what --json_summary records of the
settings are equal; of a job without a plan, what can be seen of the run.

With SANITIZE in the environment each row is tried in one job, another one from row to row, a pair that differs is not
run again, and aliases are not tried: whether an option has an effect does not depend on the sanitizers, which see its
code in any job.
"""
import collections
import concurrent.futures
import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from option_cases import CASES, JOBS, READERS, XNLI

BERTH, LIST_OPTIONS, SOURCE = map(os.path.abspath, sys.argv[1:4])
ONLY = set(sys.argv[4:])
SANITIZE = os.environ.get("SANITIZE")
WORK = tempfile.mkdtemp()
RECORDS = "records.jsonl"
ENVIRONMENT = dict(os.environ, OMP_WAIT_POLICY="passive", TERM="dumb", COLUMNS="200", PYTHONDONTWRITEBYTECODE="1")

# --- what is seen of a run -----------------------------------------------------------------------

# Names of figures that differ from run to run.
TIMES = r"\w*(?:per_second|seconds|runtime|flops|flos|mfu|rss_bytes|plan_bytes|features_bytes|" \
        r"perf_per_step|time_step|time|elapsed|timestamp|datetime|_ms|gflops)"


def without_times(text):
    text = re.sub(r"[0-9.]+ (samples|tokens|sequences|pages|instances|[MG]i?B)/s", "", text)
    text = re.sub(r"[0-9.]+ s, [0-9.]+ MB of text per second", "", text)
    text = re.sub(r"\b(in|train:|predict:|rest|ETA) [0-9.:]+( ?m?s)?\b", "", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d+", "", text)
    text = re.sub(r'"%s": ?("[^"]*"|[^,}]+)' % TIMES, "", text)
    text = re.sub(r"(RunningAvgSamplesPerSec|CurrSamplesPerSec|MemAllocated|MaxMemAllocated)=[^,\s]+", "", text)
    text = re.sub(r"throughput[^:]* is:? [0-9.]+", "", text)
    text = re.sub(r"\b%s(:|_microstep:)? +:? ?[0-9.e+-]+( \w?i?B| \w?FLOP| m?s)?" % TIMES, "", text)
    return re.sub(r" \| \w+: [0-9.]+", "", text)


def without_settings(value):
    if isinstance(value, dict):
        return {key: without_settings(each) for key, each in value.items()
                if key != "settings" and not re.fullmatch(TIMES, key)}
    return [without_settings(each) for each in value] if isinstance(value, list) else value


def content(path):
    data = open(path, "rb").read()
    try:
        text = data.decode()
        if path.endswith(".json") and text.startswith("{\n"):
            text = json.dumps(without_settings(json.loads(text)))
        data = re.sub(r'"kind":"event","text":"Config".*', "", without_times(text)).encode()
    except ValueError:
        pass  # not text
    return hashlib.sha256(data).hexdigest()


def axis_of(path):
    """The x of each record of a TensorBoard file: an Event is its time (9 bytes), then its step as a varint."""
    data, at, found = open(path, "rb").read(), 0, []
    while at < len(data):
        length = int.from_bytes(data[at:at + 8], "little")
        event, step, shift = data[at + 12:at + 12 + length], 0, 0
        if event[9] == 0x10:
            for byte in event[10:]:
                step |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
            found.append(step)
        at += 16 + length
    return found


def files_of(folder):
    found = []
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            if "tfevents" in name:
                found.append(os.path.dirname(os.path.relpath(path, folder)) + f" scalars {axis_of(path)}")
            elif name not in (".lock", "manifest.json", "log.jsonl"):  # the log repeats every setting
                found += [os.path.relpath(path, folder), os.path.relpath(path, folder) + " " + content(path)]
    return sorted(found)


def records_of(folder):
    """What --json_summary, if any, records: also the settings, which are no effect by themselves."""
    path = os.path.join(folder, RECORDS)
    return without_times(open(path).read()).splitlines() if os.path.exists(path) else []


def run(line, start):
    """Exit code, lines and files of `berth line`, run in a folder of its own; `start` becomes out."""
    here = tempfile.mkdtemp(dir=WORK)
    if start is not None:
        origin = os.path.join(WORK, start)
        (shutil.copytree if os.path.isdir(origin) else shutil.copy)(origin, os.path.join(here, "out"))
    done = subprocess.run([BERTH] + shlex.split(line), cwd=here, env=ENVIRONMENT, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=300)
    lines = without_times((done.stdout + b"\n" + done.stderr).decode(errors="replace")).splitlines()
    seen = (done.returncode, lines + records_of(here), files_of(here))
    shutil.rmtree(here)
    return seen


run_once, run_again = [functools.lru_cache(maxsize=None)(run) for _ in range(2)]


def without_echo(row, seen):
    code, lines, files = seen
    echo = re.compile(r"  %s(_formula|_means)? " % re.escape(row))
    return code, [line for line in lines if not echo.match(line)], files


def items_of(seen):
    """Exit code, lines and files as a set, in which each line has a number if it is there several times."""
    code, lines, files = seen
    count = collections.Counter()
    numbered = []
    for line in lines:
        count[line] += 1
        numbered.append((line, count[line]))
    return {("exit code", code), *numbered, *files}


def effects(before, after):
    """What each of the runs before has and none after, and the other way round. What differs between equal runs is no
    effect, so there must be two of each."""
    before, after = [items_of(each) for each in before], [items_of(each) for each in after]
    return (set.intersection(*before) - set.union(*after)) | (set.intersection(*after) - set.union(*before))


# --- the small world -----------------------------------------------------------------------------

def berth(line):
    done = subprocess.run([BERTH] + shlex.split(line), cwd=WORK, env=ENVIRONMENT, capture_output=True)
    if done.returncode != 0:
        raise SystemExit("berth %s: %s" % (line, done.stderr.decode()))


def write(name, text):
    path = os.path.join(WORK, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as out:
        out.write(text)


ODD = "Caf\u00e9 \ue000 [MASK] abcdefghijkl"  # what tokenizers differ in


def make_texts():
    people = [("ada", "oslo"), ("hugo", "riga"), ("olga", "bern")]
    rows = ["\u4e2d\u56fd %s %s lived in %s,it is the %d,%s" % (ODD, *people[i % 3], i, ("no", "yes")[i % 2]) for i in range(12)]
    write("table.csv", "text,pair,label\n" + "\n".join(rows) + "\n")
    write("table2.csv", "text,pair,label\n" + "\n".join(reversed(rows[3:])) + "\n")
    for name, shift in (("", 0), ("2", 1)):
        for file, column in (("queries", 0), ("corpus", 1)):
            write(file + name + ".jsonl", "".join(json.dumps({"_id": "t%d" % number, "text": row.split(",")[column]}) + "\n"
                                                  for number, row in enumerate(rows[shift:] + rows[:shift])))
        write("qrels.tsv" if shift == 0 else "relevant2.tsv",
              "query-id\tcorpus-id\tscore\n" + "".join("t%d\tt%d\t1\n" % (number, number + shift) for number in range(len(rows) - shift)))
    fits = ["%s,%d" % (row.rsplit(",", 1)[0], i % 2) for i, row in enumerate(rows)]
    write("fits.csv", "text,pair,fits\n" + "\n".join(fits) + "\n")
    write("fits2.csv", "text,pair,fits\n" + "\n".join(reversed(fits[3:])) + "\n")
    tags = ["%s N B-PER\nlived V O\nin P O\n%s N B-LOC\n%s\n" %
            (*people[i % 3], "\n".join(word + " X O" for word in (ODD + " who lived in it" * 8).split())) for i in range(12)]
    write("tags.txt", "\n".join(tags))
    write("tags2.txt", "\n".join(reversed(tags[3:])))
    write("other.csv", "words,second,kind\n" + "\n".join(rows) + "\n")
    glue = "\n".join("%d\t1\t2\t\u4e2d\u56fd %s lived in %s\tshe lived there %d" % (i % 2, ODD, people[i % 3][1], i) for i in range(8))
    for name, part in (("train", 8), ("dev", 6), ("test", 4)):
        write("glue/%s.tsv" % name, "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n" +
              "\n".join(glue.split("\n")[:part]) + "\n")
    for language in ("zh", "en"):
        write("xnli/multinli.train.%s.tsv" % language, "premise\thypo\tlabel\n" + "".join(
            "%s in %s\tshe lived\t%s\n" % (language, people[i % 3][1], label)
            for i, label in enumerate(("neutral", "entailment", "contradictory"))))
    head = "language gold_label s1bin s1parse s2bin s2parse sentence1 sentence2 promptID pairID".split()
    write("xnli/xnli.dev.tsv", "\t".join(head) + "\n" + "".join(
        "%s\t%s\t-\t-\t-\t-\tshe in %s\tshe lived\t1\t1\n" % (language, label, language)
        for language in ("zh", "en") for label in ("neutral", "entailment", "contradiction")))
    lines = ["Ada %d." % i if i % 3 else "The %s lived in %s, and then %s asked who had come in; Café 中国 %d!"
             % (*people[i % 7 % 3], people[i % 7 % 3][0], i) for i in range(72)]
    write("text.txt", "\n".join("\n".join(lines[i:i + 6]) + "\n" for i in range(0, 72, 6)))
    write("prose.txt", "Ada lived in Oslo.\n[MASK] \ue000 Caf\u00e9 \u4e2d\u56fd lived in abcdefghijklmnopqrstuvwxyz\nAda \u00ad lived\n" * 4)
    write("lines.txt", "Ada lived in Oslo.\n[MASK] Caf\u00e9 \u4e2d\u56fd lived in abcdefghijklmnopqrstuvwxyz\nAda \u00ad lived\n" + "who " * 60 + "\n")


def make_models():
    script = '. "%s/tests/cli/lib.sh"; trap - EXIT; rm -rf "$work"; work="%s"; make_model "$work/model2" 96; ' \
             'mv "$work/config.json" "$work/config2.json"; make_model "$work/model"; make_dataset "$work/data.json"'
    subprocess.run(["bash", "-c", script % (SOURCE, WORK)], env=dict(ENVIRONMENT, BERTH=BERTH), check=True)
    words = open(os.path.join(WORK, "model/vocab.txt")).read().split("\n")[:-1]
    for name in ("vocab2.txt", "model2/vocab.txt"):
        write(name, "\n".join(words[:5] + words[:4:-1]) + "\n")
    shutil.copy(os.path.join(WORK, "model/vocab.txt"), os.path.join(WORK, "vocab.txt"))
    data = json.load(open(os.path.join(WORK, "data.json")))
    for paragraph in data["data"][0]["paragraphs"]:
        paragraph["context"] += " \u4e2d\u56fd " + " ".join("%s asked who lived in Oslo %d." % (ODD, i) for i in range(2))
    write("data.json", json.dumps(data))
    questions = data["data"][0]["paragraphs"][0]["qas"]
    questions[0]["answers"].append({"text": "Riga", "answer_start": 33})
    questions[1]["answers"][0] = {"text": "lived in Riga", "answer_start": 24}
    write("answers.json", json.dumps(data))
    moved = json.loads(json.dumps(data))
    moved["data"][0]["paragraphs"][0]["qas"][0]["answers"] = [{"text": "Riga", "answer_start": 0}]
    write("moved.json", json.dumps(moved))
    questions[2].update(answers=[], is_impossible=True)
    data["version"] = "v2.0"
    write("data2.json", json.dumps(data))


def job_line(job, extra=""):
    return "%s %s %s" % (JOBS[job][0], JOBS[job][1], extra)


def make_world():
    make_models()
    make_texts()
    write("ds.json", '{"train_batch_size": 2, "gradient_clipping": 0.01}')
    for name, length in (("shards", 32), ("shards2", 24)):
        berth("prepare --text text.txt --vocab vocab.txt --output %s-made --max_seq_length %d "
              "--max_predictions_per_seq 16 --masked_lm_prob 0.5 --short_seq_prob 0.9 --shards 2 --test_shards 1 --dupe_factor 2 --quiet" % (name, length))
        found = [parent for parent, _, names in os.walk(os.path.join(WORK, name + "-made"))
                 if any("training_0.hdf5" in each for each in names)]
        shutil.copytree(found[0], os.path.join(WORK, name))
    os.makedirs(os.path.join(WORK, "here"))
    for name, job, extra in (("squad", "finetune squad", "--output ../squad"),
                             ("classes", "finetune classify", "--output ../classes"),
                             ("pretrained", "pretrain", "--output ../pretrained"),
                             ("xnli-model", XNLI, "--output ../xnli-model"),
                             ("tagger", "finetune tokens", "--output ../tagger"),
                             ("half-tagger", "finetune tokens", "--output ../half-tagger --max_steps 3"),
                             ("half-squad", "finetune squad", "--output ../half-squad --max_steps 3 --num_train_epochs 9"),
                             ("half-classes", "finetune classify", "--output ../half-classes --max_steps 3"),
                             ("half-embed", "finetune embed", "--output ../half-embed --max_steps 3"),
                             ("ranker", "finetune rerank", "--output ../ranker"),
                             ("half-ranker", "finetune rerank", "--output ../half-ranker --max_steps 3"),
                             ("masked", "mlm", "--output ../masked"),
                             ("half-masked", "mlm", "--output ../half-masked --max_steps 3"),
                             ("half-pretrained", "pretrain", "--output ../half-pretrained --steps_this_run 3")):
        line = "%s %s" % (job, extra) if " --" in job else job_line(job, extra)
        done = subprocess.run([BERTH] + shlex.split(line), cwd=os.path.join(WORK, "here"), env=ENVIRONMENT, capture_output=True)
        if done.returncode != 0:
            raise SystemExit("berth %s: %s" % (line, done.stderr.decode()))


# --- the walk ------------------------------------------------------------------------------------

def check_reader(row, reader):
    path, pattern = reader
    if not re.search(pattern, open(os.path.join(SOURCE, path)).read()):
        return "%s: %s no longer has %s, the reader of the setting" % (row, path, pattern)
    return None


def case_of(row, job):
    """The words that follow the option's name, the command line without it, and what out is before; None: no case."""
    cases = CASES[row] if row in CASES else {}
    cases = cases if isinstance(cases, dict) else {"other": cases}
    if job not in cases and "other" not in cases:
        return None
    case = cases[job] if job in cases else cases["other"]
    value, context, start, line = (*case, None, None)[:4] if isinstance(case, tuple) else (case, "", None, None)
    line = "%s %s" % (line, context) if line else job_line(job, context)
    return "" if value is None else "=" + shlex.quote(value), line, start


def check_pair(row, job):
    case = case_of(row, job)
    if case is None:
        return "%s in berth %s: no case in option_cases.py" % (row, job)
    value, line, start = case
    option = "--%s%s" % (row, value)
    if run_once(line, start)[0] == 2:
        return "%s in berth %s: the line without it is refused: %s" % (row, job, line)
    if not has_effect(row, line, "%s %s" % (line, option), start):
        return "%s in berth %s: neither an effect nor a note (%s)" % (row, job, option)
    return None


def check_alias(row, alias, job, has_plan):
    case = case_of(row, job)
    if case is None:
        return "%s in berth %s: no case in option_cases.py" % (row, job)
    value, line, start = case
    line += " --dry_run --json_summary " + RECORDS if has_plan else ""

    def seen(name):
        code, lines, files = run("%s --%s%s" % (line, name, value), start)
        return code, [re.sub(r"--%s\b" % name, "--" + row, each) for each in lines], files
    named, spelt = [seen(row)], [seen(alias)]
    if has_plan and named[0][0] == 0 and not any('"text":"Config"' in each for each in named[0][1]):
        return "%s in berth %s: %s has no settings" % (row, job, RECORDS)
    if items_of(named[0]) != items_of(spelt[0]):
        found = effects(named + [seen(row)], spelt + [seen(alias)])
        return "%s in berth %s: another %s than %s, %s" % (alias, job, "plan" if has_plan else "run", row,
                                                         sorted(map(str, found))[0]) if found else None
    return None


def has_effect(row, line, line_with_option, start):
    before, after = [run_once(line, start)], [run(line_with_option, start)]
    if items_of(without_echo(row, before[0])) == items_of(without_echo(row, after[0])):
        return False
    if SANITIZE:
        return True
    before.append(run_again(line, start))
    after.append(run(line_with_option, start))
    return effects([without_echo(row, each) for each in before], [without_echo(row, each) for each in after])


def check_noise(job):
    """Equal runs have no effect."""
    line = job_line(job)
    found = effects([run_once(line, None), run_again(line, None)], [run(line, None), run(line, None)])
    return "berth %s: equal runs differ in %s" % (job, sorted(map(str, found))[0]) if found else None


def check_effects():
    """What is taken for an effect."""
    def seen(*lines):
        return 0, lines, ()
    noise = [seen("loss 1", "%d turns" % number) for number in range(4)]
    if effects(noise[:2], noise[2:]):
        return "what differs between equal runs is taken for an effect"
    if not effects(noise[:2], [seen("loss 2")] * 2) or not effects(noise[:2], [seen("loss 1", "a note")] * 2):
        return "an effect is not found"
    return None


def check_help(job, rows):
    text = subprocess.run([BERTH, *JOBS[job][0].split(), "--help", "all"], env=ENVIRONMENT, capture_output=True, text=True).stdout
    missing = [row for row in rows if not re.search(r"^  (?:--.*)?--%s\b" % row, text, re.MULTILINE)]
    return "berth %s --help all: no %s" % (job, ", ".join(missing)) if missing else None


JOB_OF_BIT = list(JOBS)


def rows_of_table():
    for line in subprocess.run([LIST_OPTIONS], capture_output=True, text=True, check=True).stdout.splitlines():
        names, *bits = line.split()
        yield names.split(","), [JOB_OF_BIT[int(bit)] for bit in bits]


def main():
    make_world()
    table = {names[0]: jobs for names, jobs in rows_of_table()}
    aliases = {names[0]: names[1:] for names, _ in rows_of_table()}
    failures = ["%s: a case or reader without a row" % row for row in [*CASES, *READERS]
                if (row if isinstance(row, str) else row[0]) not in table]
    failures += filter(None, [check_effects()])
    failures += filter(None, (check_help(job, [row for row in table if job in table[row]]) for job in JOBS))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(check_noise, job) for job in JOBS if not ONLY and not SANITIZE]
        for row, jobs in table.items():
            if ONLY and row not in ONLY:
                continue
            for job in [jobs[len(waiting) % len(jobs)]] if SANITIZE else jobs:
                reader = READERS.get(row, READERS.get((row, job)))
                waiting.append(pool.submit(check_reader, row, reader) if reader else
                               pool.submit(check_pair, row, job))
                waiting += [pool.submit(check_alias, row, alias, job, job in table["dry_run"])
                        for alias in aliases[row] if not SANITIZE]
        failures += [each.result() for each in waiting if each.result()]
    shutil.rmtree(WORK)
    print("\n".join(failures) if failures else "%d rows, %d runs compared" % (len(table), len(waiting)))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
