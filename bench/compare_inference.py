#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Berth's prediction with ONNX Runtime, OpenVINO and PyTorch, in one run on one machine.

Batches: a sample of a SQuAD file's features. The peers get it sorted by length in batches of 8, each padded to its
longest sequence; Berth gets a file with the same questions (`berth bench predict --steps 0`). Single questions: one
sequence of 128 or 384 tokens at a time, median and 99th percentile. The programs alternate for --rounds rounds, each
in a process of its own; a ratio is the median over the rounds. OpenVINO's int8 is the static one of NNCF, ONNX
Runtime's its dynamic one (bench/peers.py).

    compare_inference.py --berth build/release/berth --data dev-v1.1.json --vocab vocab.txt
    compare_inference.py ... --programs berth-int8,onnxruntime-int8,openvino-int8 --samples 64

--requests N asks N questions of the sample more, each of every program in turn, so that what disturbs the machine
disturbs all of them: median, 95th and 99th percentile. Berth is then its library in the Python package (--library
build/release/libberth.so), whose time includes the tokenizer; the peers get tokens.

    compare_inference.py ... --rounds 0 --requests 2000 --library build/release/libberth.so

PyTorch and OpenVINO held to AVX2, beside Berth's kernels for it (ONNX Runtime cannot be held to it):

    ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 MKL_CBWR=AVX2 compare_inference.py ... \\
        --programs berth-fp32,openvino-fp32,pytorch-fp32 --berth_args "--instructions avx2"

Leaves out: the quality of the answers, training, tokenization.
"""
import argparse
import contextlib
import json
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import peers
import results_file
from peers import batch_of
from pytorch_worker import Torch, run_berth

PEER_BATCH = 8
LENGTHS = (128, 384)
REST = 0.005  # s between two requests, until the threads of the program before have gone to sleep
PROGRAMS = ("berth-int8", "berth-bf16", "berth-fp32", "onnxruntime-int8", "onnxruntime-fp32", "openvino-int8",
            "openvino-bf16", "openvino-fp32", "pytorch-bf16", "pytorch-fp32")


# --- the programs, each in a worker process -----------------------------------------------------

def seconds_of(run, batch):
    began = time.perf_counter()
    run(batch)
    return time.perf_counter() - began


def single_questions(run, length, count):
    batch = batch_of([(range(1000, 1000 + length), [0] * length)])
    for _ in range(3):
        run(batch)
    times = sorted(seconds_of(run, batch) for _ in range(count))
    return {f"p50_{length}": times[(count + 1) // 2 - 1], f"p99_{length}": times[int(np.ceil(0.99 * count)) - 1]}


def open_berth(a, precision):
    """Answers a question: (question, context)."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "package", "wheel"))
    os.environ["BERTH_LIBRARY"] = a.library
    import berth
    model = berth.open(os.path.join(a.folder, "model"), vocab_file=a.vocab, precision=precision, threads=a.threads)
    return lambda texts: model.answer(*texts)


def work(a):
    """Measures all when it is told "go", and the question of the sample whose number it is given."""
    answers = peers.own_output()
    program, precision = a.worker.split("-")
    with open(os.path.join(a.folder, "sample.pickle"), "rb") as file:
        rows, texts = pickle.load(file)
    if program == "berth":
        run, inputs = open_berth(a, precision), texts
    else:
        peers.RESTS = a.settings == "rests"
        run = peers.OPEN[program](os.path.join(a.folder, "model"), os.path.join(a.folder, "onnx", "model.onnx"), precision, a.threads, rows)
        inputs = [batch_of([row]) for row in rows]
    order = sorted(rows, key=lambda row: len(row[0]))
    batches = [batch_of(order[i:i + PEER_BATCH]) for i in range(0, len(rows), PEER_BATCH)]
    run(inputs[-1] if program == "berth" else batches[-1])
    print(json.dumps({}), file=answers, flush=True)
    for line in sys.stdin:
        if line != "go\n":
            print(json.dumps(seconds_of(run, inputs[int(line)])), file=answers, flush=True)
            continue
        out = {"samples_per_second": len(rows) / sum(seconds_of(run, batch) for batch in batches)}
        for length in LENGTHS:
            out.update(single_questions(run, length, a.questions))
        print(json.dumps(out), file=answers, flush=True)


