#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a process takes from its start to the vector of one text, how much memory it has at most, and how large the program
is: Berth in fp32, and in int8 from an int8 folder, beside sentence-transformers (fp32) and the int8 of ONNX Runtime and OpenVINO
(bench/peers.py), each a program of a few lines for the Python that runs this.

    cold_start.py --berth build/release/berth --model all-MiniLM-L6-v2 [--rounds 7] [--programs berth-fp32,berth-int8]

The programs take turns, so that what else runs on the machine slows all of them down; prints the median, the least and the
largest time of each. Files are in memory after the first round, which does not count, and the int8 models were written before.
Fails if a vector's cosine to that of Berth in fp32 is below 0.9999, or 0.99 in int8.
"""
import argparse
import contextlib
import importlib.util
import json
import math
import multiprocessing
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import results_file

TEXT = "The bridge was opened in 1932 after eight years of work."
SENTENCE_TRANSFORMERS = """import json, sys
from sentence_transformers import SentenceTransformer
print(json.dumps(SentenceTransformer(sys.argv[1], device="cpu").encode(sys.argv[2]).tolist()))"""
# Prints the mean of the rows, whose length does not matter for a cosine.
TOKENS = """import json, sys
import numpy as np
from tokenizers import Tokenizer
ids = np.array([[*Tokenizer.from_file(sys.argv[2]).encode(sys.argv[3]).ids]], dtype=np.int64)
ids = ids[:, :int((ids != 0).sum())]
batch = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
"""
ONNXRUNTIME = TOKENS + """import onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
print(json.dumps(session.run(None, batch)[0][0].mean(0).tolist()))"""
OPENVINO = TOKENS + """import openvino
model = openvino.Core().compile_model(sys.argv[1], "CPU")
print(json.dumps(model(batch)[model.outputs[0]][0].mean(0).tolist()))"""
PROGRAMS = ("berth-fp32", "berth-int8", "sentence-transformers-fp32", "onnxruntime-int8", "openvino-int8")
FILES = {"onnxruntime-int8": "onnxruntime-int8.onnx", "openvino-int8": "openvino-int8.xml"}
PARTS = {"sentence-transformers": ("torch", "transformers", "sentence_transformers"), "onnxruntime": ("onnxruntime", "tokenizers", "numpy"),
         "openvino": ("openvino", "tokenizers", "numpy")}


def timed(words):
    """Seconds until the vector is there, MB of resident memory at most, and the output."""
    begin = time.perf_counter()
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        output = process.stdout.read()
        seconds = time.perf_counter() - begin
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(map(str, words))[:300]}: exit code {process.returncode}")
    return seconds, usage.ru_maxrss * 1024 / 1e6, output


def size_of(names):
    """MB of the files of Python packages."""
    folders = [pathlib.Path(importlib.util.find_spec(name).origin).parent for name in names]
    return sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file()) / 1e6


def write_models(programs, berth, model, work):
    """In a process of its own: what it reads would count as memory of the programs that this process starts."""
    import tokenizers

    import peers

    def convert(target, *more):
        if not target.exists():
            subprocess.run([berth, "convert", model, target, "--quiet", *more], check=True)
        return target
    if "berth-int8" in programs:
        convert(work / "int8", "--to", "int8")
    ids = [one for one in tokenizers.Tokenizer.from_file(os.path.join(model, "tokenizer.json")).encode(TEXT).ids if one]
    for name in set(programs) & set(FILES):
        graph = convert(work / "onnx", "--to", "onnx", "--allow_lossy") / "model.onnx"
        peers.WRITE[name.split("-")[0]](graph, [(ids, [0] * len(ids))])  # enough to calibrate for this text


def command_of(name, a, work):
    if name.startswith("berth"):
        own = ["--model", work / "int8", "--precision", "int8"] if name == "berth-int8" else ["--model", a.model]
        return [a.berth, "embed", *own, "--text", TEXT, "--quiet"]
    python = [sys.executable, "-W", "ignore", "-c"]
    if name == "sentence-transformers-fp32":
        return [*python, SENTENCE_TRANSFORMERS, a.model, TEXT]
    return [*python, ONNXRUNTIME if name == "onnxruntime-int8" else OPENVINO, str(work / "onnx" / FILES[name]),
            os.path.join(a.model, "tokenizer.json"), TEXT]


def cosine(one, other):
    return sum(map(lambda a, b: a * b, one, other)) / math.hypot(*one) / math.hypot(*other)


def measure(a, words):
    """program -> (seconds of the rounds, most MB)"""
    vectors, seconds, memory = {}, {name: [] for name in words}, {}
    for number in range(a.rounds + 1):
        for name, command in words.items():
            taken, memory[name], output = timed(command)
            found = json.loads(output)
            vectors[name] = found["embedding"] if isinstance(found, dict) else found
            if number > 0:
                seconds[name].append(taken)
    for name, vector in vectors.items():
        near = cosine(vector, vectors["berth-fp32"])
        assert near >= (0.99 if name.endswith("int8") else 0.9999), (name, near)
    return seconds, memory


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--berth", required=True)
    parser.add_argument("--model", required=True, help="folder of a model for embeddings, with tokenizer.json")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="comma-separated, berth-fp32 among them, of " + " ".join(PROGRAMS))
    parser.add_argument("--folder", help="keep the int8 models there; those that it has are not written again")
    parser.add_argument("--csv", help="append the figures to this file")
    a = parser.parse_args()
    a.programs = a.programs.split(",")
    with contextlib.nullcontext(a.folder) if a.folder else tempfile.TemporaryDirectory() as work:
        pathlib.Path(work).mkdir(exist_ok=True)
        work = pathlib.Path(work)
        writing = multiprocessing.get_context("spawn").Process(target=write_models, args=(a.programs, a.berth, a.model, work))
        writing.start()
        writing.join()
        seconds, memory = measure(a, {name: command_of(name, a, work) for name in a.programs})
    found = {}
    print(results_file.machine())
    for name, taken in seconds.items():
        size = pathlib.Path(a.berth).stat().st_size / 1e6 if name.startswith("berth") else size_of(PARTS[name.rpartition("-")[0]])
        found.update({(name, "first vector, s"): statistics.median(taken), (name, "resident, MB"): memory[name],
                      (name, "program, MB"): size})
        print(f"{name}: {statistics.median(taken):.3f} s ({min(taken):.3f} to {max(taken):.3f}), {memory[name]:.0f} MB in memory, "
              f"{size:.0f} MB on disk")
    if a.csv:
        results_file.append(a.csv, "cold start", pathlib.Path(a.model).name, os.cpu_count(), a.berth, found)


if __name__ == "__main__":
    main()
