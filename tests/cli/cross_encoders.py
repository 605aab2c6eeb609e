# SPDX-License-Identifier: Apache-2.0
"""Tests berth finetune rerank and berth evaluate rerank: losses, scores and metrics equal those of
sentence-transformers (dev/goldens/cross_encoder.py); resumption, files, refusals.

    cross_encoders.py BERTH SOURCE_DIR
"""
import functools
import json
import math
import os
import shutil
import struct
import sys
import tempfile

from expectations import expect, failures, run_program

BERTH, SOURCE = map(os.path.abspath, sys.argv[1:3])
sys.path.insert(0, os.path.join(SOURCE, "tests"))
import tensor_file  # noqa: E402
with open(os.path.join(SOURCE, "tests/golden/cross_encoder.json"), encoding="utf-8") as golden_file:
    GOLDEN = json.load(golden_file)
COMMON = "--threads 1 --precision fp32".split()
RECIPE = [*COMMON, *"--schedule constant --hidden_dropout_prob 0 --attention_probs_dropout_prob 0".split()]
os.chdir(tempfile.mkdtemp())


berth = functools.partial(run_program, BERTH)


def write_pairs(name, labels, columns=("query", "response", "label"), pairs=None):
    with open(name, "w", encoding="utf-8") as file:
        for pair, label in zip(pairs or GOLDEN["pairs"], labels, strict=True):
            file.write(json.dumps(dict(zip(columns, [*pair, label]))) + "\n")


