#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that torch loads what Berth writes: torch.load(weights_only=True), every value compared. Before
torch 2 the restricted unpickler does not accept floats, so the file is loaded without it; small archives with
the fields of large ones are refused there, so that form is left out.

    dev/check_torch.py BUILD_FOLDER/tests/format/write_torch

Exits 77 (skipped) without torch. CTest runs it with the Python of the environment variable BERTH_PYTHON.
"""
import inspect
import json
import pathlib
import subprocess
import sys
import tempfile
import zipfile

from check_conversions import read_safetensors, state_of

try:
    import torch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

is_strict = int(torch.__version__.split(".")[0]) >= 2
expected_path = pathlib.Path(__file__).resolve().parent.parent / "tests/format/data/trainer.safetensors"
stored = read_safetensors(expected_path)
expected = {name: state_of(stored, name) for name in stored}
others = {"step": 5, "large": -(1 << 40), "rate": 0.1, "truth": True, "none": None,
          "text": "\u00e9t\u00e9", "shapes": {"weight": torch.Size([2, 3])}, "list": []}


def check(path):
    if zipfile.ZipFile(path).testzip() is not None:
        sys.exit(f"{path}: zipfile finds a damaged entry")
    found = torch.load(path, weights_only=is_strict)
    model = found.pop("model")
    if found != others or [type(v) for v in found.values()] != [type(v) for v in others.values()]:
        sys.exit(f"{path}: {found} is not {others}")
    if list(model) != list(written):
        sys.exit(f"{path}: other tensors, or in another order")
    for name, tensor in expected.items():
        same = model[name].dtype == tensor.dtype and model[name].shape == tensor.shape
        if not same or not model[name].is_contiguous() or not torch.equal(model[name], tensor):
            sys.exit(f"{path}: {name} differs")
    can_map = "mmap" in inspect.signature(torch.load).parameters  # since 2.1
    mapped = torch.load(path, weights_only=True, mmap=True)["model"] if can_map else model
    if any(not torch.equal(mapped[name], tensor) for name, tensor in expected.items()):
        sys.exit(f"{path}: differs when it is mapped into memory")
    print(f"{path.name}: {len(model)} tensors and {len(others)} other values, as written")


with tempfile.TemporaryDirectory() as folder:
    output = pathlib.Path(folder) / "checkpoint.pt"
    subprocess.run([sys.argv[1], expected_path, output], check=True)
    header = expected_path.read_bytes()
    order = json.loads(header[8:8 + int.from_bytes(header[:8], "little")])
    order.pop("__metadata__", None)
    written = sorted(order, key=lambda name: order[name]["data_offsets"] + [name])
    check(output)
    if is_strict:
        check(output.with_name("checkpoint.pt.zip64"))
print(f"torch {torch.__version__} takes {'both' if is_strict else 'the plain form'}")
