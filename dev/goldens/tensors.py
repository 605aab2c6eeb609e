# SPDX-License-Identifier: Apache-2.0
"""safetensors and model folders with numpy alone, for checks that do without PyTorch."""
import hashlib
import json
import os
import struct

import numpy as np

TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
         "U8": "u1", "BOOL": "?"}


def to_array(raw, dtype, shape):
    if dtype == "BF16":  # the upper half of a float32
        wide = np.frombuffer(raw, "<u2").astype("<u4") << 16
        return wide.view("<f4").reshape(shape)
    return np.frombuffer(raw, TYPES[dtype]).reshape(shape)


def read_safetensors(path):
    """All tensors by name, and the metadata."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    body = memoryview(data)[8 + length:]
    return {name: to_array(body[slice(*entry["data_offsets"])], entry["dtype"], entry["shape"])
            for name, entry in header.items()}, metadata


def write_safetensors(path, arrays, metadata):
    """float32 arrays, in the order of their names."""
    header, begin = {"__metadata__": metadata}, 0
    for name, array in sorted(arrays.items()):
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [begin, begin + array.nbytes]}
        begin += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, array in sorted(arrays.items()):
            file.write(np.ascontiguousarray(array, "<f4").tobytes())


def write_folder(folder, config, parameters):
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        file.write(config)
    write_safetensors(os.path.join(folder, "model.safetensors"), parameters, {"format": "pt"})


def read_golden(path):
    """A tiny model of tests/golden: name, config.json, parameters, everything in the file."""
    values, metadata = read_safetensors(path)
    parameters = {n: v for n, v in values.items() if n.startswith(("bert.", "qa_outputs."))}
    return os.path.splitext(os.path.basename(path))[0], metadata["config"], parameters, values


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
