#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that TensorFlow and TensorBoard read what Berth writes (pip install tensorflow-cpu tensorboard):

    check_tensorflow.py BUILD_FOLDER

- checkpoints that Berth copied from TensorFlow's (every type of numbers, one tensor of 64 MB, 20,000 names)
  and from safetensors are opened with tf.train.load_checkpoint and tf.train.list_variables, compared value by
  value, and with TensorFlow's own files byte by byte;
- the scalars of a short training run are read by TensorBoard and compared with the run's JSON lines.

Prints what was compared; any difference is a failed assertion.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf
from tensorboard.backend.event_processing import event_accumulator

build = pathlib.Path(sys.argv[1])
root = pathlib.Path(__file__).resolve().parent.parent
work = pathlib.Path(tempfile.mkdtemp())
rng = np.random.default_rng(7)


def copy(source, prefix):
    subprocess.run([build / "tests/format/tensorflow_copy", source, prefix], check=True)


def save(prefix, tensors):
    names = sorted(tensors)  # the order of the data
    tf.raw_ops.SaveV2(prefix=str(prefix), tensor_names=names, shape_and_slices=[""] * len(names),
                      tensors=[tensors[n] for n in names])


def assert_reads_as(prefix, tensors):
    """TensorFlow reads the checkpoint and finds exactly these tensors, bit by bit."""
    reader = tf.train.load_checkpoint(str(prefix))
    listed = dict(tf.train.list_variables(str(prefix)))
    assert listed == {n: list(np.shape(t)) for n, t in tensors.items()}, prefix
    for name, tensor in tensors.items():
        expected = np.asarray(tensor.numpy() if tf.is_tensor(tensor) else tensor)
        found = np.asarray(reader.get_tensor(name))
        assert expected.dtype == found.dtype and expected.tobytes() == found.tobytes(), name


def assert_same_bytes(prefix, other):
    for ending in (".index", ".data-00000-of-00001"):
        ours, theirs = (pathlib.Path(str(p) + ending).read_bytes() for p in (prefix, other))
        assert ours == theirs, f"{prefix}{ending}"


def check_checkpoint(name, tensors):
    (work / name).mkdir()
    save(work / "theirs", tensors)
    prefix = work / name / "model.ckpt-7"
    copy(work / "theirs.index", prefix)
    assert_reads_as(prefix, tensors)
    assert_same_bytes(prefix, work / "theirs")
    assert tf.train.latest_checkpoint(str(work / name)) == str(prefix)
    print(f"{name}: {len(tensors)} tensors read by TensorFlow, all bits equal, both files the same bytes")


def check_checkpoints():
    types = (tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int64, tf.int32, tf.int16, tf.int8,
             tf.uint64, tf.uint32, tf.uint16, tf.uint8, tf.bool)
    tensors = {}
    for kind in types:
        for shape in ((), (0,), (7,), (3, 5), (2, 3, 4), (1, 1, 1, 1, 1, 1, 1, 2)):
            values = tf.constant(rng.integers(0, 2 if kind == tf.bool else 100, shape), tf.int64)
            tensors[f"{kind.name}/{len(shape)}/{'x'.join(map(str, shape))}"] = tf.cast(values, kind)
    check_checkpoint("types", tensors)
    check_checkpoint("large", {"a": tf.constant(rng.standard_normal((4096, 4096)).astype(np.float32)),
                               "b": tf.constant(1.0)})
    check_checkpoint("names", {f"scope_{i * 7919 % 20000}/layer/kernel": tf.constant(np.float32(i))
                               for i in range(20000)})
    name = root / "tests/golden/tiny_h20.safetensors"
    data = name.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__")
    kinds = {"F32": np.float32, "F64": np.float64, "I32": np.int32}
    tensors = {}
    for tensor, entry in header.items():
        begin, end = (8 + length + o for o in entry["data_offsets"])
        tensors[tensor] = np.frombuffer(data[begin:end], kinds[entry["dtype"]]).reshape(entry["shape"])
    copy(name, work / "golden")
    assert_reads_as(work / "golden", tensors)
    print(f"{name.name}: {len(tensors)} tensors read by TensorFlow, all bits equal")


# --- TensorBoard --------------------------------------------------------------------------------

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.?"


def make_run():
    """Trains a tiny model with --logging_dir; the JSON lines of the run."""
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary += [c for c in LETTERS] + ["##" + c for c in LETTERS]
    config = dict(model_type="bert", vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=2,
                  num_attention_heads=2, intermediate_size=64, max_position_embeddings=128)
    (work / "config.json").write_text(json.dumps(config))
    subprocess.run([build / "berth", "init", "--config", work / "config.json", "--output",
                    work / "model", "--quiet"], check=True)
    (work / "model/vocab.txt").write_text("\n".join(vocabulary) + "\n")
    context = "ada lived in oslo. hugo lived in riga."
    questions = [dict(id=str(i), question="where did ada live?",
                      answers=[dict(text="oslo", answer_start=13)]) for i in range(40)]
    (work / "data.json").write_text(json.dumps({"version": "1.1", "data": [
        {"title": "x", "paragraphs": [{"context": context, "qas": questions}]}]}))
    subprocess.run([build / "berth", "finetune", "squad", "--model", work / "model", "--train",
                    work / "data.json", "--dev", work / "data.json", "--output", work / "run",
                    "--logging_dir", work / "board", "--json_summary", work / "log.json", "--quiet",
                    "--max_seq_length", "96", "--doc_stride", "32", "--train_batch_size", "8",
                    "--max_steps", "10", "--logging_steps", "2", "--threads", "1",
                    "--wall_clock_breakdown"], check=True)
    return [json.loads(line) for line in (work / "log.json").read_text().splitlines()]


def check_scalars():
    records = make_run()
    board = event_accumulator.EventAccumulator(str(work / "board"))
    board.Reload()
    expected = {}
    rows = {"loss": "train_loss", "learning_rate": "lr", "grad_norm": "grad_norm",
            "samples_per_second": "samples_per_second", "tokens_per_second": "tokens_per_second",
            "forward_ms": "elapsed_time_ms_forward", "backward_ms": "elapsed_time_ms_backward",
            "step_ms": "elapsed_time_ms_step"}
    for record in records:
        if record["kind"] == "step":
            for key, tag in rows.items():
                expected.setdefault("Train/Samples/" + tag, []).append((8 * record["step"], record[key]))
            expected.setdefault("Train/Steps/lr", []).append((record["step"], record["learning_rate"]))
        if record["kind"] == "eval":
            for key in ("exact_match", "f1", "samples_per_second", "tokens_per_second"):
                expected.setdefault("Validation/" + key, []).append((8 * record["step"], record[key]))
    assert sorted(board.Tags()["scalars"]) == sorted(expected), board.Tags()
    count = 0
    for tag, points in expected.items():
        found = [(e.step, np.float32(e.value)) for e in board.Scalars(tag)]
        assert found == [(step, np.float32(value)) for step, value in points], (tag, found, points)
        count += len(points)
    print(f"TensorBoard read {count} scalars under {len(expected)} tags, equal to the JSON lines")


check_checkpoints()
check_scalars()
