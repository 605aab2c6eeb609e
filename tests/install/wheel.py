#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package as its users call it, beside the program of the same wheel: the same numbers and the same bytes.

usage: wheel.py SOURCE SCRATCH [--modules]
"""
import contextlib
import hashlib
import io
import json
import multiprocessing
import os
import pathlib
import pickle
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import types
import warnings

import numpy

import berth

SOURCE, SCRATCH = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
MODEL = SOURCE / "tests/golden/classifier"
QUESTION, CONTEXT = "who has the ball ?", "anna has the ball"
TEXTS = ["the red ball", "anna has the ball of anna", "the", "who has the red ball ?"]


def expect(holds: bool, what: str):
    if not holds:
        sys.exit(f"FAILED: {what}")


def program(*words, text: str = "") -> str:
    done = subprocess.run(["berth", *map(str, words)], input=text, capture_output=True, text=True)
    expect(done.returncode == 0, f"berth {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def refuses(what: str, kind, call, *arguments):
    try:
        call(*arguments)
    except kind as error:
        return error
    return expect(False, f"{what} was accepted")


def check_answers(model: berth.Model):
    shown = json.loads(program("answer", "--model", MODEL, "--allow_new_head", "--precision", "fp32", "--question", QUESTION, "--context",
                               CONTEXT, "--top", 3, "--json"))
    found = model.answers([QUESTION, QUESTION], [CONTEXT, CONTEXT], top=3)
    expect(found[0] == found[1] and len(found[0]) == 3, "two equal questions have other answers")
    texts = [answer["text"] for answer in shown["answers"]]
    expect([answer.text for answer in found[0]] == texts, f"answers {found[0]}, the program's {texts}")
    expect(model.answer(QUESTION, CONTEXT) == found[0][0], "the best answer")
    expect([answer.probability for answer in found[0]] == [answer["probability"] for answer in shown["answers"]],
           "the probabilities differ from the program's")
    error = refuses("a model without the head", berth.Error, berth.open(MODEL).answer, QUESTION, CONTEXT)
    expect(error.status == 78 and "qa_outputs" in str(error), f"a model without the head: {error}")
    best = found[0][0]
    expect(CONTEXT[best.start:best.end] == best.text, "an answer's position")


def check_numbers(model: berth.Model):
    rows = berth.Model(MODEL).embed(TEXTS)  # in fp32, the default of both
    lines = program("embed", "--model", MODEL, text="\n".join(TEXTS) + "\n").splitlines()
    program_rows = numpy.array([json.loads(line)["embedding"] if line.startswith("{") else json.loads(line)
                                for line in lines], numpy.float32)
    expect(numpy.array_equal(rows, model.embed(TEXTS)), "embeddings are not in fp32")
    expect(rows.dtype == numpy.float32 and numpy.array_equal(rows, program_rows), "embeddings differ")
    hashed = program("embed", "--model", MODEL, "--hash", text="\n".join(TEXTS) + "\n").strip()
    expect(hashlib.sha256(rows.tobytes()).hexdigest() == hashed, "the library's vectors have another hash than the program's")
    first = berth.Model(MODEL, pooling="cls", normalize=False).embed(TEXTS)
    lines = program("embed", "--model", MODEL, "--pooling", "cls", "--no_normalize", text="\n".join(TEXTS)).splitlines()
    program_rows = numpy.array([json.loads(line)["embedding"] for line in lines], numpy.float32)
    expect(numpy.array_equal(first, program_rows), "pooling and normalize")
    scores = model.classify(TEXTS, TEXTS[::-1])
    expect(scores.shape == (4, len(model.labels)) and numpy.allclose(scores.sum(1), 1, atol=1e-5), "probabilities")
    alone = numpy.concatenate([model.classify([a], [b]) for a, b in zip(TEXTS, TEXTS[::-1])])
    expect(numpy.array_equal(scores, alone), "a text has other scores alone")


def check_tokens(model: berth.Model):
    tokens = model.tokenize("the red ball", "anna")
    expect(tokens.pieces[0] == "[CLS]" and tokens.pieces.count("[SEP]") == 2, f"pieces {tokens.pieces}")
    for name, value in (("max_seq_length", 8), ("max_length", 8), ("max-seq-length", "0.8e1")):
        short = berth.Model(MODEL, **{name: value}).tokenize("the red ball " * 4)
        expect(len(short.ids) == 8, f"{len(short.ids)} tokens, {name} {value}")
    expect(tokens.types.tolist() == [0] * 5 + [1] * 2, f"types {tokens.types}")
    vocabulary = (MODEL / "vocab.txt").read_text().split("\n")
    expect([vocabulary[i] for i in tokens.ids] == tokens.pieces, "ids")
    expect(tokens.offsets[1].tolist() == [0, 3] and tokens.offsets[0].tolist() == [-1, -1], "offsets")


def check_errors(model: berth.Model):
    error = refuses("a missing folder", berth.Error, berth.Model, SCRATCH / "none")
    expect(error.status == 66 and "none" in str(error), f"a missing folder: {error}")
    error = refuses("an unknown setting", berth.Error, lambda: berth.Model(MODEL, threds=3))
    expect(error.status == 2 and "threads" in str(error), f"an unknown setting: {error}")
    error = refuses("a setting of training", berth.Error, lambda: berth.Model(MODEL, learning_rate=3))
    expect(error.status == 2 and "does not use" in str(error), f"a setting of training: {error}")
    error = refuses("a setting of another task", berth.Error, lambda: model.classify(TEXTS, pooling="cls"))
    expect(error.status == 2 and "pooling" in str(error), f"a setting of another task: {error}")
    error = refuses("a model that is not in the cache", berth.Error, berth.Model, "nobody/nothing")
    expect(error.status == 66 and "fetch" in str(error), f"a model that is not in the cache: {error}")
    error = refuses("a question without words", berth.Error, model.answers, [QUESTION, ""], [CONTEXT, CONTEXT])
    expect(error.input == 1 and "questions[1]: " in str(error), f"the question that fails: {error}")
    refuses("a NUL in a path", ValueError, berth.Model, b"a\0b")
    error = refuses("a path in another encoding", berth.Error, berth.Model, "/none/\udce4")
    expect(error.status == 66, f"a path in another encoding: {error}")
    refuses("one text of bytes", TypeError, model.embed, b"text")
    error = refuses("a NUL", ValueError, model.embed, ["text", "a\0b"])
    expect("texts[1]" in str(error), f"the text with a NUL: {error}")
    error = refuses("a lone surrogate", ValueError, model.classify, TEXTS, [*TEXTS[:3], "\ud800"])
    expect("pairs[3]" in str(error), f"the text with a surrogate: {error}")
    error = refuses("a number among texts", TypeError, model.embed, ["text", float("nan")])
    expect("texts[1]" in str(error) and "float" in str(error), f"a number among texts: {error}")
    refuses("fewer contexts than questions", ValueError, model.answers, [QUESTION, QUESTION], [CONTEXT])
    error = refuses("a negative number of answers", ValueError, model.answers, [QUESTION], [CONTEXT], -1)
    expect("top" in str(error), f"a negative number of answers: {error}")
    error = refuses("an unknown task", berth.Error, model.run, "nonsense", TEXTS)
    expect(error.status == 2 and "classify" in str(error), f"an unknown task: {error}")
    refuses("a task that is no text", TypeError, berth.train, {}, print)
    refuses("a setting's name that is no text", TypeError, berth.train, {1: 2})
    expect(refuses("a question without words", berth.Error, model.answer, "", CONTEXT).status == 2, "no words")


# What each method with numbers gives; NumPy's arrays and those without it become lists.
PLAIN = """
import json, sys
if len(sys.argv) > 2:
    sys.modules["numpy"] = None
