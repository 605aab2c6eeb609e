#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the numbers of an int8 folder, in plain Python.

check_int8.py WIDE.safetensors FOLDER        each I8 matrix and its scales are those of WIDE
check_int8.py --cosine A.npy B.npy           the rows of both have a cosine of at least 0.999
check_int8.py --damage IN OUT                copies IN without one tensor of scales
"""
import array
import ast
import json
import struct
import sys


def read(path):
    """name -> (type, shape, numbers)"""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        data = file.read()
    header.pop("__metadata__", None)
    codes = {"F32": "f", "I8": "b"}
    return {name: (t["dtype"], t["shape"], array.array(codes[t["dtype"]], data[slice(*t["data_offsets"])]))
            for name, t in header.items()}


def check_row(w, q, scale):
    most = max(map(abs, w))
    assert abs(scale - most / 127) <= 2e-5 * most / 127
    assert max(map(abs, q)) == (127 if most > 0 else 0)
    assert all(abs(x - scale * i) <= 0.50001 * scale for x, i in zip(w, q))


def check(wide_path, folder):
    wide, narrow = read(wide_path), read(folder + "/model.safetensors")
    with open(folder + "/config.json") as file:
        config = json.load(file)["quantization_config"]
    assert config["quant_method"] == "compressed-tensors" and config["format"] == "int-quantized"
    assert set(wide) == {name for name in narrow if not name.endswith("_scale")}
    count = 0
    for name, (_, shape, w) in wide.items():
        kind, own_shape, q = narrow[name]
        assert shape == own_shape, name
        if kind == "F32":
            assert w == q, name
            continue
        count += 1
        scale_kind, scale_shape, scales = narrow[name + "_scale"]
        assert scale_kind == "F32" and scale_shape == [shape[0], 1], name
        for row, scale in enumerate(scales):
            part = slice(row * shape[1], (row + 1) * shape[1])
            check_row(w[part], q[part], scale)
    assert count == 2 * 6, count


def rows_of(path):
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<H", data[8:10])[0]
    shape = ast.literal_eval(data[10:10 + size].decode())["shape"]
    numbers = array.array("f", data[10 + size:])
    return [numbers[i * shape[1]:(i + 1) * shape[1]] for i in range(shape[0])]


def cosine(a_path, b_path):
    def dot(x, y):
        return sum(i * j for i, j in zip(x, y))
    cosines = [dot(x, y) / (dot(x, x) * dot(y, y)) ** 0.5 for x, y in zip(rows_of(a_path), rows_of(b_path))]
    print(f"{len(cosines)} rows: least {min(cosines):.6f}, mean {sum(cosines) / len(cosines):.6f}")
    assert len(cosines) == 30 and sum(cosines) / len(cosines) >= 0.999


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
