#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests model folders that other programs leave: names of wrappers, other names of files, pickles of each protocol,
LoRA adapters (merged here, in doubles), a cache copied by hand. Each gives the bytes of the plain folder, or is
refused with what to type.

    foreign_files.py BERTH SOURCE_DIR
"""
import collections
import io
import json
import math
import os
import pickle
import shutil
import struct
import subprocess
import sys
import tempfile
import types
import zipfile

from expectations import expect, failures

BERTH, SOURCE = map(os.path.abspath, sys.argv[1:3])
sys.path.insert(0, os.path.join(SOURCE, "tests"))
import tensor_file  # noqa: E402

ENCODER = os.path.join(SOURCE, "tests/golden/encoder")
FILLER = os.path.join(SOURCE, "tests/golden/fill")
CACHE = {"HF_HUB_CACHE": "hub", "HF_HUB_OFFLINE": "1"}
os.chdir(tempfile.mkdtemp())


def berth(*words, text=""):
    return subprocess.run([BERTH, *words], input=text, capture_output=True, text=True, check=False,
                          env={**os.environ, **CACHE, "OMP_WAIT_POLICY": "passive"})


def vectors(folder):
    """What berth embed prints, or its message."""
    done = berth("embed", "--model", folder, "--threads", "1", "--precision", "fp32", "--quiet",
                 text="the cat sat\na longer text\n")
    return done.stdout if done.returncode == 0 else done.stderr


def equal(folder, what, base="encoder"):
    got = vectors(folder)
    expect(got == vectors(base), f"{what}: {got[:400]}")


def refused(folder, *parts):
    message = vectors(folder)
    for part in parts:
        expect("error" in message and part in message, f"{folder}: no {part!r} in {message[:600]!r}")


# --- files of weights ----------------------------------------------------------------------------

def read_tensors(path):
    """name -> (shape, numbers), all of type F32"""
    with open(path, "rb") as file:
        content = file.read()
    entries = tensor_file.entries(path)
    assert all(dtype == "F32" for dtype, _, _ in entries.values())
    return {name: (shape, struct.unpack(f"<{math.prod(shape)}f", content[place]))
            for name, (_, shape, place) in entries.items()}


def write_tensors(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (shape, numbers) in tensors.items():
        raw = struct.pack(f"<{len(numbers)}f", *numbers)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    head = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head + data)


# What torch.save pickles, as modules of these names.
def torch_modules():
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    storage = type("FloatStorage", (), {"__module__": "torch"})

    def _rebuild_tensor_v2(*_):
        raise AssertionError("only pickled")
    _rebuild_tensor_v2.__module__ = "torch._utils"
    _rebuild_tensor_v2.__qualname__ = "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2
    torch.FloatStorage = storage
    torch._utils = utils
    sys.modules.update({"torch": torch, "torch._utils": utils})
    return _rebuild_tensor_v2, storage


REBUILD, FLOATS = torch_modules()


class Storage:
    def __init__(self, key, numbers):
        self.key, self.numbers = key, numbers


class Tensor:
    def __init__(self, key, shape, numbers):
        self.storage, self.shape = Storage(key, numbers), tuple(shape)

    def __reduce__(self):
        strides = tuple(math.prod(self.shape[i + 1:]) for i in range(len(self.shape)))
        return REBUILD, (self.storage, 0, self.shape, strides, False, collections.OrderedDict())


class Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        return ("storage", FLOATS, obj.key, "cpu", len(obj.numbers)) if isinstance(obj, Storage) else None


def write_torch(path, tensors, protocol, legacy=False, wrap=lambda state: state):
    state = collections.OrderedDict((name, Tensor(str(i), shape, numbers))
                                    for i, (name, (shape, numbers)) in enumerate(tensors.items()))
    raw = [struct.pack(f"<{len(numbers)}f", *numbers) for _, numbers in tensors.values()]
    stream = io.BytesIO()
    if legacy:
        for value in (0x1950a86a20f9469cfc6c, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}):
            pickle.dump(value, stream, protocol)
        Pickler(stream, protocol).dump(wrap(state))
        pickle.dump([str(i) for i in range(len(raw))], stream, protocol)
        for numbers in raw:
            stream.write(struct.pack("<q", len(numbers) // 4) + numbers)
        with open(path, "wb") as file:
            file.write(stream.getvalue())
        return
    Pickler(stream, protocol).dump(wrap(state))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", stream.getvalue())
        archive.writestr("archive/version", "3\n")
        for i, numbers in enumerate(raw):
            archive.writestr(f"archive/data/{i}", numbers)


def folder_without_weights(name, source=ENCODER):
    shutil.rmtree(name, ignore_errors=True)
    shutil.copytree(source, name, ignore=shutil.ignore_patterns("*.safetensors"))
    return name


shutil.copytree(ENCODER, "encoder")
TENSORS = read_tensors("encoder/model.safetensors")
BARE = {name.removeprefix("bert."): value for name, value in TENSORS.items()}


def test_wrappers():
    wrapped = {
        "_forward_module.": lambda name: "_forward_module." + name,
        "module.module.": lambda name: "module.module." + name,
        "0.auto_model.": lambda name: "0.auto_model." + name.removeprefix("bert."),
        "0.model.": lambda name: "0.model." + name.removeprefix("bert."),
        "module.0.auto_model.": lambda name: "module.0.auto_model." + name.removeprefix("bert."),
        "layers": lambda name: name.replace(".attention.", "._checkpoint_wrapped_module.attention."),
        "all": lambda name: "_fsdp_wrapped_module." + name.replace(
            "encoder.layer.0.", "encoder.layer.0._fsdp_wrapped_module._checkpoint_wrapped_module._orig_mod."),
    }
    for what, rename in wrapped.items():
        write_tensors(folder_without_weights("wrapped") + "/model.safetensors",
                      {rename(name): value for name, value in TENSORS.items()})
        equal("wrapped", what)
    odd = {name.replace("layer.1.output.dense.weight", "layer.1._odd.output.dense.weight"): value
           for name, value in TENSORS.items()}
    write_tensors("wrapped/model.safetensors", odd)
    refused("wrapped", "missing tensor \"bert.encoder.layer.1.output.dense.weight\"",
            "layer.1._odd.output.dense.weight\": rename")


def test_files():
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        for legacy in (False, True):
            write_torch(folder_without_weights("pickled") + "/pytorch_model.bin", TENSORS, protocol, legacy)
            equal("pickled", f"protocol {protocol}, legacy {legacy}")
    for name in ("model.pt", "last.ckpt"):
        write_torch(folder_without_weights("named") + "/" + name, TENSORS, 2,
                    wrap=lambda state: {"epoch": 1, "state_dict": {"model." + name: state[name] for name in state}})
        equal("named", name)
    os.rename("named/last.ckpt", "named/epoch=3.ckpt")
    refused("named", "in \"epoch=3.ckpt\", name that file instead of the folder: named/epoch=3.ckpt")
    equal("named/epoch=3.ckpt", "the file itself")


# --- adapters ------------------------------------------------------------------------------------

def f32(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


def numbers_of(seed, count):
    state, numbers = seed, []
    for _ in range(count):
        state = (state * 1103515245 + 12345) % 2**31
        numbers.append(f32(state / 2**30 - 1))
    return numbers


def merge(tensors, name, first, second, factor):
    shape, numbers = tensors[name]
    rows, cols = shape
    rank = len(first) // cols
    merged = []
    for i in range(rows):
        for j in range(cols):
            total = 0.0
            for k in range(rank):
                total += second[i * rank + k] * first[k * cols + j]
            merged.append(f32(numbers[i * cols + j] + factor * total))
    tensors[name] = (shape, merged)


MATRICES = [name for name in TENSORS if name.endswith(".weight") and len(TENSORS[name][0]) == 2 and "encoder" in name]


def write_adapter(folder, config, names=MATRICES[::3], rank=3, more=None, prefix="base_model.model."):
    """Returns the two matrices of each name."""
    os.makedirs(folder, exist_ok=True)
    pairs, tensors = {}, {}
    for i, name in enumerate(names):
        rows, cols = TENSORS[name][0]
        own = rank if i % 2 == 0 else 1
        pairs[name] = (numbers_of(2 * i + 1, own * cols), numbers_of(2 * i + 2, rows * own))
        module = prefix + name.removeprefix("bert.").removesuffix(".weight")
        tensors[module + ".lora_A.weight"] = ((own, cols), pairs[name][0])
        tensors[module + ".lora_B.weight"] = ((rows, own), pairs[name][1])
    write_tensors(folder + "/adapter_model.safetensors", {**tensors, **(more or {})})
    with open(folder + "/adapter_config.json", "w", encoding="utf-8") as file:
        json.dump({"peft_type": "LORA", "r": rank, "lora_alpha": 2, "bias": "none", "init_lora_weights": True,
                   "use_dora": False, "target_modules": ["query"], **config}, file)
    return pairs


def expect_merged(folder, pairs, factor_of, what):
    tensors = dict(TENSORS)
    for name, (first, second) in pairs.items():
        merge(tensors, name, first, second, factor_of(name, len(first) // TENSORS[name][0][1]))
    write_tensors(folder_without_weights("merged") + "/model.safetensors", tensors)
    expect(vectors("merged") != vectors("encoder"), f"{what}: the adapter changes nothing")
    equal(folder, what, "merged")


def test_adapters():
    shutil.copytree("encoder", "adapted")
    pairs = write_adapter("adapted", {})
    expect_merged("adapted", pairs, lambda _, rank: 2 / rank, "beside its model")
    done = berth("convert", "adapted", "converted", "--to", "hf")
    expect(done.returncode == 0, f"convert: {done.stderr}")
    equal("converted", "converted", "merged")
    pairs = write_adapter("apart", {"base_model_name_or_path": "encoder", "use_rslora": True}, MATRICES)
    expect_merged("apart", pairs, lambda _, rank: 2 / math.sqrt(rank), "model named by its path")
    shutil.copytree("encoder", "hub/models--a--encoder/snapshots/" + "0" * 40)
    os.makedirs("hub/models--a--encoder/refs")
    with open("hub/models--a--encoder/refs/main", "w", encoding="utf-8") as file:
        file.write("0" * 40 + "\r\n")
    pairs = write_adapter("apart", {"base_model_name_or_path": "a/encoder"})
    expect_merged("apart", pairs, lambda _, rank: 2 / rank, "model named as in the cache")
    pairs = write_adapter("apart", {"base_model_name_or_path": "encoder", "alpha_pattern": {"dense": 5, "layer.0": 7}})
    expect_merged("apart", pairs, lambda name, rank: (5 if "dense" in name else 2) / rank, "alpha_pattern")
    norm = "encoder.layer.1.output.LayerNorm.weight"
    saved = (BARE[norm][0], numbers_of(99, len(BARE[norm][1])))
    write_adapter("apart", {"base_model_name_or_path": "encoder", "modules_to_save": ["LayerNorm"]}, [],
                  more={"base_model.model." + norm: saved})
    write_tensors(folder_without_weights("merged") + "/model.safetensors",
                  {name: saved if name.endswith(norm) else value for name, value in TENSORS.items()})
    equal("apart", "a saved module", "merged")


def test_refused_adapters():
    there = {"base_model_name_or_path": "encoder"}
    for key, value in (("use_dora", True), ("bias", "all"), ("peft_type", "LOHA"), ("init_lora_weights", "pissa"),
                       ("alpha_pattern", {"^query$": 1}), ("layer_replication", [[0, 1]])):
        write_adapter("refused", {**there, key: value})
        refused("refused", f"refused/adapter_config.json: key \"{key}\": expected", "merge_and_unload")
    small, prefix = ((1, 1), [1.0]), "base_model.model."
    query = prefix + "encoder.layer.0.attention.self.query"
    for name, part in (
            (prefix + "embeddings.word_embeddings.lora_embedding_A", "only \"lora_A\" and \"lora_B\""),
            (query + ".lora_magnitude_vector", "only \"lora_A\" and \"lora_B\""),
            (query + ".lora_A.weight", "do not fit the model's matrix"),
            (query + ".lora_B.weight", "its \"lora_A\" is missing"),
            (prefix + "encoder.layer.77.attention.self.query.lora_A.weight", "the model has no such linear layer"),
            ("query.weight", "expected a name that begins with \"base_model.model.\"")):
        write_adapter("refused", there, [], more={name: small})
        refused("refused", f"adapter_model.safetensors: tensor \"{name}\": ", part)
    write_adapter("refused", {"base_model_name_or_path": "none/such"})
    refused("refused", "refused")
    os.remove("refused/adapter_model.safetensors")
    shutil.copytree("encoder", "refused", dirs_exist_ok=True)
    refused("refused", "the adapter's weights are missing")


# --- the head for masked words --------------------------------------------------------------------

def fill(folder):
    done = berth("fill", "--model", folder, "--threads", "1", "--precision", "fp32", text="the [MASK] sat\n")
    expect(done.returncode == 0, f"fill {folder}: {done.stderr}")
    return done.stdout, done.stderr


def test_decoder_bias():
    tensors = read_tensors(FILLER + "/model.safetensors")
    bias = "cls.predictions.bias"
    shape, numbers = tensors[bias]
    tensors[bias] = (shape, [number + i for i, number in enumerate(numbers)])
    shutil.copytree(FILLER, "filler")
    write_tensors("filler/model.safetensors", tensors)
    tensors["cls.predictions.decoder.bias"] = tensors.pop(bias)
    write_tensors(folder_without_weights("tied", FILLER) + "/model.safetensors", tensors)
    answer, messages = fill("tied")
    expect(answer == fill("filler")[0], f"the decoder's bias is not the head's: {answer}")
    expect("warning" not in messages, messages)


def test_cache():
    expect(vectors("a/encoder") == vectors("encoder"), "a line end after the commit")
    os.remove("hub/models--a--encoder/refs/main")
    refused("a/encoder", "hub/models--a--encoder/refs/main: no such file", "write the snapshot's name (" + "0" * 40)


for test in (test_wrappers, test_files, test_adapters, test_refused_adapters, test_decoder_bias, test_cache):
    test()
shutil.rmtree(os.getcwd())
sys.exit(bool(failures))