import berth
TEXTS, model = json.loads(sys.argv[1]), berth.open({model!r}, precision="fp32")
def plain(found):
    return found.tolist() if hasattr(found, "tolist") else [plain(row) for row in found] if isinstance(found, list) else found
tokens, states = model.tokenize("the red ball", "anna"), model.hidden(TEXTS)
found = [model.embed(TEXTS), model.embed([]), model.classify(TEXTS, TEXTS[::-1]), model.classify(iter(TEXTS))[1], model.hidden("the"),
         states[1], model.run("embed", TEXTS), model.encode(TEXTS[0]), model.tokenize("the").ids, *tokens]
print(json.dumps([type(found[0]).__name__, type(states[0]).__name__, [plain(each) for each in found]]))
try:
    model.rerank("the", TEXTS)
except berth.Error as error:
    print(json.dumps(str(error)))
"""


def check_plain():
    """Without NumPy there are the same numbers, as lists of arrays."""
    found = []
    for more in ((), ("plain",)):
        done = subprocess.run([sys.executable, "-c", PLAIN.replace("{model!r}", repr(str(MODEL))), json.dumps(TEXTS), *more],
                              capture_output=True, text=True)
        expect(done.returncode == 0, f"{more}: {done.stderr}")
        found.append([json.loads(line) for line in done.stdout.splitlines()])
    expect([each[0][:2] for each in found] == [["ndarray", "ndarray"], ["list", "list"]], f"types {found[0][0][:2]}")
    expect(found[0][0][2] == found[1][0][2] and found[0][1:] == found[1][1:], "other numbers without NumPy")
    expect(len(found[0][0][2][0]) == 4 and found[0][0][2][1] == [], "embeddings without NumPy")


def check_progress(model: berth.Model):
    """A function gets the progress, as tqdm's bar does; without both it is a line on standard error."""
    seen, bars = [], []

    class Bar:
        def __init__(self, total):
            self.total, self.n, self.is_closed = total, 0, False
            bars.append(self)

        def update(self, more):
            self.n += more

        def close(self):
            self.is_closed = True

    model.embed(TEXTS * 200, progress=lambda done, total: seen.append((done, total)))
    expect(len(seen) > 1 and seen == sorted(seen) and seen[-1] == (800, 800), f"progress {seen}")
    before = {name: sys.modules.get(name) for name in ("tqdm", "tqdm.auto")}
    sys.modules["tqdm"], sys.modules["tqdm.auto"] = types.ModuleType("tqdm"), types.ModuleType("tqdm.auto")
    sys.modules["tqdm.auto"].tqdm = Bar
    model.encode(TEXTS * 200, show_progress_bar=True)
    sys.modules.update({"tqdm": None, "tqdm.auto": None})
    expect([(bar.total, bar.n, bar.is_closed) for bar in bars] == [(800, 800, True)], f"bars {[vars(bar) for bar in bars]}")
    with contextlib.redirect_stderr(io.StringIO()) as text:
        model.embed(TEXTS * 200, progress=True)
    expect(text.getvalue().endswith("\r800/800\n"), f"the line of progress {text.getvalue()!r}")
    for name, module in before.items():
        sys.modules.pop(name)
        sys.modules.update({name: module} if module else {})


