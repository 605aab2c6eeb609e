#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests berth embed by formulas over the rows of berth hidden: folders of sentence-transformers with their Transformer in a
folder of its own, prompts by name, as text and left out of the pooling, long texts in windows,
small types of
numbers, sparse vectors (tests/golden/fill), and those of tokens. dev/others compares with sentence-transformers.

    sentences.py BERTH SOURCE_DIR
"""
import functools
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile

from expectations import expect, failures, run_program

BERTH, SOURCE = map(os.path.abspath, sys.argv[1:3])
ENCODER = os.path.join(SOURCE, "tests/golden/encoder")
TEXTS = ["the red ball of anna is blue .", "who has a coat ?", "ben"]
PROMPTS = {"q": "is the ball ", "d": "ben : "}
os.chdir(tempfile.mkdtemp())


berth = functools.partial(run_program, BERTH)


def write(path, value):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(value if isinstance(value, str) else json.dumps(value))


def run(verb, folder, texts, *options):
    write("texts.txt", "".join(text + "\n" for text in texts))
    done = berth(verb, "--model", folder, "--threads", 1, "--precision", "fp32", *options, "texts.txt")
    return [json.loads(line) for line in done.stdout.splitlines()]


def vectors(folder, texts, *options):
    return [line["embedding"] for line in run("embed", folder, texts, *options)]


def rows_of(texts, *options):
    return [line["hidden_states"] for line in run("hidden", ENCODER, texts, *options)]


def refused(words, *command, code=2):
    message = berth(*command, code=code).stderr
    expect(words in message, f"{' '.join(map(str, command))}: {words!r} is not in {message!r}")


def near(what, found, wanted, limit=2e-6):
    apart = max((abs(a - b) for one, other in zip(found, wanted, strict=True) for a, b in zip(one, other, strict=True)), default=0)
    expect(apart <= limit, f"{what}: apart by {apart:.3g}")


def weighted(rows, weights):
    total = sum(weights)
    return [sum(weight * row[i] for weight, row in zip(weights, rows, strict=True)) / total for i in range(len(rows[0]))]


def mean(rows):
    return weighted(rows, [1] * len(rows))


def scaled(row):
    length = math.sqrt(sum(value * value for value in row))
    return [value / length for value in row]


def make(folder, pooling, body="", normalize=False, **settings):
    """The golden model as a folder of sentence-transformers."""
    shutil.copytree(ENCODER, os.path.join(folder, body))
    modules = [(body, "Transformer"), ("1_Pooling", "Pooling")] + [("2_Normalize", "Normalize")] * normalize
    write(f"{folder}/modules.json", [{"path": path, "type": f"sentence_transformers.models.{name}"} for path, name in modules])
    write(f"{folder}/1_Pooling/config.json", pooling)
    write(f"{folder}/config_sentence_transformers.json", {"prompts": PROMPTS, **settings})
    write(os.path.join(folder, body, "sentence_bert_config.json"), {"max_seq_length": 12})
    return folder


# --- prompts -------------------------------------------------------------------------------------

def with_prompt(prompt):
    return [prompt + text for text in TEXTS]


def test_prompts():
    folder = make("prompts", {"pooling_mode": "mean"}, default_prompt_name="d")
    for options, prompt in (((), PROMPTS["d"]), (("--prompt_name", "q"), PROMPTS["q"]), (("--prompt_name", "query"), ""),
                            (("--prompt", "of anna "), "of anna "), (("--prompt", ""), "")):
        near(f"the prompt {prompt!r}", vectors(folder, TEXTS, *options), [mean(rows) for rows in rows_of(with_prompt(prompt), "--max_seq_length", 12)])
    near("a model without prompts", vectors(ENCODER, TEXTS, "--prompt", "of anna "),
         [scaled(mean(rows)) for rows in rows_of(with_prompt("of anna "))])
    refused('prompt_name: the model has no prompt "x"; it has q, d, query, document', "embed", "--model", folder, "--text", "ben",
            "--prompt_name", "x")
    refused("prompt or prompt_name, not both", "embed", "--model", folder, "--text", "ben", "--prompt_name", "q", "--prompt", "x")
    refused("unknown option --prompt", "hidden", "--model", folder, "--text", "ben", "--prompt", "x")


def test_prompts_out_of_the_pooling():
    """[CLS] and the prompt are left out; [SEP] is left of a text whose prompt fills the model."""
    pools = {"mean": mean, "max": lambda rows: [max(column) for column in zip(*rows)], "cls": lambda rows: rows[0],
             "lasttoken": lambda rows: rows[-1],
             "mean_sqrt_len_tokens": lambda rows: [value * math.sqrt(len(rows)) for value in mean(rows)]}
    for prompt in ("is the ball ", "ben " * 20):
        tokens = len(prompt.split())
        rows = [rows[min(1 + tokens, len(rows) - 1):] for rows in rows_of(with_prompt(prompt), "--max_seq_length", 12)]
        for name, pool in pools.items():
            folder = f"skips-{name}"
            if not os.path.isdir(folder):
                make(folder, {"pooling_mode": name, "include_prompt": False})
            near(f"{name} without {prompt!r}", vectors(folder, TEXTS, "--prompt", prompt), [pool(each) for each in rows])
        first = [12 - len(each) for each in rows] if tokens > 10 else [1 + tokens] * len(rows)
        folder = f"skips-weighted-{tokens}"
        make(folder, {"pooling_mode": "weightedmean", "include_prompt": False})
        near("weightedmean", vectors(folder, TEXTS, "--prompt", prompt),
             [weighted(each, range(1 + start, 1 + start + len(each))) for each, start in zip(rows, first)])
    plain = [mean(rows) for rows in rows_of(TEXTS)]
    near("no prompt", vectors("skips-mean", TEXTS), plain)
    near("another prompt for a folder with a default", vectors(make("skips", {"include_prompt": False}, default_prompt_name="q"),
                                                               TEXTS, "--prompt", ""), plain)
    write("pairs.jsonl", '{"text": "ben", "text_pair": "anna"}\n' * 4)
    refused('a default prompt and "include_prompt" false', "finetune", "embed", "--model", "skips", "--train", "pairs.jsonl",
            "--output", "none", code=78)
    refused('a default prompt and "include_prompt" false', "evaluate", "embed", "--model", "skips", "--input", "pairs.jsonl",
            "--output", "none", code=78)


# --- folders -------------------------------------------------------------------------------------

def test_body_in_its_own_folder():
    flat = make("flat", {"pooling_mode": "cls", "include_prompt": False}, normalize=True)
    moved = make("moved", {"pooling_mode": "cls", "include_prompt": False}, "0_Transformer", normalize=True)
    options = ("--prompt_name", "q")
    wanted = vectors(flat, TEXTS, *options)
    near("0_Transformer", vectors(moved, TEXTS, *options), wanted, 0)
    near("0_Transformer by its own name", vectors("moved/0_Transformer", TEXTS, *options), wanted, 0)
    berth("convert", moved, "again", "--to", "hf", "--quiet")
    near("converted", vectors("again", TEXTS, *options), wanted, 0)
    expect(sorted(os.listdir("again"))[:3] == ["1_Pooling", "2_Normalize", "config.json"], f"a flat copy: {os.listdir('again')}")
    ids = [berth("tokenize", "--model", folder, "--ids", "texts.txt").stdout for folder in (flat, moved)]
    expect(ids[0] == ids[1], f"tokens of both: {ids}")
    berth("convert", moved, "exported", "--to", "gguf", "--quiet", "--allow_lossy")
    with open("exported/model.gguf", "rb") as file:
        data = file.read()
    expect(b"moved" in data and b"0_Transformer" not in data, "the name in GGUF")
    # What training writes keeps modules and prompts.
    write("pairs.jsonl", '{"text": "ben", "text_pair": "anna"}\n' * 4)
    berth("finetune", "embed", "--model", moved, "--train", "pairs.jsonl", "--output", "trained", "--threads", 1, "--max_steps", 1,
          "--train_batch_size", 4, "--learning_rate", 0, "--quiet")
    near("trained with a rate of 0", vectors("trained", TEXTS, *options), wanted)
    with open("trained/1_Pooling/config.json", encoding="utf-8") as file:
        expect(json.load(file)["include_prompt"] is False, "include_prompt of the trained model")
    os.rename("moved/0_Transformer/config.json", "moved/0_Transformer/other.json")
    refused("moved/", "embed", "--model", moved, "--text", "ben", code=66)
    write("moved/modules.json", "[")
    refused("moved/modules.json: line 1", "embed", "--model", moved, "--text", "ben", code=65)


# --- windows of long texts -------------------------------------------------------------------------

def test_windows():
    """A word is a token of this vocabulary: windows of 12 tokens have 10 of the text, less those of the prompt."""
    words = ("the red ball of anna is blue . who has a coat ? ben is the coat of anna . " * 2).split()
    texts = ["ben has a ball", " ".join(words), " ".join(words[:10]), " ".join(words[:11]), "anna"]
    plain = make("windows", {"pooling_mode": "cls"}, normalize=True)
    skips = make("windows-skips", {"pooling_mode": "mean", "include_prompt": False})
    dense = make("windows-mean", {"pooling_mode": "mean"})
    for prompt in ("", PROMPTS["q"]):
        step, before = 10 - len(prompt.split()), 1 + len(prompt.split()) if prompt else 0
        parts = [[prompt + " ".join(text.split()[at:at + step]) for at in range(0, len(text.split()), step)] for text in texts]
        flat = iter(rows_of([part for text in parts for part in text], "--max_seq_length", 12))
        rows = [[next(flat) for _ in text] for text in parts]
        options = ("--overflow", "windows", "--prompt", prompt)
        near(f"cls, {prompt!r}", vectors(plain, texts, *options),
             [scaled(weighted([window[0] for window in windows], [len(window) for window in windows])) for windows in rows])
        near(f"mean, {prompt!r}", vectors(dense, texts, *options), [mean(sum(windows, [])) for windows in rows])
        near(f"mean without {prompt!r}", vectors(skips, texts, *options),
             [mean([row for window in windows for row in window[before:]]) for windows in rows])
    near("short texts", vectors(plain, TEXTS, "--overflow", "windows"), vectors(plain, TEXTS), 0)
    write("texts.txt", texts[1] + "\n")
    said = berth("embed", "--model", plain, "--overflow", "windows", "--prompt", "ben " * 20, "texts.txt")
    expect("1 of 1 texts have more tokens than max_seq_length 12" in said.stderr, f"a prompt that fills the model: {said.stderr}")
    expect("more tokens than" not in berth("embed", "--model", plain, "--overflow", "windows", "texts.txt").stderr, "nothing is cut")
    refused("the text has more than the 12 tokens", "embed", "--model", plain, "texts.txt", "--overflow", "error")
    refused('expected one of cut, error, found "windows"', "hidden", "--model", plain, "texts.txt", "--overflow", "windows")


# --- types of numbers ------------------------------------------------------------------------------

def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def steps_of(rows, ranges):
    """As NumPy computes in float32."""
    least, largest = [min(column) for column in zip(*ranges)], [max(column) for column in zip(*ranges)]
    sizes = [single(single(b - a) / 255) or 1 for a, b in zip(least, largest)]
    return [[min(255, max(0, math.floor(single(single(value - a) / size)))) for value, a, size in zip(row, least, sizes)]
            for row in rows]


def bits_of(rows):
    return [[sum((value > 0) << (7 - i) for i, value in enumerate(row[at:at + 8])) for at in range(0, len(row), 8)] for row in rows]


def read_npy(path):
    with open(path, "rb") as file:
        data = file.read()
    start = 10 + int.from_bytes(data[8:10], "little")
    header = data[10:start].decode()
    kind = header.split("'descr': '")[1].split("'")[0]
    rows, columns = (int(word) for word in header.split("(")[1].split(")")[0].split(",")[:2])
    values = list(struct.unpack("<" + {"<f4": "f", "|i1": "b", "|u1": "B"}[kind] * (rows * columns), data[start:]))
    return kind, [values[i * columns:(i + 1) * columns] for i in range(rows)]


def test_types():
    write("ranges.txt", "anna has the ball\nben is red\nwho is it ?\n")
    for options in ((), ("--dimensions", 13)):
        rows = vectors(ENCODER, TEXTS, *options)
        other = vectors(ENCODER, ["anna has the ball", "ben is red", "who is it ?"], *options)
        own, given = steps_of(rows, rows), steps_of(rows, other)
        wanted = {("uint8",): own, ("uint8", "--calibration_file", "ranges.txt"): given, ("ubinary",): bits_of(rows),
                  ("int8",): [[value - 128 for value in row] for row in own],
                  ("int8", "--calibration_file", "ranges.txt"): [[value - 128 for value in row] for row in given],
                  ("binary",): [[value - 128 for value in row] for row in bits_of(rows)]}
        expect(0 in sum(given, []) and 255 in sum(given, []) and own != given, "ranges of other texts")
        for words, numbers in wanted.items():
            said = run("embed", ENCODER, TEXTS, "--output_type", *words, *options)
            expect(said == [{"index": i, "embedding": row} for i, row in enumerate(numbers)], f"{words} {options}: {said}")
            run("embed", ENCODER, TEXTS, "--output_type", *words, *options, "--output", "out.npy")
            kind = "|u1" if words[0].startswith("u") else "|i1"
            expect(read_npy("out.npy") == (kind, numbers), f"{words} {options}: {read_npy('out.npy')}")
    rows = vectors(ENCODER, TEXTS)
    run("embed", ENCODER, TEXTS, "--output_type", "float32", "--output", "out.npy")
    kind, stored = read_npy("out.npy")
    expect(kind == "<f4", kind)
    near("float32", stored, rows, 1e-8)
    # Texts of several rounds have the ranges of all of them.
    many = [TEXTS[i % 3] for i in range(1100)] + ["anna"]
    rows = vectors(ENCODER, many)
    said = vectors(ENCODER, many, "--output_type", "uint8")
    expect(said == steps_of(rows, rows), "ranges of several rounds")
    expect(vectors(ENCODER, [], "--output_type", "int8") == [], "no texts")
    command = ("embed", "--model", ENCODER, "--text", "ben", "--output_type")
    refused("--output_type int8: one text has no range; name a file of texts with --calibration_file", *command, "int8")
    refused("--calibration_file has no effect with --output_type binary", *command, "binary", "--calibration_file", "ranges.txt")
    refused('expected one of float32, int8, uint8, binary, ubinary, found "int4"', *command, "int4")
    write("none.txt", "")
    refused("none.txt: no texts", *command, "int8", "--calibration_file", "none.txt", code=65)
    refused("missing.txt", *command, "int8", "--calibration_file", "missing.txt", code=66)
    expect("the ranges of the columns come from only 3 texts" in berth("embed", "--model", ENCODER, "ranges.txt", "--output_type",
                                                                      "int8").stderr, "a note on few texts")
    if shutil.which("mpirun"):
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                           ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")  # an MPI does not free all
        write("many.txt", "".join(text + "\n" for text in many))
        done = subprocess.run(["mpirun", "--oversubscribe", "-n", "2", BERTH, "embed", "--model", ENCODER, "--threads", "1", "--precision",
                               "fp32", "--output_type", "uint8", "many.txt"], capture_output=True, text=True, check=False, env=environment)
        if "opal" not in done.stderr:
            expect([json.loads(line)["embedding"] for line in done.stdout.splitlines()] == said, f"two processes: {done.stderr}")


# --- sparse vectors and those of tokens ------------------------------------------------------------

FILL = os.path.join(SOURCE, "tests/golden/fill")
with open(f"{FILL}/sparse.json", encoding="utf-8") as golden_file:
    SPARSE = json.load(golden_file)


def make_sparse(folder, pooling=None, modules=("MLMTransformer", "SpladePooling"), **settings):
    shutil.copytree(FILL, folder)
    write(f"{folder}/modules.json", [{"path": path, "type": f"x.{name}"} for path, name in zip(("", "1_SpladePooling", "2"), modules)])
    write(f"{folder}/1_SpladePooling/config.json", pooling or {"pooling_strategy": "max", "activation_function": "relu"})
    write(f"{folder}/sentence_bert_config.json", {"max_seq_length": SPARSE["max_seq_length"]})
    write(f"{folder}/config_sentence_transformers.json", {"prompts": PROMPTS, **settings})
    return folder


SINGLE = 1e-5  # logits in fp32 and float64


def check_sparse(what, found, wanted):
    expect([line["index"] for line in found] == list(range(len(wanted))), f"{what}: the numbers of the texts")
    for line, words in zip(found, wanted, strict=True):
        expect([(word["token"], word["token_str"]) for word in line["words"]] == [(word["token"], word["token_str"]) for word in words],
               f"{what}: other words: {line}")
        near(what, [[word["weight"] for word in line["words"]]], [[word["weight"] for word in words]], SINGLE)


def test_sparse():
    texts, wanted = [each["text"] for each in SPARSE["found"]], [each["words"] for each in SPARSE["found"]]
    folder = make_sparse("sparse")
    check_sparse("sparse", run("embed", folder, texts, "--sparse"), wanted)
    check_sparse("a model without modules", run("embed", FILL, texts, "--sparse", "--max_seq_length", 16), wanted)
    check_sparse("the first words", run("embed", folder, texts, "--sparse", "--top_k", 2), [words[:2] for words in wanted])
    many = [texts[i % len(texts)] for i in range(200)]
    check_sparse("many texts", run("embed", folder, many, "--sparse"), [wanted[i % len(texts)] for i in range(200)])
    first, rest = texts[0].split(" ", 1)
    check_sparse("a prompt", run("embed", folder, [rest], "--sparse", "--prompt", first + " "), wanted[:1])
    check_sparse("a default prompt", run("embed", make_sparse("prompted", default_prompt_name="d"), ["film"], "--sparse"),
                 [run("embed", folder, [PROMPTS["d"] + "film"], "--sparse")[0]["words"]])
    run("embed", folder, texts, "--sparse", "--output", "words.jsonl")
    with open("words.jsonl", encoding="utf-8") as file:
        check_sparse("a file", [json.loads(line) for line in file], wanted)
    expect("1 of 5 texts have more tokens than max_seq_length 16" in
           berth("embed", "--model", folder, "--sparse", "--jsonl", jsonl(texts)).stderr, "a note on what was cut")
    command = ("--text", "film", "--sparse")
    refused("use `berth embed --sparse`", "embed", "--model", folder, "--text", "film", code=78)
    refused('key "pooling_strategy": expected "max", found "sum"', "embed", "--model", make_sparse("sum", {"pooling_strategy": "sum"}),
            *command, code=78)
    refused('"activation_function": expected "relu", found "log1p_relu"', "embed", "--model",
            make_sparse("twice", {"activation_function": "log1p_relu"}), *command, code=78)
    refused("and nothing else, found 3 modules", "embed", "--model",
            make_sparse("three", modules=("Transformer", "SpladePooling", "Normalize")), *command, code=78)
    refused("give --sparse or --tokens, not both", "embed", "--model", folder, *command, "--tokens")
    refused("--sparse writes JSON lines", "embed", "--model", folder, *command, "--output", "x.npy")
    refused("--sparse writes JSON lines", "embed", "--model", folder, *command, "--output_type", "binary")
    refused("--normalize has no effect with --sparse", "embed", "--model", folder, *command, "--normalize", "true")
    refused("top", "embed", "--model", FILL, "--text", "film", "--top_k", 3)
    refused("lacks cls.predictions", "embed", "--model", ENCODER, *command, code=78)
    refused("dimensions", "embed", "--model", folder, *command, "--dimensions", 3)


def jsonl(texts):
    write("texts.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in texts))
    return "texts.jsonl"


def test_tokens():
    folder = make("tokens", {"pooling_mode": "cls", "include_prompt": False}, normalize=True, default_prompt_name="q")
    for options, prompt in (((), PROMPTS["q"]), (("--prompt", ""), "")):
        found = [line["token_embeddings"] for line in run("embed", folder, TEXTS, "--tokens", *options)]
        for one, other in zip(found, rows_of(with_prompt(prompt), "--max_seq_length", 12), strict=True):
            near("vectors of tokens", one, other)
    refused("--pooling has no effect with --tokens", "embed", "--model", folder, "--text", "ben", "--tokens", "--pooling", "cls")
    refused("--tokens writes JSON lines", "embed", "--model", folder, "--text", "ben", "--tokens", "--output", "x.npy")


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
shutil.rmtree(os.getcwd())
print(f"{len(failures)} failed")
sys.exit(1 if failures else 0)
