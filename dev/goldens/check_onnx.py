#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the output of `berth convert --to onnx` in ONNX Runtime and compares it with Berth's logits.

Each model passes onnx's checker (with shape inference) and ONNX Runtime, in batches padded to their longest
sequence, so that the mask matters; prints the largest difference from the logits of
BUILD/tests/model/dump_logits, which may be 1e-4. --golden: the tiny models of tests/golden (also against
PyTorch's float64 logits stored there), each also without its head, which is then applied to last_hidden_state
here; the classifiers there against PyTorch only; the hashes are those that tests/model_io/test_export.c
expects. --model with --features (from `berth features squad --jsonl`): a model with the span head on real
features. Exits 1 if a difference is too large. Needs: onnx, onnxruntime, numpy.

    check_onnx.py --build build/release --golden tests/golden
    check_onnx.py --build build/release --model squad-minilm --features dev.jsonl --count 100
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

import tensors

LIMIT = 1e-4
BATCH = 8


def convert(build, source, target):
    subprocess.run([os.path.join(build, "berth"), "convert", source, target, "--to", "onnx", "--allow_lossy",
                    "--quiet"], check=True, stderr=subprocess.DEVNULL)
    path = os.path.join(target, "model.onnx")
    onnx.checker.check_model(path, full_check=True)
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]), tensors.sha256(path)


def berth_logits(build, folder, sequences):
    feed = b"".join(np.int32(len(ids)).tobytes() + np.array(ids, np.int32).tobytes() +
                    np.array(types, np.int32).tobytes() for ids, types in sequences)
    out = subprocess.run([os.path.join(build, "tests/model/dump_logits"), folder], input=feed,
                         stdout=subprocess.PIPE, check=True).stdout
    return np.frombuffer(out, np.float32).reshape(-1, 2)


def pad(sequences):
    longest = max(len(ids) for ids, _ in sequences)
    feed = {name: np.zeros((len(sequences), longest), np.int64)
            for name in ("input_ids", "token_type_ids", "attention_mask")}
    for row, (ids, types) in enumerate(sequences):
        feed["input_ids"][row, :len(ids)] = ids
        feed["token_type_ids"][row, :len(ids)] = types
        feed["attention_mask"][row, :len(ids)] = 1
    return feed


def runtime_logits(session, sequences, head=None):
    parts = []
    for first in range(0, len(sequences), BATCH):
        batch = sequences[first:first + BATCH]
        outputs = session.run(None, pad(batch))
        if head is not None:
            (hidden,) = outputs
            logits = hidden @ head[0].T + head[1]
        else:
            logits = np.stack(outputs, axis=-1)
        parts += [logits[row, :len(ids)] for row, (ids, _) in enumerate(batch)]
    return np.concatenate(parts)


def report(name, model, found, ours, others=None):
    apart = float(np.abs(found - ours).max())
    session, digest = model
    text = f"{name:24} outputs {[o.name for o in session.get_outputs()]}: {len(ours)} tokens, {apart:.1e} from Berth"
    if others is not None:
        text += f", {float(np.abs(found - others).max()):.1e} from PyTorch"
    print(f"{text}; {digest}")
    return apart <= LIMIT and np.isfinite(found).all()


def check_golden(build, path, scratch):
    name, config, parameters, values = tensors.read_golden(path)
    source = os.path.join(scratch, name)
    tensors.write_folder(source, config, parameters)
    cuts = values["cu_seqlens"]
    sequences = [(values["ids"][a:b], values["token_type_ids"][a:b]) for a, b in zip(cuts, cuts[1:])]
    ours = berth_logits(build, source, sequences)
    model = convert(build, source, source + "-onnx")
    good = report(name, model, runtime_logits(model[0], sequences), ours, values["logits"])
    bare = source + "-bare"
    tensors.write_folder(bare, config, {n: v for n, v in parameters.items() if n.startswith("bert.")})
    model = convert(build, bare, bare + "-onnx")
    head = parameters["qa_outputs.weight"], parameters["qa_outputs.bias"]
    return report(name + " (no head)", model, runtime_logits(model[0], sequences, head), ours) and good


def check_class(build, path, scratch):
    name, config, _, values = tensors.read_golden(path)
    parameters = {n: v for n, v in values.items() if n.startswith(("bert.", "classifier."))}
    source = os.path.join(scratch, name)
    tensors.write_folder(source, config, parameters)
    cuts = values["cu_seqlens"]
    sequences = [(values["ids"][a:b], values["token_type_ids"][a:b]) for a, b in zip(cuts, cuts[1:])]
    session, digest = convert(build, source, source + "-onnx")
    (found,) = session.run(None, pad(sequences))
    apart = float(np.abs(found - values["logits"]).max())
    print(f"{name:24} outputs {[o.name for o in session.get_outputs()]}: {len(found)} sequences, "
          f"{apart:.1e} from PyTorch; {digest}")
    return apart <= LIMIT and np.isfinite(found).all()


def check_model(build, folder, features, count, scratch):
    with open(features, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    picked = [rows[i] for i in np.linspace(0, len(rows) - 1, min(count, len(rows))).round().astype(int)]
    sequences = [(row["input_ids"], row["token_type_ids"]) for row in picked]
    model = convert(build, folder, os.path.join(scratch, "model-onnx"))
    return report(os.path.basename(folder.rstrip("/")), model, runtime_logits(model[0], sequences),
                  berth_logits(build, folder, sequences))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--build", required=True)
    p.add_argument("--golden")
    p.add_argument("--model")
    p.add_argument("--features")
    p.add_argument("--count", type=int, default=100)
    a = p.parse_args()
    good = True
    print(f"onnx {onnx.__version__}, ONNX Runtime {onnxruntime.__version__}")
    with tempfile.TemporaryDirectory() as scratch:
        for path in sorted(glob.glob(os.path.join(a.golden, "tiny_*.safetensors")) if a.golden else []):
            good &= check_golden(a.build, path, scratch)
        for path in sorted(glob.glob(os.path.join(a.golden, "class_*.safetensors")) if a.golden else []):
            good &= check_class(a.build, path, scratch)
        if a.model:
            good &= check_model(a.build, a.model, a.features, a.count, scratch)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