class Column(list):
    """Texts that have labels, as a column of a table does: here they count from the end."""

    def __getitem__(self, label):
        return super().__getitem__(-1 - label)


def check_iterables(model: berth.Model):
    """Any iterable of texts; pairs by their order, not by labels."""
    scores = model.classify(TEXTS, TEXTS[::-1])
    expect(numpy.array_equal(model.classify(Column(TEXTS), Column(TEXTS[::-1])), scores), "columns: paired by labels")
    expect(numpy.array_equal(model.classify(iter(TEXTS), numpy.array(TEXTS)[::-1]), scores), "an iterator and an array")
    expect(numpy.array_equal(model.embed(TEXTS[0]), model.embed(TEXTS[:1])[0]), "one text has another embedding")
    expect(numpy.array_equal(model.classify(TEXTS[0], TEXTS[1]), model.classify(TEXTS[:1], TEXTS[1:2])[0]), "one pair, other classes")
    expect(berth.__version__ == berth.version() == re.search(r"[0-9.]+$", program("--version").strip())[0], "__version__")
    expect(model.embed([]).shape[0] == model.classify([]).shape[0] == len(model.answers([], [])) == 0, "no texts")


def check_pickle(model: berth.Model):
    """A Model and an Error can go to another process."""
    other = pickle.loads(pickle.dumps(berth.Model(MODEL, pooling="cls")))
    expect(numpy.array_equal(other.embed(TEXTS), berth.Model(MODEL, pooling="cls").embed(TEXTS)), "a model by pickle")
    with multiprocessing.get_context("fork").Pool(1) as pool:
        later = pool.apply_async(model.answer, ("", CONTEXT))
        error = refuses("an empty question in a Pool", berth.Error, later.get, 60)
    expect(error.status == 2 and "questions[0]" in str(error), f"an error of another process: {error.status} {error}")


