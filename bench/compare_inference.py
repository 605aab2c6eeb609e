#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Berth's prediction with ONNX Runtime's dynamic int8 (and fp32) on SQuAD features, in one run on one machine.

A sample of the file's features, which ONNX Runtime gets sorted by length in batches of 8, each padded to its
longest sequence, and Berth as `berth bench predict` packs them. Both programs alternate for --rounds rounds; the
result is the median of the ratios.

    compare_inference.py --berth build/release/berth --data dev-v1.1.json --vocab vocab.txt --precision int8

Leaves out: the quality of the answers, training.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import squad_features
from pytorch_worker import run_berth

PEER_BATCH = 8


def make_peer(a, folder):
    """ONNX Runtime's session on the same model, quantized unless the precision is fp32."""
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic
    model, path = os.path.join(folder, "model"), os.path.join(folder, "onnx", "model.onnx")
    subprocess.run([a.berth, "init", "--config", a.config, "--output", model, "--quiet"], check=True)
    subprocess.run([a.berth, "convert", model, os.path.dirname(path), "--to", "onnx", "--quiet"], check=True)
    if a.precision == "int8":
        quantized = os.path.join(folder, "int8.onnx")
        quantize_dynamic(path, quantized, weight_type=QuantType.QInt8, per_channel=True)
        path = quantized
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = a.threads
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def batch_of(features):
    width = max(len(f.input_ids) for f in features)
    out = {name: np.zeros((len(features), width), np.int64)
           for name in ("input_ids", "token_type_ids", "attention_mask")}
    for row, f in enumerate(features):
        n = len(f.input_ids)
        out["input_ids"][row, :n], out["token_type_ids"][row, :n] = f.input_ids, f.token_type_ids
        out["attention_mask"][row, :n] = 1
    return out


def peer_rate(session, features):
    features = sorted(features, key=lambda f: len(f.input_ids))
    batches = [batch_of(features[i:i + PEER_BATCH]) for i in range(0, len(features), PEER_BATCH)]
    session.run(None, batches[-1])
    began = time.perf_counter()
    for batch in batches:
        session.run(None, batch)
    return len(features) / (time.perf_counter() - began)


def compare_batches(a, session, features):
    chosen = features[::max(1, len(features) // a.samples)][:a.samples]
    command = [a.berth, "bench", "predict", "--config", a.config, "--data", a.data, "--vocab_file", a.vocab,
               "--precision", a.precision, "--threads", str(a.threads), "--json"]
    ratios = []
    for number in range(a.rounds):
        peer, ours = peer_rate(session, chosen), run_berth(command)["samples_per_second"]
        ratios.append(ours / peer)
        print(f"round {number + 1}: ONNX Runtime {peer:.1f}, Berth {ours:.1f} samples/s", file=sys.stderr)
    print(f"batches: {statistics.median(ratios):.2f} times as fast as ONNX Runtime ({a.precision}, {a.config})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("berth", None), ("data", None), ("vocab", None), ("config", "base"), ("cache", None)):
        parser.add_argument(f"--{name}", default=default)
    parser.add_argument("--precision", default="int8", choices=("int8", "fp32"))
    for name, default in (("threads", os.cpu_count()), ("rounds", 3), ("samples", 256)):
        parser.add_argument(f"--{name}", type=int, default=default)
    a = parser.parse_args()
    _, features, _ = squad_features.load(a.vocab, a.data, False, cache=a.cache)
    with tempfile.TemporaryDirectory() as folder:
        compare_batches(a, make_peer(a, folder), features)


main()
