# SPDX-License-Identifier: Apache-2.0
"""gguf-py reads the folder that `berth convert --to gguf` writes. Tensor names are those of gguf-py's own map for the
architecture "bert", numbers are equal (for f16: after rounding), tokens are the phantom-space form of vocab.txt.
Prints the hashes of the tiny models, which tests/model_io/test_export.c expects.
"""
import json
import os
import sys

import gguf
import numpy as np

import shared
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


def check(source, folder):
    problems = []
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    stored, _ = tensors.read_safetensors(source / "model.safetensors")
    path = folder / "model.gguf"
    reader = gguf.GGUFReader(path)
    check_values(reader, config, problems.append)
    widest = check_tensors(reader, stored, config["num_hidden_layers"], problems.append)
    if (source / "vocab.txt").exists():
        check_tokens(reader, source, config["vocab_size"], problems.append)
    elif "tokenizer.ggml.model" in reader.fields:
        problems.append("a tokenizer without a vocab.txt")
    print(f"{folder.name}: {len(reader.tensors)} tensors, {len(reader.fields)} fields, largest difference {widest:g}; "
          f"{tensors.sha256(path)}")
    if problems:
        sys.exit("\n".join(problems))


def model_of_yours(given):
    check(given.model, shared.convert(given, given.model, "gguf", "--allow_lossy", target=given.work / "model-gguf"))


def golden(given):
    for path in sorted((shared.ROOT / "tests/golden").glob("tiny_*.safetensors")):
        name, config, parameters, _ = tensors.read_golden(path)
        source = given.work / name
        tensors.write_folder(source, config, parameters)
        check(source, shared.convert(given, source, "gguf", "--allow_lossy"))