def check_calls(model: berth.Model):
    """Many texts have the same numbers as few; progress is reported while they run, and a log may cancel."""
    few, texts = (model.embed(TEXTS), model.classify(TEXTS), model.answers([QUESTION], [CONTEXT])), TEXTS * 500
    expect(numpy.array_equal(model.embed(texts), numpy.tile(few[0], (500, 1))), "other numbers among many texts")
    expect(numpy.array_equal(model.classify(texts), numpy.tile(few[1], (500, 1))), "other scores among many texts")
    expect(model.answers([QUESTION] * 500, [CONTEXT] * 500) == few[2] * 500, "other answers among many questions")
    error = refuses("an empty question", berth.Error, model.answers, [QUESTION] * 499 + [""], [CONTEXT] * 500)
    expect("questions[499]" in str(error), f"the question that fails among many: {error}")
    progress = []
    watched = berth.Model(MODEL, log=lambda record: progress.append(record) if record["kind"] == "progress" else None)
    expect(numpy.array_equal(watched.embed(texts), numpy.tile(few[0], (500, 1))), "other numbers with a log")
    expect(len(progress) > 2 and progress[-1]["done"] == progress[-1]["total"] == 2000, f"progress {progress[-1:]}")

    def interrupt(record):
        if record["kind"] == "progress":
            os.kill(os.getpid(), signal.SIGINT)

    refuses("Ctrl-C", KeyboardInterrupt, berth.Model(MODEL, log=interrupt).embed, texts)


def check_rows(model: berth.Model):
    """The rows of the table of tasks as methods, and what users of other libraries expect."""
    expect({"answer", "classify", "tag", "embed", "fill", "rerank", "hidden", "tokenize", "embed_sparse", "embed_tokens"} <=
           {row["name"] for row in berth.tasks()}, "tasks")
    rate = next(row for row in berth.options() if row["name"] == "learning_rate")
    expect(rate["type"] == "real" and "train-classify" in rate["uses"].split(), f"the option {rate}")
    classes = model.run("text-classification", TEXTS[0])
    expect([each["text"] for each in classes] == sorted(model.labels, key=lambda name: -model.classify(TEXTS[:1])[
        0, model.labels.index(name)]), f"classes {classes}")
    expect(berth.pipeline("text-classification", model)(TEXTS[0]) == classes, "pipeline")
    scores = model.rerank(TEXTS[0], TEXTS[1:], label=model.labels[1])
    expect(numpy.array_equal(scores, model.classify(TEXTS[:1] * 3, TEXTS[1:])[:, 1]), f"scores of a class: {scores}")
    order = sorted(range(3), key=lambda i: -scores[i])
    ranked = [{"corpus_id": i, "score": float(scores[i]), "text": TEXTS[1:][i]} for i in order]
    expect(model.rank(TEXTS[0], TEXTS[1:], 2, True, label=model.labels[1]) == ranked[:2], "rank")
    error = refuses("a class that must be named", berth.Error, model.rerank, TEXTS[0], TEXTS[1:])
    expect(error.status == 2 and all(name in str(error) for name in model.labels), f"a class that must be named: {error}")
    entails = shutil.copytree(MODEL, SCRATCH / "entails")  # its class of entailment is the last one
    config = json.loads((entails / "config.json").read_text())
    config["id2label"] = {key: "entailment" if key == max(config["id2label"]) else f"other {key}" for key in config["id2label"]}
    config.pop("label2id", None)
    (entails / "config.json").write_text(json.dumps(config))
    with berth.open(entails) as other:
        chosen = other.classify(TEXTS, candidate_labels=["red, or blue", "round"])
        expect(chosen.shape == (len(TEXTS), 2) and numpy.allclose(chosen.sum(axis=1), 1), f"candidate labels {chosen}")
        alone = other.classify(TEXTS[:1], candidate_labels=["red, or blue", "round"], multi_label=True)
        expect(not numpy.allclose(alone.sum(), 1) and (alone > 0).all(), f"candidate labels, each alone: {alone}")
    states = model.hidden(TEXTS[0])
    expect(states.shape == (len(model.tokenize(TEXTS[0]).ids), int(model.number("dimensions"))), f"states {states.shape}")
    expect(numpy.array_equal(model.encode(TEXTS[0]), model.embed(TEXTS)[0]), "encode of one text")
    expect(model.encode(TEXTS, truncate_dim=4).shape == (4, 4), "truncate_dim")
    expect(numpy.array_equal(model.encode(TEXTS[0], prompt="the "), model.embed(["the " + TEXTS[0]])[0]), "a prompt")
    expect(len(model.embed_tokens("the")) == 3, "a vector for each token")
    expect(model.number("tensors") == len(model.tensors()) > 0, "tensors")
    expect(model.text("task") == "classify" and "embed" in model.text("tasks").split(), "facts")


