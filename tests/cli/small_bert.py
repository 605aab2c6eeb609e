#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares examples/small_bert.c with the program: the losses of 20 updates on the same ids, and the vectors of texts. A mistake
in one place of the source changes the losses. Also that its result does not depend on the number of cores, that Berth runs
what it writes, what it refuses, and that its lines have at most 100 columns.

    small_bert.py BERTH SOURCE_DIR CC
"""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

from expectations import expect, failures

BERTH, SOURCE, CC = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
PROGRAM = os.path.join(SOURCE, "examples/small_bert.c")
STRICT = ["-std=c17", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
BOUND = 1e-5  # of a loss, relative; of a number of a vector, absolute
UPDATES, SEQUENCES, LONGEST, SEED, RATE = 20, 6, 48, 3, 3e-3
CLS, SEP, MASK, FIRST_WORD, LEARNED = 2, 3, 4, 5, 6
work = tempfile.TemporaryDirectory()
os.chdir(work.name)
sys.path.insert(0, os.path.join(SOURCE, "tests"))
import tensor_file  # noqa: E402
from tfrecord_file import FLOATS, INTEGERS, record  # noqa: E402


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                          env={**os.environ, "OMP_WAIT_POLICY": "passive"})


def must(*words):
    done = run(*words)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stdout[-2000:]}{done.stderr}")
    return done.stdout


def compiled(name, *options):
    must(CC, "-O2", *STRICT, *options, PROGRAM, "-lm", "-o", name)
    return os.path.abspath(name)


def supported(*options):
    """Those of the options with which the compiler makes programs that run."""
    with open("empty.c", "w", encoding="utf-8") as empty:
        empty.write("int main(void) { return 0; }\n")
    return [option for option in options
            if not run(CC, option, "empty.c", "-o", "empty").returncode and not run("./empty").returncode]


# --- the same examples as TFRecord and as numbers -------------------------------------------------

class Example:
    """[CLS] a [SEP] b [SEP], some of whose tokens are to be predicted. Their ids follow from their neighbours', so that
    there is something to learn."""

    def __init__(self, draws, words):
        first, second = (draws.randrange(1, (LONGEST - 3) // 2) for _ in range(2))
        begin = draws.randrange(LEARNED)
        text = [FIRST_WORD + (begin + i) % LEARNED for i in range(first + second)]
        self.ids = [CLS, *text[:first], SEP, *text[first:], SEP]
        self.second = first + 2
        self.next = draws.randrange(2)
        places = [i for i, token in enumerate(self.ids) if token >= FIRST_WORD]
        self.places = sorted(draws.sample(places, max(1, len(places) // 6)))
        self.labels = [self.ids[place] for place in self.places]
        for place in self.places:
            self.ids[place] = draws.choice(
                [MASK, MASK, MASK, self.ids[place], draws.randrange(FIRST_WORD, words)])

    def record(self):
        def padded(numbers, width):
            return (INTEGERS, [*numbers, *[0] * (width - len(numbers))])
        length, most = len(self.ids), LONGEST // 6
        return record({"input_ids": padded(self.ids, LONGEST), "input_mask": padded([1] * length, LONGEST),
                       "segment_ids": padded([int(i >= self.second) for i in range(length)], LONGEST),
                       "masked_lm_positions": padded(self.places, most), "masked_lm_ids": padded(self.labels, most),
                       "masked_lm_weights": (FLOATS, [float(i < len(self.places)) for i in range(most)]),
                       "next_sentence_labels": (INTEGERS, [self.next])})

    def line(self):
        words = dict(zip(self.places, self.labels))
        tokens = [f"{token}={words[i]}" if i in words else str(token) for i, token in enumerate(self.ids)]
        return " ".join([str(self.next), *tokens[:self.second], "|", *tokens[self.second:]])


def write_shards(folder, updates, words):
    """A file for the examples of each update, and the order in which `--shard_order rank` reads them."""
    draws = random.Random(5)
    os.mkdir(folder)
    files = {f"part_training_{i:02}.tfrecord": [Example(draws, words) for _ in range(SEQUENCES)] for i in range(updates)}
    for name, examples in files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(b"".join(example.record() for example in examples))
    order = sorted(files)
    random.Random(SEED).shuffle(order)
    return [files[name] for name in order]


def pretrain(output, shards, updates, *words):
    must(BERTH, "pretrain", "--input_dir", shards, "--output", output, "--precision", "fp32", "--shard_order", "rank",
         "--seed", str(SEED), "--optimizer", "adamw", "--schedule", "linear", "--warmup_proportion", "0.1", "--learning_rate",
         str(RATE), "--train_batch_size", str(SEQUENCES), "--max_steps", str(updates), "--logging_steps", "1", "--device",
         "cpu", "--json_summary", output + ".jsonl", "--no_do_eval", *words)
    with open(output + ".jsonl", encoding="utf-8") as file:
        return [line["loss"] for line in map(json.loads, file) if line.get("kind") == "step"]


# --- a model, and both programs -------------------------------------------------------------------

LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *".,?!'-()", *"0123456789", *LETTERS[:25],
              *("##" + letter for letter in LETTERS), "the", "in", "lived", "where", "did", "##ed", "##ing", "li", "##ve"]
CONFIG = {"vocab_size": len(VOCABULARY), "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 3,
          "intermediate_size": 96, "max_position_embeddings": 64, "type_vocab_size": 2, "hidden_act": "gelu",
          "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "layer_norm_eps": 1e-12,
          "initializer_range": 0.1, "model_type": "bert"}
with open("config.json", "w", encoding="utf-8") as config:
    json.dump(CONFIG, config)
with open("vocab.txt", "w", encoding="utf-8") as vocabulary:
    vocabulary.write("".join(word + "\n" for word in VOCABULARY))

# A few updates at a high rate, so that biases and the factors of norms are not 0 and 1.
write_shards("first", 5, len(VOCABULARY))
pretrain("model", "first", 5, "--config_file", "config.json", "--vocab_file", "vocab.txt")
batches = write_shards("shards", UPDATES, len(VOCABULARY))
with open("ids.txt", "w", encoding="utf-8") as ids:
    ids.write("\n".join("".join(example.line() + "\n" for example in batch) for batch in batches))
expected = pretrain("trained", "shards", UPDATES, "--model", "model")

with open(PROGRAM, encoding="utf-8") as text:
    source = text.read()
wide = [i + 1 for i, line in enumerate(source.split("\n")) if len(line) > 100]
expect(not wide, f"lines of more than 100 columns: {wide}")


# --- losses ---------------------------------------------------------------------------------------

def losses(program, *words):
    return [float(line.split()[3]) for line in must(program, "model", *words).splitlines()]


def farthest(found):
    return max(abs(a - b) / b for a, b in zip(found, expected)) if len(found) == len(expected) else float("inf")


GIVEN = ["--rate", str(RATE), "--ids", "ids.txt"]
program = compiled("small_bert", *supported("-fsanitize=address,undefined"))
found = losses(program, *GIVEN)
print(f"loss {found[0]} to {found[-1]}, farthest from berth's {farthest(found):.2g}")
expect(farthest(found) <= BOUND, f"losses {found}, expected {expected}")
expect(found[-1] < 0.7 * found[0], f"the model does not learn: {found}")

# Each of these is a mistake in one place, which the losses have to show.
MISTAKES = {
    "the sum's other way back": ("add(x.gradient, y.gradient, y.rows * y.columns);", ""),
    "a bias's gradient": ("linear->bias.gradient[o] += dy;", ""),
    "a product's input": ("add_scaled(x.gradient + r * inputs", "if (r > 0) add_scaled(x.gradient + r * inputs"),
    "the mean in layer norm": ("rstd * (xhat.gradient[i] - mean - ", "rstd * (xhat.gradient[i] - "),
    "gamma's gradient": ("norm->gamma.gradient[i] += dy[i] * xhat.value[i];", ""),
    "gelu's slope": ("(normal_below(v) + v * density)", "normal_below(v)"),
    "softmax's way back": ("p[j] * (dp[j] - sum)", "p[j] * dp[j]"),
    "the values of attention": ("add_scaled(a->v.gradient + at_j", "if (i > 0) add_scaled(a->v.gradient + at_j"),
    "the position's gradient": ("give_rows(model->position.gradient", "if (rows == 0) give_rows(model->position.gradient"),
    "tanh's slope": (" * (1 - t.value[i] * t.value[i])", ""),
    "the weight of a pair": ("next_sentence(model, pass, 1 / pairs)", "next_sentence(model, pass, 1)"),
    "the decay of biases": ("is_free ? 0 : 0.01f", "0.01f"),
    "the correction of v": ("sqrtf(*v * correct2)", "sqrtf(*v)"),
    "the cut gradient": ("fmin(1, 1 / (length + 1e-6))", "1"),
}
for name, (right, wrong) in MISTAKES.items():
    expect(source.count(right) == 1, f"{name}: the source has it {source.count(right)} times: {right}")
    with open("mistaken.c", "w", encoding="utf-8") as mistaken:
        mistaken.write(source.replace(right, wrong))
    must(CC, "-O1", "-w", "mistaken.c", "-lm", "-o", "mistaken")
    off = farthest(losses(os.path.abspath("mistaken"), *GIVEN))
    print(f"{name}: {off:.2g}")
    expect(off > BOUND, f"a mistake in {name} does not show in the losses")

# With OpenMP, where the compiler has it: the same output on any number of cores.
for option in supported("-fopenmp"):
    compiled("parallel", option)
    printed = []
    for cores in "1", "3":
        os.environ["OMP_NUM_THREADS"] = cores
        printed.append(must("./parallel", "model", *GIVEN))
    del os.environ["OMP_NUM_THREADS"]
    expect(printed[0] == printed[1], "the losses depend on the number of cores")
    expect(farthest([float(line.split()[3]) for line in printed[0].splitlines()]) <= BOUND, f"with OpenMP {printed[0]}")

# --- vectors --------------------------------------------------------------------------------------

TEXTS = ["The Lived in?", "", "  lived\tin,the\x01re (did-where) 1.5 'IN' ", "zebra LIVED inlived", "a" * 100, "a" * 101,
         "~^ where {did}", "x" * 99 + "z", "a b c d e f g h i j k l m " * 9]
def vectors_of(folder):
    return [json.loads(line)["embedding"] for line in
            must(BERTH, "embed", "--model", folder, "--pooling", "cls", "--normalize", "false", "--precision", "fp32",
                 "--max_seq_length", "64", "texts.txt").splitlines()]


def distance(first, second):
    return max(abs(a - b) for a, b in zip(first, second)) if len(first) == len(second) else float("inf")


with open("texts.txt", "w", encoding="utf-8") as file:
    file.write("".join(text + "\n" for text in TEXTS))
before = vectors_of("model")
expect(len(before) == len(TEXTS), f"{len(before)} vectors of {len(TEXTS)} texts")
for text, vector in zip(TEXTS, before):
    off = distance([float(line) for line in must(program, "model", "--vector", text).split()], vector)
    expect(off <= BOUND, f"the vector of {text!r} is off by {off}")

# An encoder without heads, as sentence-transformers saves it, has no "bert." before its names.
shutil.copytree("model", "encoder")
with open("encoder/model.safetensors", "r+b") as file:
    named = file.read()
    file.seek(0)
    file.write(named.replace(b'"bert.', b'     "'))
expect(named.count(b'"bert.') > 10, "the names of the tensors have another beginning")
expect(must(program, "encoder", "--vector", TEXTS[0]) == must(program, "model", "--vector", TEXTS[0]),
       "another vector without the beginnings of names")

# What it writes is a model that Berth runs, with the vectors of the model that Berth trained.
must(program, "model", *GIVEN, "--save", "saved.safetensors")
expect(tensor_file.entries("model/model.safetensors") == tensor_file.entries("saved.safetensors"), "other tensors")
shutil.copytree("model", "saved")
os.replace("saved.safetensors", "saved/model.safetensors")
for own, right, old in zip(vectors_of("saved"), vectors_of("trained"), before):
    expect(distance(own, right) <= BOUND < distance(own, old),
           f"vectors of the trained models {distance(own, right)} apart, {distance(own, old)} from those before")

# --- text -----------------------------------------------------------------------------------------

with open("corpus.txt", "w", encoding="utf-8") as file:
    file.write("He lived where the others did.\nThe other lived in a big house, did he?\n\n" * 40)
fell = losses(compiled("fast"), "--updates", "40", "--batch", "4", "--rate", "3e-3", "corpus.txt", "corpus.txt")
expect(len(fell) == 40 and sum(fell[-5:]) < 0.8 * sum(fell[:5]), f"losses of a text: {fell}")
must(BERTH, "pretrain", "--objective", "mlm", "--config", "tiny", "--vocab", "vocab.txt", "--train", "corpus.txt",
     "--line_by_line", "--max_steps", "1", "--output", "words")
alone = must(program, "words", "--updates", "2", "--batch", "2", "corpus.txt")
expect(len(alone.splitlines()) == 2, f"a model without next sentences: {alone}")

# --- what is refused ------------------------------------------------------------------------------


def refused(words, *found, folder="model", code=1):
    done = run(program, folder, *words)
    expect(done.returncode == code and all(word in done.stderr for word in found),
           f"{folder} {words}: exit code {done.returncode}, {done.stderr}")


def changed(name, change, *found, code=1):
    """A folder whose file NAME is changed."""
    shutil.rmtree("bad", ignore_errors=True)
    shutil.copytree("model", "bad")
    path = os.path.join("bad", name)
    with open(path, "rb") as file:
        data = change(file.read())
    with open(path, "wb") as file:
        file.write(data)
    refused(["--vector", "a"], *([path] if found else []), *found, folder="bad", code=code)


def replaced(old, new):
    def change(data):
        expect(data.count(old) > 0, f"{old} is not there")
        return data.replace(old, new, 1)
    return change


def without(key):
    return lambda data: json.dumps({k: v for k, v in json.loads(data).items() if k != key}).encode()


def with_value(key, value):
    return lambda data: json.dumps({**json.loads(data), key: value}).encode()


refused([], "expected a model folder")
refused(["--ids", "ids.txt", "corpus.txt"], "expected a model folder")
refused(["--rate", "fast", "corpus.txt"], "--rate", '"fast"', "expected a number")
refused(["--save"], "--save needs a value")
refused(["--vector", "a"], "none/config.json", folder="none")
refused(["none.txt"], "none.txt")
refused(["--vector", "caf\u00e9 au lait"], '0xC3 after "caf"', "ASCII")
for line, message in {"0 2 99999 3": "line 2", "0 2 5=": 'found ""', "-1 2 3": "line 2", "2 2 5 3": "line 2", "0 2 5=x 3": '"x 3"', "0": "expected tokens",
                      "0 " + "5 " * 65: "at most 64 tokens"}.items():
    with open("bad.txt", "w", encoding="utf-8") as file:
        file.write(f"0 2 5=6 3\n{line}\n")
    refused(["--ids", "bad.txt"], "bad.txt", message)
for key in "vocab_size", "hidden_size", "layer_norm_eps", "num_attention_heads":
    changed("config.json", without(key), key, "missing")
changed("config.json", with_value("hidden_act", "gelu_new"), "hidden_act", "gelu_new")
changed("config.json", with_value("model_type", "roberta"), "model_type", "roberta")
changed("config.json", with_value("num_attention_heads", 5), "num_attention_heads", "48")
changed("config.json", with_value("hidden_size", "big"), "hidden_size", "big")
WEIGHTS = "model.safetensors"

# The names of the first BERTs.
changed(WEIGHTS, replaced(b'"bert.embeddings.LayerNorm.weight":', b'"bert.embeddings.LayerNorm.gamma" :'), code=0)
shutil.rmtree("bad", ignore_errors=True)
shutil.copytree("model", "bad")
with open("bad/config.json", "wb") as file:
    file.write(with_value("intermediate_size", 97)(open("model/config.json", "rb").read()))
refused(["--vector", "a"], "intermediate.dense.weight", "[96,48]", "[97, 48]", folder="bad")
changed(WEIGHTS, replaced(b"layer.1.output.dense.bias", b"layer.1.output.dense.vias"),
        "layer.1.output.dense.bias", "missing")
changed(WEIGHTS, replaced(b'"F32"', b'"F16"'), "F16", "expected")
changed(WEIGHTS, lambda data: data[:-4], "end")
changed(WEIGHTS, lambda data: data[:100], "end")
changed(WEIGHTS, lambda data: b"", "safetensors")
changed("vocab.txt", replaced(b"[MASK]", b"[MUSK]"), "[MASK]")
changed("vocab.txt", lambda data: data + b"more\n", "vocab_size")
must(BERTH, "init", "--config", "config.json", "--output", "bare")
shutil.copy("vocab.txt", "bare")
refused(["corpus.txt"], "no head for masked words", folder="bare")

sys.exit(1 if failures else 0)
