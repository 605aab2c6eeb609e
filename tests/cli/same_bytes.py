#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bytes of fp32 and int8 do not depend on the instruction set: vectors of texts made by a generator with a seed, by models
that `berth init` makes with a seed, have the hashes below on every processor with fused multiply-adds, by any number of
processes, through the server; so have weights trained in fp32, from the files of scores to the last moment.

    same_bytes.py BERTH SOURCE_DIR [SET...]

Without SETs all that `berth doctor` names. BERTH_RUNNER: words to put before the program, such as qemu's.
A hash changes only with a major version (doc/compatibility.md), and CHANGELOG says why.
"""
import functools
import hashlib
import http.client
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

from expectations import expect, failures, run_program

BERTH, SOURCE = map(os.path.abspath, sys.argv[1:3])
RUNNER = os.environ.get("BERTH_RUNNER", "").split()
os.chdir(tempfile.mkdtemp())

# The models: whole vectors and groups of 64 columns; neither.
SHAPES = {"even": {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512},
          "odd": {"hidden_size": 100, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 396}}
TEXTS = {"even": 10000, "odd": 1000}
HASHES = {
    ("even", "fp32"): "be910b2063a7b5a72a813881e8db4a0e81ee5a49a83580d7ad1e560b43d0b56a",
    ("even", "int8"): "e6cc42dc8c528f099d36bca562f9c7b71e5371fd518374e111ac7d8cc9e49a77",
    ("odd", "fp32"): "6c445b6e75f27aa405eb0d0f4afdc82bfc90f351a760ed778a880ddc671ac7c8",
    ("odd", "int8"): "f15ac2489ce86e78677446f5f5f0f637a18579d3e0053e69aff0f0cf4c7a2d27",
    ("even", "adamw"): "fc39f022d96a5af750b9bf7adc87f1fb297d73b3e51e50e876c36776a32eba99",
    ("odd", "lamb"): "37fb55620b89460881c041db227db2f688ad2c906c58fee2d47befe7ef99bad5",
}

berth = functools.partial(run_program, BERTH, launcher=RUNNER)


class Draws:
    """Knuth's linear congruential generator."""

    def __init__(self, seed):
        self.state = seed

    def below(self, limit):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % limit


def words():
    syllables = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
    return [a + b for a in syllables for b in syllables[:28]]


def texts(count, seed):
    """Mostly short, as sentences are; a few have hundreds of words."""
    draws, known = Draws(seed), words()
    lengths = [1 + draws.below(12) if i % 50 else 1 + draws.below(400) for i in range(count)]
    return [" ".join(known[draws.below(len(known))] for _ in range(length)) for length in lengths]


def write(path, lines):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)


def make_model(name):
    config = {"model_type": "bert", "architectures": ["BertModel"], "vocab_size": len(words()) + 5,
              "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu",
              "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "initializer_range": 0.05,
              **SHAPES[name]}
    write("config.json", [json.dumps(config)])
    berth("init", "--config", "config.json", "--output", name, "--seed", 1)
    write(os.path.join(name, "config.json"), [json.dumps(config)])  # of an encoder, which the server offers for embeddings
    write(os.path.join(name, "vocab.txt"), ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words()])
    write(name + ".txt", texts(TEXTS[name], 2))


def sets():
    """The instruction sets of this machine whose multiply-adds are fused."""
    if len(sys.argv) > 3:
        return sys.argv[3:]
    facts = json.loads(berth("doctor", "--json").stdout)
    return [name for name in facts["instruction_sets"].split() if name in facts["same_bytes"].split()]


def is_hash(key, found, where):
    expect(found == HASHES[key], f"{' '.join(key)} {where}: {found}, expected {HASHES[key]}")


def embed(model, precision, *options, launcher=None):
    done = run_program(BERTH, "embed", "--model", model, "--precision", precision, "--hash", *options, model + ".txt",
                       launcher=RUNNER if launcher is None else launcher)
    return done.stdout.strip()


def check_vectors(own):
    for name in own:
        for model in SHAPES:
            for precision in "fp32", "int8":
                threads = 1 + len(name) % 3
                is_hash((model, precision), embed(model, precision, "--instructions", name, "--threads", threads), name)


def check_training(own):
    """Dropout, weight decay and 20 updates; predictions of the trained model."""
    draws, known = Draws(3), texts(160, 4)
    write("train.jsonl", [json.dumps({"text": text, "label": "abc"[draws.below(3)]}) for text in known])
    for model, optimizer in (("even", "adamw"), ("odd", "lamb")):
        scores = set()
        for name in own:
            out = f"{optimizer}-{name}"
            berth("finetune", "classify", "--model", model, "--train_file", "train.jsonl", "--output_dir", out, "--precision", "fp32",
                  "--instructions", name, "--optimizer", optimizer, "--max_steps", 20, "--per_device_train_batch_size", 8,
                  "--weight_decay", 0.01, "--learning_rate", 1e-3, "--max_seq_length", 64, "--threads", 2)
            with open(os.path.join(out, "model.safetensors"), "rb") as file:
                is_hash((model, optimizer), hashlib.sha256(file.read()).hexdigest(), name)
            berth("predict", "classify", "--model", out, "--predict_file", "train.jsonl", "--output_dir", out + "-p", "--precision",
                  "fp32", "--instructions", name)
            with open(os.path.join(out + "-p", "predict_results.txt"), "rb") as file:
                scores.add(file.read())
        expect(len(scores) == 1, f"predictions of {optimizer} differ between {own}")


def check_ranks():
    for launcher in filter(None, (shutil.which("mpirun.openmpi"), shutil.which("mpirun.mpich"))):
        more = ["--oversubscribe", "--bind-to", "none"] if "openmpi" in launcher else []
        for ranks in 2, 3:
            is_hash(("even", "fp32"), embed("even", "fp32", launcher=[launcher, *more, "-np", str(ranks)]), f"{launcher} {ranks}")


def check_server():
    known = texts(TEXTS["odd"], 2)
    log = open("serve.log", "w+", encoding="utf-8")
    server = subprocess.Popen([BERTH, "serve", "--model", "odd", "--precision", "fp32", "--port", "0", "--drain_seconds", "0"],
                              stdout=subprocess.DEVNULL, stderr=log)
    found = None
    while found is None and server.poll() is None:
        with open("serve.log", encoding="utf-8") as said:
            found = re.search(r"listening on \S+:(\d+)\n(?:.*\n)*.*note: ready", said.read())
    digest = hashlib.sha256()
    for first in range(0, len(known), 100) if found else ():
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]))
        connection.request("POST", "/v1/embeddings", json.dumps({"model": "odd", "input": known[first:first + 100]}))
        for row in json.loads(connection.getresponse().read())["data"]:
            digest.update(struct.pack(f"<{len(row['embedding'])}f", *row["embedding"]))
    server.terminate()
    server.wait()
    is_hash(("odd", "fp32"), digest.hexdigest(), "served")


def main():
    own = sets()
    expect(own, "no instruction set with fused multiply-adds")
    for name in SHAPES:
        make_model(name)
    check_vectors(own)
    check_training(own)
    if not RUNNER:
        check_ranks()
        check_server()
    expect(embed("even", "fp32", "--max_seq_length", 8) != HASHES["even", "fp32"], "a hash that does not depend on the texts")
    print(f"same_bytes: {' '.join(own)}: {len(failures)} failures")
    sys.exit(1 if failures else 0)


main()