def check_memory(model: berth.Model):
    """Examples in memory train as a file does; a log that returns False ends with the model so far."""
    labels = model.labels
    examples = [(text, labels[i % len(labels)]) for i, text in enumerate(TEXTS * 4)]
    data = SCRATCH / "examples.jsonl"
    data.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in examples))
    settings = {"max_seq_length": 16, "train_batch_size": 4, "num_train_epochs": 1, "threads": 1, "seed": 3}
    trained = berth.open(MODEL, precision="fp32").train("classify", examples, **settings)
    trained.save(SCRATCH / "memory")
    berth.train({**settings, "model": MODEL, "precision": "fp32", "train_file": data, "text_column": "text",
                 "label_column": "label", "output_dir": SCRATCH / "file"}, task="classify")
    weights = [(SCRATCH / folder / "model.safetensors").read_bytes() for folder in ("memory", "file")]
    expect(weights[0] == weights[1], "examples in memory train to other weights than a file")
    expect(trained.number("steps") == 4 and trained.number("loss") > 0, f"{trained.number('steps')} updates")
    expect(not numpy.array_equal(trained.classify(TEXTS), model.classify(TEXTS)), "the training changed nothing")
    expect(numpy.array_equal(berth.open(SCRATCH / "memory", precision="fp32").classify(TEXTS), trained.classify(TEXTS)),
           "the saved model has other scores")
    check_lessons()
    check_job()
    short = berth.open(MODEL).train("classify", examples, log=lambda record: record["kind"] != "step", logging_steps=1,
                                    **{**settings, "num_train_epochs": 100})
    expect(1 <= short.number("steps") < 10, f"a log that ends the training: {short.number('steps')} updates")
    error = refuses("an example without a text", TypeError, model.train, "classify", [(3, "a")])
    expect("str" in str(error), f"an example without a text: {error}")


def check_job():
    """A job by its name gives what its verb prints; a log that returns False ends it."""
    pairs, output = SCRATCH / "pairs.jsonl", SCRATCH / "mined.jsonl"
    pairs.write_text("".join(json.dumps({"query": text, "text": text + " ball"}) + "\n" for text in TEXTS))
    settings = {"model": MODEL, "pairs": pairs, "output": output, "num_negatives": 2, "threads": 1, "output_scores": True}
    summary, lines = berth.job("mine", settings), [json.loads(line) for line in output.read_text().splitlines()]
    expect(summary["examples"] == len(lines) == 2 * len(set(TEXTS)) and summary["pairs_with_too_few"] == 0, f"mined: {summary}")
    expect(list(lines[0]) == ["query", "positive", "negative", "scores"], f"mined: {lines[0]}")
    error = refuses("a job that is unknown", berth.Error, berth.job, "nonsense", {})
    expect("mine" in str(error), f"a job that is unknown: {error}")
    output.unlink()
    error = refuses("a job that its log ends", berth.Error, berth.job, "mine", settings, lambda record: False)
    expect(error.status == 75 and not output.exists(), f"a job that its log ends: {error}")


def check_lessons():
    """The same for the other tasks."""
    lessons = {
        "answer": ([(QUESTION, CONTEXT, "anna")] * 4, json.loads((training_settings()["train_file"]).read_text()), {}),
        "tag": ([(["anna", "has", "it"], ["B-PER", "O", "O"]), ("ben", "B-PER")], "anna B-PER\nhas O\nit O\n\nben B-PER\n", {}),
        "embed": ([("anna", "ben", "the ball"), ("the ball", "a ball", "ben")],
                  "a,b,c\nanna,ben,the ball\nthe ball,a ball,ben\n",
                  {"text_column": "a", "text_pair_column": "b", "negative_column": "c"}),
        "fill": (["the red ball", "anna has it"], "the red ball\nanna has it\n", {}),
    }
    for task, (examples, text, columns) in lessons.items():
        settings = {"max_seq_length": 16, "train_batch_size": 2, "max_steps": 2, "threads": 1, "seed": 3}
        if task == "answer":
            settings.update(doc_stride=4, max_query_length=8)
            text["data"][0]["paragraphs"][0]["qas"] = text["data"][0]["paragraphs"][0]["qas"][:4]
            text = json.dumps(text)
        if task == "fill":
            settings.update(validation_split_percentage=0, line_by_line=True)
        data = SCRATCH / f"lesson.{'json' if task == 'answer' else 'csv' if columns else 'txt'}"
        data.write_text(text)
        berth.open(MODEL, precision="fp32").train(task, examples, **settings).save(SCRATCH / f"{task}-memory")
        berth.train({**settings, **columns, "model": MODEL, "precision": "fp32", "train_file": data,
                     "output_dir": SCRATCH / f"{task}-file"}, task=task)
        weights = [(SCRATCH / f"{task}-{kind}" / "model.safetensors").read_bytes() for kind in ("memory", "file")]
        expect(weights[0] == weights[1], f"{task}: examples in memory train to other weights than a file")


