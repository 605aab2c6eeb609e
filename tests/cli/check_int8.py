#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the numbers of an int8 folder with numpy and the json module only.

check_int8.py WIDE.safetensors FOLDER        each I8 matrix and its scales are those of WIDE
check_int8.py --cosine A.npy B.npy           the rows of both have a cosine of at least 0.999
check_int8.py --damage IN OUT                copies IN without one tensor of scales
"""
import json
import struct
import sys

import numpy as np


def read(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        data = file.read()
    types = {"F32": "<f4", "I8": "i1"}
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data[t["data_offsets"][0]:t["data_offsets"][1]],
                                types[t["dtype"]]).reshape(t["shape"]) for name, t in header.items()}


def check(wide_path, folder):
    wide, narrow = read(wide_path), read(folder + "/model.safetensors")
    config = json.load(open(folder + "/config.json"))["quantization_config"]
    assert config["quant_method"] == "compressed-tensors" and config["format"] == "int-quantized"
    matrices = [name for name in narrow if narrow[name].dtype == np.int8]
    assert len(matrices) == 2 * 6 + 1, matrices
    assert set(wide) == {name for name in narrow if not name.endswith("_scale")}
    for name in wide:
        if name not in matrices:
            assert (wide[name] == narrow[name]).all(), name
            continue
        w, q, scale = wide[name].astype(np.float64), narrow[name], narrow[name + "_scale"].astype(np.float64)
        assert scale.shape == (len(w), 1)
        assert np.allclose(scale[:, 0], abs(w).max(1) / 127, rtol=2e-5, atol=0), name
        assert (abs(q.astype(int)).max(1) == np.where(scale[:, 0] > 0, 127, 0)).all(), name
        safe = np.where(scale > 0, scale, 1)
        assert (q == np.rint((w / safe).astype(np.float32))).all(), name
    print(len(matrices), "matrices")


def cosine(a_path, b_path):
    a, b = np.load(a_path).astype(np.float64), np.load(b_path).astype(np.float64)
    cosines = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    print(f"{len(cosines)} rows: least {cosines.min():.6f}, mean {cosines.mean():.6f}")
    assert cosines.mean() >= 0.999


def damage(source, target):
    with open(source, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header, data = file.read(size), file.read()
    name = next(name for name in json.loads(header) if name.endswith("query.weight_scale"))
    with open(target, "wb") as file:  # the same length, another name
        file.write(struct.pack("<Q", size) + header.replace(name.encode(), name[:-1].encode() + b"x") + data)


if sys.argv[1] == "--cosine":
    cosine(*sys.argv[2:])
elif sys.argv[1] == "--damage":
    damage(*sys.argv[2:])
else:
    check(*sys.argv[1:])
