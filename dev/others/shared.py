# SPDX-License-Identifier: Apache-2.0
"""What the rows of the table share: the programs of a build, safetensors files without any package, tiny models."""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def outputs(program, *words):
    """Standard output and the messages; ends the row where the program fails."""
    done = subprocess.run([program, *map(str, words)], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        sys.exit(f"{pathlib.Path(program).name} {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout, done.stderr


def run(program, *words):
    return outputs(program, *words)[0]


def berth(given, *words):
    return run(given.build / "berth", *words)


def convert(given, source, kind, *options, target=None):
    """The folder of the converted model, by default one beside it."""
    target = target or source.with_name(f"{source.name}-{kind}")
    berth(given, "convert", source, target, "--to", kind, "--quiet", *options)
    return target


def read_safetensors(path):
    """Type, shape and raw bytes of every tensor, in the order of the data."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], data[start + entry["data_offsets"][0]:start + entry["data_offsets"][1]])
            for name, entry in sorted(header.items(), key=lambda item: (item[1]["data_offsets"], item[0]))}


def torch_tensor(stored):
    """One of those as a tensor of torch."""
    import torch
    kinds = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
             "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
             "U8": torch.uint8, "BOOL": torch.bool}
    kind, shape, data = stored
    empty = torch.empty(shape, dtype=kinds[kind])
    return torch.frombuffer(bytearray(data), dtype=kinds[kind]).reshape(shape) if data else empty