def check_names():
    """A model in the cache of Hugging Face is found by its name, as are data sets."""
    folder, commit = SCRATCH / "hf/hub/models--acme--tiny", "0123456789abcdef0123456789abcdef01234567"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text(commit)
    shutil.copytree(MODEL, folder / "snapshots" / commit)
    os.environ["HF_HOME"] = str(SCRATCH / "hf")
    expect(berth.open("acme/tiny").embed(["the"]).shape[0] == 1, "a model in the cache")
    error = refuses("data that is not in the cache", berth.Error, berth.train,
                    {"model": "acme/tiny", "train_file": "squad", "output_dir": SCRATCH / "named"})
    expect("berth fetch squad" in str(error), f"data that is not in the cache: {error}")
    del os.environ["HF_HOME"]


def check_warnings():
    """The library's warnings are Python's, or records of `log`; without a log Python gets nothing else."""
    found = []
    with warnings.catch_warnings(record=True) as silent:
        berth.Model(MODEL, log=found.append, allow_new_head=True).answer(QUESTION, CONTEXT)
    texts = [record["text"] for record in found if record["kind"] == "warning"]
    expect(not silent and len(texts) == 1 and "qa_outputs" in texts[0], f"warnings of `log`: {texts} {silent}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        berth.Model(MODEL, allow_new_head=True).answer(QUESTION, CONTEXT)
    expect([str(warning.message) for warning in caught] == texts, f"warnings {caught}, expected {texts}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        berth.Model(MODEL, max_seq_length=8).embed(["the ball", "the red ball " * 9, "the blue ball " * 9])
        berth.Model(MODEL, max_seq_length=8).classify(["the red ball " * 9])
    texts = ["2 of the texts had more tokens than the model reads and were truncated; the first is texts[1]",
             "1 of the texts had more tokens than the model reads and were truncated; the first is texts[0]"]
    expect([str(warning.message) for warning in caught] == texts, f"warnings of long texts: {caught}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refuses("a warning that is an error", UserWarning, berth.Model(MODEL, allow_new_head=True).answer, QUESTION,
                CONTEXT)
        refuses("a warning that is an error", UserWarning, berth.train,
                {**training_settings(), "learning_rate": 0, "output_dir": SCRATCH / "untrained"})


def check_modules():
    """The program and the library find the modules of the wheel. The emulated GPU was packed as HIP's."""
    found = program("doctor")
    expect(re.search("^device_hip +hip:0", found, re.M), f"the program finds no module: {found}")
    rows = berth.Model(MODEL, device="hip").embed(TEXTS)
    expect(numpy.allclose(rows, berth.Model(MODEL).embed(TEXTS), atol=1e-5), "other numbers on the device")


def check_waiting():
    """OpenMP shows what it has read: briefly where there are few processors, unless the environment says otherwise."""
    ours = "1000" if len(os.sched_getaffinity(0)) <= 16 else "300000"
    own = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    for given, expected in (({}, ours), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "passive"}, "0")):
        done = subprocess.run([sys.executable, "-c", "import berth, os; print(os.environ.get('GOMP_SPINCOUNT'))"],
                              env={**own, **given, "OMP_DISPLAY_ENV": "verbose"}, capture_output=True, text=True)
        expect(f"GOMP_SPINCOUNT = '{expected}'" in done.stderr, f"with {given} OpenMP has: {done.stderr}")
        expect(done.stdout.strip() == str(given.get("GOMP_SPINCOUNT")), f"importing left GOMP_SPINCOUNT {done.stdout}")


def check_threads(model: berth.Model):
    """Other threads of Python run while the library computes, and get the same numbers from it."""
    texts, expected = TEXTS * 2000, model.embed(TEXTS)
    state = {"done": False, "turns": 0, "rows": None}

    def compute():
        state["rows"] = model.embed(texts)
        state["done"] = True

    thread = threading.Thread(target=compute)
    thread.start()
    while not state["done"]:
        state["turns"] += 1
        time.sleep(0.0005)
    thread.join()
    expect(state["turns"] > 3, f"only {state['turns']} turns beside the library: it holds the lock")
    expect(numpy.array_equal(state["rows"].reshape(2000, 4, -1), numpy.broadcast_to(expected, (2000, *expected.shape))),
           "other numbers in a thread")


