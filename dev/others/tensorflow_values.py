# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that Berth copied from TensorFlow's (every type of numbers, one tensor of 64 MB, 20,000 names) and from
safetensors are opened with tf.train.load_checkpoint and tf.train.list_variables, and compared value by value and, with
TensorFlow's own files, byte by byte.
"""
import pathlib

import numpy as np
import tensorflow as tf

import shared


def copy(given, source, prefix):
    shared.run(given.build / "tests/format/tensorflow_copy", source, prefix)


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


def check_checkpoint(given, name, tensors):
    work = given.work
    (work / name).mkdir()
    save(work / "theirs", tensors)
    prefix = work / name / "model.ckpt-7"
    copy(given, work / "theirs.index", prefix)
    assert_reads_as(prefix, tensors)
    assert_same_bytes(prefix, work / "theirs")
    assert tf.train.latest_checkpoint(str(work / name)) == str(prefix)


def checkpoints(given):
    rng = np.random.default_rng(7)
    types = (tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int64, tf.int32, tf.int16, tf.int8,
             tf.uint64, tf.uint32, tf.uint16, tf.uint8, tf.bool)
    tensors = {}
    for kind in types:
        for shape in ((), (0,), (7,), (3, 5), (2, 3, 4), (1, 1, 1, 1, 1, 1, 1, 2)):
            values = tf.constant(rng.integers(0, 2 if kind == tf.bool else 100, shape), tf.int64)
            tensors[f"{kind.name}/{len(shape)}/{'x'.join(map(str, shape))}"] = tf.cast(values, kind)
    check_checkpoint(given, "types", tensors)
    check_checkpoint(given, "large", {"a": tf.constant(rng.standard_normal((4096, 4096)).astype(np.float32)),
                               "b": tf.constant(1.0)})
    check_checkpoint(given, "names", {f"scope_{i * 7919 % 20000}/layer/kernel": tf.constant(np.float32(i))
                               for i in range(20000)})
    source = shared.ROOT / "tests/golden/tiny_h20.safetensors"
    copy(given, source, given.work / "golden")
    kinds = {"F32": np.float32, "F64": np.float64, "I32": np.int32}
    assert_reads_as(given.work / "golden", {name: np.frombuffer(data, kinds[kind]).reshape(shape)
                                            for name, (kind, shape, data) in shared.read_safetensors(source).items()})
