# SPDX-License-Identifier: Apache-2.0
"""torch loads what Berth writes, with its restricted unpickler. Before torch 2 this does not accept floats, so the file is
loaded without it; small archives with the fields of large ones are refused there, so that form is left out.
"""
import inspect
import sys
import zipfile

import torch

import shared

OTHERS = {"step": 5, "large": -(1 << 40), "rate": 0.1, "truth": True, "none": None,
          "text": "\u00e9t\u00e9", "shapes": {"weight": torch.Size([2, 3])}, "list": []}


def check(path, expected, strict):
    if zipfile.ZipFile(path).testzip() is not None:
        sys.exit(f"{path}: zipfile finds a damaged entry")
    found = torch.load(path, weights_only=strict)
    model = found.pop("model")
    if found != OTHERS or [type(v) for v in found.values()] != [type(v) for v in OTHERS.values()]:
        sys.exit(f"{path}: {found} is not {OTHERS}")
    if list(model) != list(expected):
        sys.exit(f"{path}: other tensors, or in another order")
    for name, stored in expected.items():
        tensor = shared.torch_tensor(stored)
        same = model[name].dtype == tensor.dtype and model[name].shape == tensor.shape
        if not same or not model[name].is_contiguous() or not torch.equal(model[name], tensor):
            sys.exit(f"{path}: {name} differs")
    can_map = "mmap" in inspect.signature(torch.load).parameters  # since 2.1
    mapped = torch.load(path, weights_only=True, mmap=True)["model"] if can_map else model
    if any(not torch.equal(mapped[name], model[name]) for name in expected):
        sys.exit(f"{path}: differs when it is mapped into memory")


def written(given):
    source = given.build / "tests/format/data/trainer.safetensors"
    expected = shared.read_safetensors(source)
    strict = int(torch.__version__.split(".")[0]) >= 2
    output = given.work / "checkpoint.pt"
    shared.run(given.build / "tests/format/write_torch", source, output)
    for path in (output, output.with_name("checkpoint.pt.zip64")) if strict else (output,):
        check(path, expected, strict)