def training_settings() -> dict:
    questions = [{"id": str(i), "question": "who has the ball ?", "answers": [{"text": "anna", "answer_start": 0}]}
                 for i in range(8)]
    data = SCRATCH / "train.json"
    data.write_text(json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": [
        {"context": CONTEXT, "qas": questions}]}]}))
    return {"model": MODEL, "train_file": data, "max_seq_length": 16, "train_batch_size": 4, "seed": 3,
            "num_train_epochs": 2, "doc_stride": 4, "max_query_length": 8, "precision": "fp32", "threads": 1}


def check_training():
    """The same bytes as the program's, and every record of the run."""
    settings, kinds = training_settings(), []
    result = berth.train({**settings, "output_dir": SCRATCH / "library"}, log=lambda record: kinds.append(record["kind"]))
    expect(result["steps"] == 4 and result["loss"] > 0, f"result {result}")
    expect({"plan", "step", "summary", "detail"} <= set(kinds), f"records {set(kinds)}")
    header = (SOURCE / "include/berth.h").read_text()
    kinds = header[header.index("enum berth_record_kind"):]
    names = re.findall(r"^    BERTH_(\w+)", kinds[:kinds.index("};")], re.M)
    expect(berth._KINDS == [name.lower() for name in names], f"kinds of records {berth._KINDS}")
    words = [word for name, value in settings.items() for word in (f"--{name}", value)]
    program("finetune", "squad", *words, "--output_dir", SCRATCH / "program")
    weights = [(SCRATCH / folder / "model.safetensors").read_bytes() for folder in ("library", "program")]
    expect(weights[0] == weights[1], "training gives other weights than the program")
    check_files(settings)
    check_page()
    expect(refuses("an unknown task", berth.Error, berth.train, settings, "nonsense").status == 2, "an unknown task")


def check_page():
    """What doc/python.md shows as Berth's runs, in its order, on models of such kinds."""
    folder = SCRATCH / "page"
    folder.mkdir()
    golden = SOURCE / "tests/golden"
    for name, kind in {"squad-minilm": SCRATCH / "library", "minilm": golden / "encoder", "ner": golden / "tags",
                       "bert": golden / "fill"}.items():
        (folder / name).symlink_to(kind)
    judged = [("who has the ball ?", "anna has the ball", 1), ("who has the ball ?", "the red lamp", 0)] * 4
    berth.open(MODEL).train("rerank", judged, num_train_epochs=1).save(folder / "judge")
    page = (SOURCE / "doc/python.md").read_text()
    blocks = [block for block in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S) if "berth" in block]
    expect(len(blocks) >= 8, f"only {len(blocks)} blocks on doc/python.md")
    names: dict = {}
    before = os.getcwd()
    os.chdir(folder)
    for block in blocks:
        exec(block, names)
    os.chdir(before)
    expect((folder / "good-or-bad/config.json").exists() and (folder / "good-or-bad.torch/pytorch_model.bin").exists(),
           "the page's models are not saved")


def check_files(settings: dict):
    """Files that settings name are written, and names that are not UTF-8 do not end the run."""
    output = SCRATCH / os.fsdecode(b"caf\xe9")
    records, settings = [], {**settings, "json_summary": "summary.jsonl", "logging_dir": "scalars"}
    berth.train({**settings, "output_dir": output}, log=records.append)
    lines = [json.loads(line) for line in pathlib.Path("summary.jsonl").read_text(errors="replace").splitlines()]
    kinds = ["note" if "note" in record else record["kind"] for record in records if record["kind"] != "progress"]
    expect([line["kind"] for line in lines] == kinds,
           f"records of json_summary {lines}")
    expect(len(list(pathlib.Path("scalars").iterdir())) == 1, "no file for TensorBoard")
    expect((output / "model.safetensors").exists(), "no model in a folder whose name is not UTF-8")
    refused = refuses("a folder as json_summary", berth.Error, berth.train,
                      {**settings, "output_dir": SCRATCH / "none", "json_summary": SCRATCH})
    expect("json_summary" in str(refused), f"a folder as json_summary: {refused}")


