# SPDX-License-Identifier: Apache-2.0
"""Safetensors files without any package. As a program it replaces one number of an F32 tensor:

    tensor_file.py FILE TENSOR NUMBER [INDEX]        (default 0)
"""
import json
import struct
import sys


def entries(path) -> dict:
    """name -> (type, shape, slice of the file's bytes)"""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], slice(*(8 + size + offset for offset in entry["data_offsets"])))
            for name, entry in header.items()}


def set_number(path, name: str, number: float, index: int = 0):
    begin = entries(path)[name][2].start
    with open(path, "r+b") as file:
        file.seek(begin + 4 * index)
        file.write(struct.pack("<f", number))


if __name__ == "__main__":
    set_number(sys.argv[1], sys.argv[2], float(sys.argv[3]), *map(int, sys.argv[4:]))
