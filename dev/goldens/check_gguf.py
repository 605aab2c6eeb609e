#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a GGUF folder written by `berth convert --to gguf` with gguf-py and compares it with its source.

Tensor names must be those of gguf-py's own map for the architecture "bert", numbers must be equal (for f16:
equal after rounding), tokens must be the phantom-space form of vocab.txt. --golden: converts the tiny models
of tests/golden with BUILD/berth and checks them; the hashes are those that tests/model_io/test_export.c
expects. Exits 1 and prints the differences. Needs: gguf, numpy.

    check_gguf.py SOURCE_FOLDER GGUF_FOLDER
    check_gguf.py --build build/release --golden tests/golden
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

import gguf
import numpy as np

import tensors


def field(reader, key):
    return reader.fields[key].contents()


def check_values(reader, config, say):
    expected = {
        "general.architecture": "bert",
        "bert.context_length": config["max_position_embeddings"],
        "bert.embedding_length": config["hidden_size"],
        "bert.block_count": config["num_hidden_layers"],
        "bert.feed_forward_length": config["intermediate_size"],
        "bert.attention.head_count": config["num_attention_heads"],
        "bert.attention.layer_norm_epsilon": float(np.float32(config["layer_norm_eps"])),
        "bert.attention.causal": False,
        "tokenizer.ggml.token_type_count": config["type_vocab_size"],
    }
    for key, value in expected.items():
        found = field(reader, key)
        if found != value:
            say(f"{key}: expected {value!r}, found {found!r}")


def check_tensors(reader, source, layers, say):
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, layers)
    found = {t.name: t for t in reader.tensors}
    widest = 0.0
    for name, array in source.items():
        bare = name.removeprefix("bert.")
        if bare.startswith(("pooler.", "cls.", "qa_outputs.", "classifier.")) or bare.endswith("position_ids"):
            continue
        base, end = bare.rsplit(".", 1)
        theirs = f"{names.get_name(base)}.{end}"
        tensor = found.pop(theirs, None)
        if tensor is None:
            say(f"{name}: no tensor {theirs}")
            continue
        if list(tensor.shape) != list(reversed(array.shape)):
            say(f"{name}: shape {list(array.shape)}, found {list(tensor.shape)}")
            continue
        expected = array.astype(tensor.data.dtype)
        if not np.array_equal(expected, tensor.data):
            say(f"{name}: numbers differ")
        widest = max(widest, float(np.abs(tensor.data.astype(np.float32) - array).max()))
    for name in found:
        say(f"{name}: not in the source")
    return widest


def check_tokens(reader, folder, size, say):
    specials = {"[CLS]", "[SEP]", "[UNK]", "[PAD]", "[MASK]"}
    with open(os.path.join(folder, "vocab.txt"), encoding="utf-8", newline="\n") as file:
        tokens = [line.rstrip("\n") for line in file]
    expected = [t if t in specials else t[2:] if t.startswith("##") else "\u2581" + t for t in tokens]
    expected += [f"\u2581[PAD{i}]" for i in range(len(tokens), size)]
    types = [3 if t in specials else 1 for t in tokens] + [5] * (size - len(tokens))
    if field(reader, "tokenizer.ggml.model") != "bert":
        say("tokenizer.ggml.model is not bert")
    if field(reader, "tokenizer.ggml.tokens") != expected:
        say("tokenizer.ggml.tokens differs from vocab.txt")
    if field(reader, "tokenizer.ggml.token_type") != types:
        say("tokenizer.ggml.token_type is not as expected")
    for key, token in ((gguf.Keys.Tokenizer.BOS_ID, "[CLS]"), (gguf.Keys.Tokenizer.SEP_ID, "[SEP]"),
                       (gguf.Keys.Tokenizer.UNK_ID, "[UNK]"), (gguf.Keys.Tokenizer.PAD_ID, "[PAD]"),
                       (gguf.Keys.Tokenizer.MASK_ID, "[MASK]")):
        if token in tokens and field(reader, key) != tokens.index(token):
            say(f"{key} is not {token}")


def check(source_folder, folder):
    problems = []
    with open(os.path.join(source_folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    source, _ = tensors.read_safetensors(os.path.join(source_folder, "model.safetensors"))
    path = os.path.join(folder, "model.gguf")
    reader = gguf.GGUFReader(path)
    check_values(reader, config, problems.append)
    widest = check_tensors(reader, source, config["num_hidden_layers"], problems.append)
    if os.path.exists(os.path.join(source_folder, "vocab.txt")):
        check_tokens(reader, source_folder, config["vocab_size"], problems.append)
    elif "tokenizer.ggml.model" in reader.fields:
        problems.append("a tokenizer without a vocab.txt")
    for problem in problems:
        print(f"check_gguf: {problem}", file=sys.stderr)
    print(f"{os.path.basename(folder)}: {len(reader.tensors)} tensors, {len(reader.fields)} fields read by gguf-py; "
          f"largest difference from the source {widest:g}; {len(problems)} problems; {tensors.sha256(path)}")
    return not problems


def check_golden(build, path, scratch):
    name, config, parameters, _ = tensors.read_golden(path)
    source = os.path.join(scratch, name)
    tensors.write_folder(source, config, parameters)
    subprocess.run([os.path.join(build, "berth"), "convert", source, source + "-gguf", "--to", "gguf", "--allow_lossy",
                    "--quiet"], check=True, stderr=subprocess.DEVNULL)
    return check(source, source + "-gguf")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("source", nargs="?")
    p.add_argument("folder", nargs="?")
    p.add_argument("--build")
    p.add_argument("--golden")
    a = p.parse_args()
    good = check(a.source, a.folder) if a.folder else True
    with tempfile.TemporaryDirectory() as scratch:
        for path in sorted(glob.glob(os.path.join(a.golden, "tiny_*.safetensors")) if a.golden else []):
            good &= check_golden(a.build, path, scratch)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