def check_interrupt():
    """Ctrl-C: the update is finished and a checkpoint written before train returns."""
    output = SCRATCH / "interrupted"
    settings, steps = long_run("interrupted"), []

    def log(record):
        if record["kind"] == "step":
            steps.append(record["step"])
            if len(steps) == 1:
                os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)  # in which train could return too early

    refuses("Ctrl-C", KeyboardInterrupt, berth.train, settings, "answer", log)
    saved, seen = [path.name for path in output.glob("checkpoint-*")], len(steps)
    expect(saved == [f"checkpoint-{steps[-1]}"] and seen < 10, f"after update {steps[-1]} Ctrl-C left {saved}")
    result = berth.train({**settings, "max_steps": steps[-1] + 2, "resume_from_checkpoint": "auto"})
    expect(result["steps"] == steps[-1] + 2, f"resumed: {result}")


def step_log(at_first_step) -> tuple:
    """(log that calls at_first_step at the first update, the updates it saw)"""
    steps = []

    def log(record):
        if record["kind"] == "step":
            steps.append(record["step"])
            if len(steps) == 1:
                at_first_step()

    return log, steps


def long_run(name: str) -> dict:
    return {**training_settings(), "num_train_epochs": 10000, "save_steps": 100000, "logging_steps": 1,
            "output_dir": SCRATCH / name}


def check_handler():
    """What a handler of another signal raises stops the run, too, and the handler is kept."""
    def leave(number, frame):
        sys.exit(number)

    before = signal.signal(signal.SIGTERM, leave)
    log, steps = step_log(lambda: os.kill(os.getpid(), signal.SIGTERM))
    refuses("SystemExit of a handler", SystemExit, berth.train, long_run("handler"), "answer", log)
    seen, saved = len(steps), [path.name for path in (SCRATCH / "handler").glob("checkpoint-*")]
    # On a busy machine, hundreds of these updates pass before Python's main thread handles the signal.
    expect(len(saved) == 1 and seen < 10000, f"after SIGTERM: {seen} updates, {saved}")
    expect(signal.signal(signal.SIGTERM, before) is leave, "train replaced a handler")


def check_failed_save():
    """Ctrl-C does not hide that the checkpoint could not be written."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill_the_disk():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
        os.kill(os.getpid(), signal.SIGINT)

    log, _ = step_log(fill_the_disk)
    try:
        error = refuses("a save that fails", berth.Error, berth.train, long_run("full"), "answer", log)
    except KeyboardInterrupt:
        expect(False, "Ctrl-C hides a save that failed")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    expect(error.status in (73, 74), f"a save that fails: {error.status} {error}")


def check_failing_log():
    """An exception of `log` stops the run, which saves, and is raised."""
    def fail():
        raise LookupError("of the log")

    log, steps = step_log(fail)
    refuses("an exception of the log", LookupError, berth.train, long_run("failing"), "answer", log)
    saved = [int(path.name.split("-")[1]) for path in (SCRATCH / "failing").glob("checkpoint-*")]
    expect(len(steps) == 1 and len(saved) == 1 and saved[0] < 10, f"after an exception of the log: updates {steps}, {saved}")

    def fail_at_once(record):
        raise LookupError(record["kind"])

    refuses("an exception of a model's log", LookupError, lambda: berth.Model(MODEL, log=fail_at_once).embed(TEXTS))


def main():
    problems = []  # exceptions in callbacks, which ctypes only prints
    sys.unraisablehook = problems.append
    expect(pathlib.Path(berth.__file__).is_relative_to(sys.prefix), f"{berth.__file__} is not that of the wheel")
    expect((pathlib.Path(berth.__file__).parent / "py.typed").exists(), "type checkers do not see the annotations")
    expect(program("--version").split()[1] == berth.version(), "the program has another version")
    model = berth.Model(MODEL, precision="fp32", allow_new_head=True)
    check_answers(model)
    check_numbers(model)
    check_tokens(model)
    check_errors(model)
    check_iterables(model)
    check_pickle(model)
    check_plain()
    check_progress(model)
    check_calls(model)
    check_rows(model)
    check_memory(model)
    check_names()
    check_warnings()
    if "--modules" in sys.argv:
        check_modules()
    check_waiting()
    check_threads(model)
    check_training()
    check_interrupt()
    check_handler()
    check_failed_save()
    check_failing_log()
    expect(not problems, f"{problems}")
    print("all good")


if __name__ == "__main__":
    os.chdir(SCRATCH)
    main()
