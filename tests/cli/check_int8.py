#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the numbers of an int8 folder, in plain Python.

check_int8.py WIDE.safetensors FOLDER        each I8 matrix and its scales are those of WIDE
check_int8.py --numbers FOLDER COPY          COPY's numbers are FOLDER's, multiplied by the safetensors library's reader;
                                             77 without numpy and that library
check_int8.py --cosine A.npy B.npy           the rows of both have a cosine of at least 0.999
check_int8.py --damage IN OUT                copies IN without one tensor of scales
check_int8.py --scale IN OUT                 copies IN with all scales doubled
"""
import array
import ast
import json
import pathlib
import re
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tensor_file


def read(path):
    """name -> (type, shape, numbers)"""
    data, codes = pathlib.Path(path).read_bytes(), {"F32": "f", "I8": "b"}
    return {name: (kind, shape, array.array(codes[kind], data[place]))
            for name, (kind, shape, place) in tensor_file.entries(path).items()}


GROUP = 64  # columns


def check_group(w, q, scale):
    most = max(map(abs, w))
    assert abs(scale - most / 127) <= 2e-5 * most / 127
    assert max(map(abs, q)) == (127 if most > 0 else 0)
    assert all(abs(x - scale * i) <= 0.50001 * scale for x, i in zip(w, q))


def check(wide_path, folder):
    wide, narrow = read(wide_path), read(folder + "/model.safetensors")
    with open(folder + "/config.json") as file:
        config = json.load(file)["quantization_config"]
    assert config["quant_method"] == "compressed-tensors" and config["format"] == "int-quantized"
    groups = config["config_groups"].values()
    assert all(group["format"] == "int-quantized" for group in groups)  # without it, tables are expected to be packed
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
        size = GROUP if shape[1] % GROUP == 0 else shape[1]
        assert scale_kind == "F32" and scale_shape == [shape[0], shape[1] // size], name
        for i, scale in enumerate(scales):
            part = slice(i * size, (i + 1) * size)
            check_group(w[part], q[part], scale)
        layer = name.removesuffix(".weight")
        strategies = [g["weights"] for g in groups if any(re.fullmatch(t[3:], layer) for t in g["targets"])]
        expected = ("group", GROUP) if size < shape[1] else ("channel", None)
        assert [(s["strategy"], s.get("group_size")) for s in strategies] == [expected], name
    assert count == 2 * 6 + 2, count  # with the tables of words and positions


def check_numbers(folder, copy):
    """What anyone computes from the documented layout, beside `convert --to hf`."""
    try:
        import numpy
        from safetensors.numpy import load_file
    except ImportError as problem:
        print("skipped:", problem)
        sys.exit(77)
    narrow, wide = load_file(folder + "/model.safetensors"), load_file(copy + "/model.safetensors")
    assert set(wide) == {name for name in narrow if not name.endswith("_scale")}
    count = 0
    for name, numbers in wide.items():
        own = narrow[name]
        if own.dtype == numpy.int8:
            scales = narrow[name + "_scale"]
            own = own.astype(numpy.float32) * numpy.repeat(scales, own.shape[1] // scales.shape[1], 1)
            count += 1
        assert own.dtype == numbers.dtype == numpy.float32 and numpy.array_equal(own, numbers), name
    print(count, "matrices equal")
    assert count == 2 * 6 + 2, count  # with the tables of words and positions


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
    assert len(cosines) == 30 and min(cosines) >= 0.999


def damage(source, target):
    name = next(name for name in tensor_file.entries(source) if name.endswith("query.weight_scale")).encode()
    data = pathlib.Path(source).read_bytes()
    pathlib.Path(target).write_bytes(data.replace(name, name[:-1] + b"x", 1))  # the same length, another name


def scale(source, target):
    data = bytearray(pathlib.Path(source).read_bytes())
    for name, (_, _, place) in tensor_file.entries(source).items():
        if name.endswith("_scale"):
            data[place] = array.array("f", [2 * x for x in array.array("f", data[place])]).tobytes()
    pathlib.Path(target).write_bytes(data)


if sys.argv[1] == "--cosine":
    cosine(*sys.argv[2:])
elif sys.argv[1] == "--numbers":
    check_numbers(*sys.argv[2:])
elif sys.argv[1] == "--damage":
    damage(*sys.argv[2:])
elif sys.argv[1] == "--scale":
    scale(*sys.argv[2:])
else:
    check(*sys.argv[1:])
