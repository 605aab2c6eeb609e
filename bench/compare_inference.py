#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Berth's prediction with ONNX Runtime, OpenVINO and PyTorch, in one run on one machine.

Batches: a sample of a SQuAD file's features. The peers get it sorted by length in batches of 8, each padded to its
longest sequence; Berth gets a file with the same questions (`berth bench predict --steps 0`). Single questions: one
sequence of 128 or 384 tokens at a time, median and 99th percentile. The programs alternate for --rounds rounds, each
in a process of its own; a ratio is the median over the rounds.

    compare_inference.py --berth build/release/berth --data dev-v1.1.json --vocab vocab.txt
    compare_inference.py ... --programs berth-int8,onnxruntime-int8 --samples 64

PyTorch and OpenVINO held to AVX2, beside Berth's kernels for it (ONNX Runtime cannot be held to it):

    ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 MKL_CBWR=AVX2 compare_inference.py ... \\
        --programs berth-fp32,openvino-fp32,pytorch-fp32 --berth_args "--instructions avx2"

Leaves out: the quality of the answers, training, tokenization.
"""
import argparse
import json
import os
import pickle
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from pytorch_worker import Torch, run_berth

PEER_BATCH = 8
LENGTHS = (128, 384)
NAMES = ("input_ids", "token_type_ids", "attention_mask")
PROGRAMS = ("berth-int8", "berth-bf16", "berth-fp32", "onnxruntime-int8", "onnxruntime-fp32", "openvino-bf16",
            "openvino-fp32", "pytorch-bf16", "pytorch-fp32")


# --- the peers, each in a worker process --------------------------------------------------------

def open_onnxruntime(a, precision):
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic
    path = os.path.join(a.folder, "onnx", "model.onnx")
    if precision == "int8":
        quantized = os.path.join(a.folder, "int8.onnx")
        quantize_dynamic(path, quantized, weight_type=QuantType.QInt8, per_channel=True)
        path = quantized
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = a.threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda batch: session.run(None, batch)


def open_openvino(a, precision):
    import openvino
    settings = {"INFERENCE_PRECISION_HINT": {"bf16": "bf16", "fp32": "f32"}[precision],
                "INFERENCE_NUM_THREADS": a.threads, "PERFORMANCE_HINT": "LATENCY"}
    model = openvino.Core().compile_model(os.path.join(a.folder, "onnx", "model.onnx"), "CPU", settings)
    return model


def open_pytorch(a, precision):
    import torch
    from transformers import AutoModelForQuestionAnswering
    torch.set_num_threads(a.threads)
    dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[precision]
    model = AutoModelForQuestionAnswering.from_pretrained(os.path.join(a.folder, "model"), dtype=dtype).eval()

    def run(batch):
        with torch.inference_mode():
            return model(**{name: torch.from_numpy(array) for name, array in batch.items()})
    return run


OPEN = {"onnxruntime": open_onnxruntime, "openvino": open_openvino, "pytorch": open_pytorch}


def batch_of(rows):
    width = max(len(ids) for ids, _ in rows)
    out = {name: np.zeros((len(rows), width), np.int64) for name in NAMES}
    for row, (ids, types) in enumerate(rows):
        out["input_ids"][row, :len(ids)], out["token_type_ids"][row, :len(ids)] = ids, types
        out["attention_mask"][row, :len(ids)] = 1
    return out


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


def work(a):
    name, precision = a.worker.split("-")
    run = OPEN[name](a, precision)
    with open(os.path.join(a.folder, "sample.pickle"), "rb") as file:
        rows = sorted(pickle.load(file), key=lambda row: len(row[0]))
    batches = [batch_of(rows[i:i + PEER_BATCH]) for i in range(0, len(rows), PEER_BATCH)]
    run(batches[-1])
    print(json.dumps({}), flush=True)
    for _ in sys.stdin:
        out = {"samples_per_second": len(rows) / sum(seconds_of(run, batch) for batch in batches)}
        for length in LENGTHS:
            out.update(single_questions(run, length, a.questions))
        print(json.dumps(out), flush=True)


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
    with open(os.path.join(a.folder, "sample.pickle"), "wb") as file:
        pickle.dump([(f.input_ids, f.token_type_ids) for f in chosen], file)
    ids = {examples[f.example].id for f in chosen}
    with open(a.data, encoding="utf-8") as file:
        whole = json.load(file)
    for article in whole["data"]:
        for paragraph in article["paragraphs"]:
            paragraph["qas"] = [question for question in paragraph["qas"] if question["id"] in ids]
    with open(os.path.join(a.folder, "sample.json"), "w", encoding="utf-8") as file:
        json.dump(whole, file)
    return len(chosen)


def write_models(a):
    model = os.path.join(a.folder, "model")
    subprocess.run([a.berth, "init", "--config", a.config, "--output", model, "--quiet"], check=True)
    subprocess.run([a.berth, "convert", model, os.path.join(a.folder, "onnx"), "--to", "onnx", "--quiet"], check=True)


def measure_all(a):
    """program -> the results of its rounds"""
    workers = {name: Torch(__file__, ("folder", "threads", "questions"), name, "", a, program=name)
               for name in a.programs if not name.startswith("berth")}
    results = {name: [] for name in a.programs}
    for number in range(a.rounds):
        for name in a.programs:
            out = workers[name].measure() if name in workers else measure_berth(a, name.split("-")[1])
            results[name].append(out)
            print(f"round {number + 1}: {name}: {out}", file=sys.stderr, flush=True)
    for worker in workers.values():
        worker.close()
    return results


def cell(results, key):
    scale = 1 if key == "samples_per_second" else 1000
    return scale * statistics.median(r[key] for r in results)


def print_ratios(results, keys):
    """Berth beside the fastest peer of the same precision, round by round."""
    for name, own in results.items():
        peers = [p for p in results if not p.startswith("berth") and p.split("-")[1] == name.split("-")[1]]
        if not name.startswith("berth") or not peers:
            continue
        for key in keys:
            sign = 1 if key == "samples_per_second" else -1
            best = max(peers, key=lambda p: sign * cell(results[p], key))
            ratio = statistics.median((o[key] / p[key]) ** sign for o, p in zip(own, results[best]))
            print(f"{name}, {key}: {ratio:.2f} times as fast as {best}")


def print_table(a, results, count):
    keys = ["samples_per_second"] + [f"{q}_{length}" for length in LENGTHS for q in ("p50", "p99")]
    print(f"{a.config}, {a.threads} threads, {platform.processor() or platform.machine()}, {count} questions; "
          f"median of {a.rounds} rounds; single questions in ms")
    print("| program | samples/s | " + " | ".join(key.replace("_", ", ") + " tokens" for key in keys[1:]) + " |")
    print("|---" * (len(keys) + 1) + "|")
    for name, own in results.items():
        print(f"| {name} | " + " | ".join(f"{cell(own, key):.1f}" for key in keys) + " |")
    print_ratios(results, keys)


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("berth", None), ("data", None), ("vocab", None), ("config", "base"), ("cache", None)):
        parser.add_argument(f"--{name}", default=default)
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="comma-separated, of " + " ".join(PROGRAMS))
    parser.add_argument("--berth_args", default="", help="more arguments for `berth bench`, in one string")
    parser.add_argument("--verbose", action="store_true", help="show what the peers write to standard error")
    for name, default in (("threads", os.cpu_count()), ("rounds", 3), ("samples", 256), ("questions", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name in ("worker", "settings", "folder"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    a = parser.parse_args()
    a.programs = a.programs.split(",")
    for name in a.programs:
        if name not in PROGRAMS:
            parser.error(f"--programs: {name}: expected some of {' '.join(PROGRAMS)}")
    return a


def main():
    a = options()
    if a.worker:
        work(a)
        return
    with tempfile.TemporaryDirectory() as a.folder:
        count = write_sample(a)
        write_models(a)
        print_table(a, measure_all(a), count)


main()