def read_json(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return json.load(file)


def write_json(value, *path):
    with open(os.path.join(*path), "w", encoding="utf-8") as file:
        json.dump(value, file)


def content(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def make_start(folder):
    """The golden classifier with only the first row of its last layer."""
    shutil.copytree(os.path.join(SOURCE, "tests/golden/classifier"), folder)
    os.chmod(folder, 0o755)
    config = read_json(folder, "config.json")
    config.update(id2label={"0": "LABEL_0"}, label2id={"LABEL_0": 0})
    config["sbert_ce_default_activation_function"] = "torch.nn.modules.linear.Identity"
    os.remove(os.path.join(folder, "config.json"))
    write_json(config, folder, "config.json")
    path = os.path.join(folder, "model.safetensors")
    all_bytes, header, data = content(path), {}, b""
    for name, (kind, shape, place) in tensor_file.entries(path).items():
        own = all_bytes[place]
        if name.startswith("classifier."):
            own, shape = own[:len(own) // shape[0]], [1, *shape[1:]]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(own)]}
        data += own
    text = json.dumps(header).encode()
    os.remove(path)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def train(folder, data, *words, model="start", code=0):
    return berth("finetune", "rerank", "--model", model, "--train", data, "--output", folder, *RECIPE, *words, code=code)


def losses_of(folder):
    return [entry["loss"] for entry in read_json(folder, "trainer_state.json")["log_history"] if "loss" in entry]


def scores_of(folder):
    with open("asked.jsonl", "w", encoding="utf-8") as file:
        for query, document in GOLDEN["pairs"]:
            file.write(json.dumps({"query": query, "document": document}) + "\n")
    done = berth("rerank", "--model", folder, *COMMON, "--jsonl", "asked.jsonl")
    found = {item["index"]: item["score"] for item in map(json.loads, done.stdout.splitlines())}
    return [found[i] for i in range(len(GOLDEN["pairs"]))]


def farthest(a, b):
    return max(abs(x - y) for x, y in zip(a, b, strict=True))


WHOLE = ["--train_batch_size", len(GOLDEN["pairs"]), "--num_train_epochs", GOLDEN["updates"], "--learning_rate",
         GOLDEN["rate"], "--adam_epsilon", GOLDEN["epsilon"], "--weight_decay", 0, "--max_grad_norm", 0,
         "--logging_steps", 1, "--skip_checkpoint"]


# --- sentence-transformers -----------------------------------------------------------------------

def check_case(case):
    name, weight = case["name"], case.get("positive_weight", 1)
    write_pairs(name + ".jsonl", case["labels"])
    train(name, name + ".jsonl", *WHOLE, "--positive_weight", weight, "--dev", name + ".jsonl",
          "--evaluate_every_epoch", "false")
    error = farthest(losses_of(name), case["losses"])
    expect(error < 1e-4, f"{name}: a loss is off by {error}")
    error = farthest(scores_of(name), case["scores"])
    expect(error < 1e-4, f"{name}: a score is off by {error}")
    after = sum(weight * label * -math.log(score) - (1 - label) * math.log(1 - score)
                for label, score in zip(case["labels"], case["scores"])) / len(case["labels"])
    found = read_json(name, "eval_results.json")["eval_loss"]
    expect(abs(found - after) < 1e-4, f"{name}: the evaluation's loss is {found}, expected {after}")
    config = read_json(name, "config.json")
    expect(config["sentence_transformers"] == {"activation_fn": "torch.nn.modules.activation.Sigmoid"},
           f"{name}: the activation of sentence-transformers")
    expect(config["problem_type"] == "multi_label_classification" and config["id2label"] == {"0": "LABEL_0"},
           f"{name}: one label of its own")
    judged = GOLDEN["judged"] if all(label in (0, 1) for label in case["labels"]) else case["labels"]
    write_pairs("judged.jsonl", judged)
    berth("evaluate", "rerank", "--model", name, "--input", "judged.jsonl", "--output", name + "-scores", *COMMON)
    scores = read_json(name + "-scores", "eval_results.json")
    for metric, wanted in case["metrics"].items():
        found = scores.get("eval_" + metric, math.nan)
        expect(abs(found - wanted) < 1e-4, f"{name}: {metric} is {found}, expected {wanted}")


def check_emulated():
    train("emulated", "weighted_degrees.jsonl", *WHOLE, "--positive_weight", 0.4, "--do_eval", "false", "--max_steps", 3,
          "--device", "emulated")
    error = farthest(losses_of("emulated"), losses_of("weighted_degrees")[:3])
    expect(error < 1e-5, f"emulated: a loss is off by {error}")


def check_micro_batches():
    """A fraction of an update in each micro-batch, or by each virtual rank, gives the same losses."""
    for name, words in {"micro": ["--per_device_train_batch_size", 4], "virtual": ["--virtual_ranks", 4]}.items():
        train(name, "weighted_degrees.jsonl", *WHOLE, "--positive_weight", 0.4, "--do_eval", "false", *words)
        error = farthest(losses_of(name), losses_of("weighted_degrees"))
        expect(error < 1e-5, f"{name}: a loss is off by {error}")


# --- resumption, other models, files -------------------------------------------------------------

def check_resumption():
    words = ["--train_batch_size", 3, "--learning_rate", 5e-3, "--save_steps", 2, "--pos_weight", 2, "--do_eval", "false"]
    train("straight", "degrees.jsonl", *words, "--max_steps", 5)
    train("resumed", "degrees.jsonl", *words, "--max_steps", 3)
    train("resumed", "degrees.jsonl", *words, "--max_steps", 5, "--resume_from_checkpoint", "auto")
    for name in ("model.safetensors", "config.json"):
        expect(content("straight", name) == content("resumed", name), f"resumed: {name}")
    done = train("resumed", "degrees.jsonl", *words[:6], "--pos_weight", 3, "--do_eval", "false", "--max_steps", 6,
                 "--resume_from_checkpoint", "auto")
    expect("positive_weight" in done.stderr, f"another weight is noted when resuming: {done.stderr}")


def check_forms():
    """The same pairs in other columns and from an encoder without a head."""
    short = ["--max_steps", 2, "--learning_rate", 1e-3, "--do_eval", "false"]
    train("named", "plain.jsonl", *short)
    labels = GOLDEN["cases"][0]["labels"]
    write_pairs("score.jsonl", labels, ("sentence1", "sentence2", "score"))
    write_pairs("other.jsonl", labels, ("a", "b", "fits"))
    train("score", "score.jsonl", *short)
    train("other", "other.jsonl", *short, "--text_column", "a", "--text_pair_column", "b", "--label_column", "fits")
    for name in ("score", "other"):
        expect(content("named", "model.safetensors") == content(name, "model.safetensors"), f"{name}: the same pairs")
    encoder = os.path.join(SOURCE, "tests/golden/encoder")
    train("new", "plain.jsonl", *short, model=encoder)
    expect(read_json("new", "config.json")["id2label"] == {"0": "LABEL_0"}, "a new head has one output")
    done = berth("evaluate", "rerank", "--model", os.path.join(SOURCE, "tests/golden/classifier"), "--input", "plain.jsonl",
                 "--output", "refused", *COMMON, code=78)
    expect("expected one output, found 3" in done.stderr, f"a model of three classes: {done.stderr}")


def check_errors():
    labels = GOLDEN["cases"][0]["labels"]
    write_pairs("large.jsonl", [4.5, *labels[1:]])
    write_pairs("negative.jsonl", [*labels[:-1], -1])
    write_pairs("word.jsonl", ["yes", *labels[1:]])
    write_pairs("empty.jsonl", [None, *labels[1:]])
    write_pairs("single.jsonl", labels, ("text", "label"), [(a, label) for (a, _), label in zip(GOLDEN["pairs"], labels)])
    write_pairs("unlabelled.jsonl", labels, ("a", "b", "id"))
    for data, words, code, message in [
            ("large.jsonl", [], 65, 'line 1, column "label": expected a number from 0 to 1, found 4.5'),
            ("negative.jsonl", [], 65, f'line {len(labels)}, column "label": expected a number from 0 to 1, found -1'),
            ("word.jsonl", [], 65, 'expected a number, found "yes"'),
            ("empty.jsonl", [], 65, "the label is empty"),
            ("single.jsonl", [], 65, 'expected pairs of texts, found one column of texts, "text"'),
            ("unlabelled.jsonl", [], 65, "label_column"),
            ("plain.jsonl", ["--text_column", "query"], 2, "text_pair_column is missing"),
            ("plain.jsonl", ["--text_pair_column", "response"], 2, "text_column is missing"),
            ("plain.jsonl", ["--text_column", "query", "--text_pair_column", "response"], 2, "label_column is missing"),
            ("plain.jsonl", ["--positive_weight", 0], 2, "positive_weight"),
            ("nowhere.jsonl", [], 66, "nowhere.jsonl")]:
        done = train("refused", data, *words, code=code)
        expect(message in done.stderr, f"{data} {words}: {done.stderr}")
        expect(not os.path.exists("refused"), f"{data} {words}: a folder was left")


make_start("start")
for golden_case in GOLDEN["cases"]:
    check_case(golden_case)
check_emulated()
check_micro_batches()
check_resumption()
check_forms()
check_errors()
shutil.rmtree(os.getcwd())
print(f"{len(failures)} expectations failed" if failures else "all good")
sys.exit(1 if failures else 0)