# --- Berth --------------------------------------------------------------------------------------

def measure_berth(a, precision):
    def bench(*more):
        return run_berth([a.berth, "bench", "predict", "--config", a.config, "--vocab_file", a.vocab, "--precision",
                          precision, "--threads", str(a.threads), "--json", "--quiet", *more, *a.berth_args.split()])
    sample = os.path.join(a.folder, "sample.json")
    out = {"samples_per_second": bench("--data", sample, "--steps", "0")["samples_per_second"]}
    for length in LENGTHS:
        single = bench("--data", sample, "--update_sequences", "1", "--max_seq_length", str(length), "--pad_to",
                       str(length), "--steps", str(a.questions), "--warm_up_steps", "3")
        out.update({f"p50_{length}": single["p50_seconds"], f"p99_{length}": single["p99_seconds"]})
    return out


# --- the comparison -----------------------------------------------------------------------------

def write_sample(a):
    """The questions at equal distances in the file whose context makes one feature, as a file and as features."""
    import squad_features
    examples, features, _ = squad_features.load(a.vocab, a.data, False, cache=a.cache)
    counts = np.bincount([f.example for f in features])
    single = [f for f in features if counts[f.example] == 1]
    chosen = single[::max(1, len(single) // a.samples)][:a.samples]
    ids, texts = {examples[f.example].id for f in chosen}, {}
    with open(a.data, encoding="utf-8") as file:
        whole = json.load(file)
    for article in whole["data"]:
        for paragraph in article["paragraphs"]:
            paragraph["qas"] = [question for question in paragraph["qas"] if question["id"] in ids]
            texts.update((question["id"], (question["question"], paragraph["context"])) for question in paragraph["qas"])
    with open(os.path.join(a.folder, "sample.pickle"), "wb") as file:
        pickle.dump(([(f.input_ids, f.token_type_ids) for f in chosen], [texts[examples[f.example].id] for f in chosen]), file)
    with open(os.path.join(a.folder, "sample.json"), "w", encoding="utf-8") as file:
        json.dump(whole, file)
    return len(chosen)


def write_models(a):
    model = os.path.join(a.folder, "model")
    if os.path.exists(os.path.join(a.folder, "onnx", "model.onnx")):
        return
    subprocess.run([a.berth, "init", "--config", a.config, "--output", model, "--quiet"], check=True)
    subprocess.run([a.berth, "convert", model, os.path.join(a.folder, "onnx"), "--to", "onnx", "--quiet"], check=True)


def start(a, name, setting=""):
    return Torch(__file__, ("folder", "threads", "questions", "library", "vocab"), name, setting, a, program=name)


def measure_all(a):
    """program -> the results of its rounds"""
    workers = {name: start(a, name) for name in a.programs if not name.startswith("berth")} if a.rounds else {}
    results = {name: [] for name in a.programs}
    for number in range(a.rounds):
        for name in a.programs:
            out = workers[name].measure() if name in workers else measure_berth(a, name.split("-")[1])
            results[name].append(out)
            print(f"round {number + 1}: {name}: {out}", file=sys.stderr, flush=True)
    for worker in workers.values():
        worker.close()
    return results


def measure_requests(a, count):
    """program -> seconds of each request; the programs take turns at every request, each first as often as another."""
    workers = {name: start(a, name, "rests") for name in a.programs}
    seconds = {name: [] for name in a.programs}
    for number in range(a.requests):
        shift = number % len(a.programs)
        for name in a.programs[shift:] + a.programs[:shift]:
            time.sleep(REST)
            seconds[name].append(workers[name].measure(str(number % count)))
    for worker in workers.values():
        worker.close()
    return seconds


def cell(results, key):
    scale = 1 if key == "samples_per_second" else 1000
    return scale * statistics.median(r[key] for r in results)


def percentile(seconds, share):
    return sorted(seconds)[int(np.ceil(share * len(seconds))) - 1]


def print_requests(seconds):
    """Returns what it printed: (program, measure) -> ms"""
    names = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    found = {(name, f"request, {key}, ms"): 1000 * percentile(own, share)
             for name, own in seconds.items() for key, share in names.items()}
    print(f"\n{len(next(iter(seconds.values())))} requests of each in turn, ms\n| program | " + " | ".join(names) + " |")
    print("|---" * (len(names) + 1) + "|")
    for name in seconds:
        print(f"| {name} | " + " | ".join(f"{found[name, f'request, {key}, ms']:.1f}" for key in names) + " |")
    return found


def print_ratios(results, keys):
    """Berth beside each peer of the same precision, round by round."""
    for name, own in results.items():
        if not name.startswith("berth"):
            continue
        for peer in (p for p in results if not p.startswith("berth") and p.split("-")[1] == name.split("-")[1]):
            ratios = (statistics.median((o[key] / p[key]) ** (1 if key == "samples_per_second" else -1)
                                        for o, p in zip(own, results[peer])) for key in keys)
            print(f"{name} is as many times as fast as {peer}: " + ", ".join(f"{key} {ratio:.2f}" for key, ratio in zip(keys, ratios)))


def print_table(a, results, count):
    keys = ["samples_per_second"] + [f"{q}_{length}" for length in LENGTHS for q in ("p50", "p99")]
    print(f"{a.config}, {a.threads} threads, {results_file.machine()}, {count} questions; "
          f"median of {a.rounds} rounds; single questions in ms")
    print("| program | samples/s | " + " | ".join(key.replace("_", ", ") + " tokens" for key in keys[1:]) + " |")
    print("|---" * (len(keys) + 1) + "|")
    for name, own in results.items():
        print(f"| {name} | " + " | ".join(f"{cell(own, key):.1f}" for key in keys) + " |")
    print_ratios(results, keys)
    return {(name, "in batches, samples/s" if key == "samples_per_second" else key.replace("_", ", ") + " tokens, ms"): cell(own, key)
            for name, own in results.items() for key in keys}


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("berth", None), ("data", None), ("vocab", None), ("config", "base"), ("cache", None), ("library", None)):
        parser.add_argument(f"--{name}", default=default)
    parser.add_argument("--csv", help="append the figures to this file")
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="comma-separated, of " + " ".join(PROGRAMS))
    parser.add_argument("--berth_args", default="", help="more arguments for `berth bench`, in one string")
    parser.add_argument("--verbose", action="store_true", help="show what the peers write to standard error")
    for name, default in (("threads", os.cpu_count()), ("rounds", 3), ("samples", 256), ("questions", 100),
                          ("requests", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--folder", help="keep the sample and the models there; models that it has are not written again")
    for name in ("worker", "settings"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    a = parser.parse_args()
    a.programs = a.programs.split(",")
    for name in a.programs:
        if name not in PROGRAMS:
            parser.error(f"--programs: {name}: expected some of {' '.join(PROGRAMS)}")
    if a.requests and not a.library and any(name.startswith("berth") for name in a.programs):
        parser.error("--requests needs --library, Berth's shared library")
    return a


def main():
    a = options()
    if a.worker:
        work(a)
        return
    with contextlib.nullcontext(a.folder) if a.folder else tempfile.TemporaryDirectory() as a.folder:
        os.makedirs(a.folder, exist_ok=True)
        count = write_sample(a)
        write_models(a)
        found = print_table(a, measure_all(a), count) if a.rounds else {}
        if a.requests:
            found.update(print_requests(measure_requests(a, count)))
    if a.csv:
        results_file.append(a.csv, "inference", f"{a.config}, {count} questions of SQuAD", a.threads, a.berth, found)


main()
