# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime computes the logits of Berth from the graph that `berth convert --to onnx` writes.

Each model passes onnx's checker (with shape inference) and ONNX Runtime, in batches padded to their longest sequence, so
that the mask matters; the logits of the test program dump_logits may differ by 1e-4. The tiny models are also compared
with PyTorch's float64 logits, and without their head, which is then applied to last_hidden_state here; the classifiers
with PyTorch only. Prints their hashes, which tests/model_io/test_export.c expects.
"""
import json
import subprocess

import numpy as np
import onnx
import onnxruntime

import shared
import tensors

LIMIT = 1e-4
BATCH = 8
COUNT = 100  # of the features


def convert(given, source, target):
    path = shared.convert(given, source, "onnx", "--allow_lossy", target=target) / "model.onnx"
    onnx.checker.check_model(path, full_check=True)
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]), tensors.sha256(path)


def berth_logits(given, folder, sequences):
    feed = b"".join(np.int32(len(ids)).tobytes() + np.array(ids, np.int32).tobytes() +
                    np.array(types, np.int32).tobytes() for ids, types in sequences)
    out = subprocess.run([given.build / "tests/model/dump_logits", folder], input=feed,
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


def compare(name, model, found, ours, theirs=None):
    """ours or theirs may be missing; only those of Berth, which computes in the graph's precision, have the limit if both
    are there."""
    session, digest = model
    apart = {who: float(np.abs(found - logits).max())
             for who, logits in (("Berth", ours), ("PyTorch", theirs)) if logits is not None}
    print(f"{name:24} outputs {[output.name for output in session.get_outputs()]}: "
          + ", ".join(f"{much:.1e} from {who}" for who, much in apart.items()) + f"; {digest}")
    assert next(iter(apart.values())) <= LIMIT and np.isfinite(found).all(), (name, apart)


def sequences_of(values):
    cuts = values["cu_seqlens"]
    return [(values["ids"][a:b], values["token_type_ids"][a:b]) for a, b in zip(cuts, cuts[1:])]


def golden(given):
    folder = shared.ROOT / "tests/golden"
    for path in sorted(folder.glob("tiny_*.safetensors")):
        compare_golden(given, *tensors.read_golden(path))
    for path in sorted(folder.glob("class_*.safetensors")):
        name, config, _, values = tensors.read_golden(path)
        source = given.work / name
        tensors.write_folder(source, config, {n: v for n, v in values.items() if n.startswith(("bert.", "classifier."))})
        model = convert(given, source, given.work / f"{name}-onnx")
        (found,) = model[0].run(None, pad(sequences_of(values)))
        compare(name, model, found, None, values["logits"])


def compare_golden(given, name, config, parameters, values):
    source, bare = given.work / name, given.work / f"{name}-bare"
    tensors.write_folder(source, config, parameters)
    sequences = sequences_of(values)
    ours = berth_logits(given, source, sequences)
    model = convert(given, source, given.work / f"{name}-onnx")
    compare(name, model, runtime_logits(model[0], sequences), ours, values["logits"])
    tensors.write_folder(bare, config, {n: v for n, v in parameters.items() if n.startswith("bert.")})
    model = convert(given, bare, given.work / f"{name}-bare-onnx")
    head = parameters["qa_outputs.weight"], parameters["qa_outputs.bias"]
    compare(name + " (no head)", model, runtime_logits(model[0], sequences, head), ours)


def model_of_yours(given):
    with open(given.features, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    picked = [rows[i] for i in np.linspace(0, len(rows) - 1, min(COUNT, len(rows))).round().astype(int)]
    sequences = [(row["input_ids"], row["token_type_ids"]) for row in picked]
    model = convert(given, given.model, given.work / "model-onnx")
    compare(given.model.name, model, runtime_logits(model[0], sequences), berth_logits(given, given.model, sequences))
