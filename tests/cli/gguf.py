#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests GGUF files of RoBERTa's architectures: read by the specification of the format, they have the tensors of
model.safetensors under llama.cpp's names, without the positions that no text has, and the tokenizer of tokenizer.json. What
llama.cpp's tokenizers do not do is refused or noted. dev/others lets llama.cpp itself read them.

    gguf.py BERTH SOURCE_DIR
"""
import base64
import copy
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

from expectations import expect, failures

BERTH, SOURCE = map(os.path.abspath, sys.argv[1:3])
sys.path.insert(0, os.path.join(SOURCE, "tests"))
import tensor_file  # noqa: E402

os.chdir(tempfile.mkdtemp())
TEXT = "the quick brown fox jumped over the lazy dog .\nIs Paris in France , a good film ?\n" * 30
MARK = "\u2581"


def berth(*words):
    return subprocess.run([BERTH, *words], capture_output=True, text=True, check=False,
                          env={**os.environ, "OMP_WAIT_POLICY": "passive"})


def must(*words):
    done = berth(*words)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return done


# --- the format -----------------------------------------------------------------------------------

NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class Reader:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        self.at = 0
        assert self.number("I") == 0x46554747 and self.number("I") == 3
        tensors, values = self.number("Q"), self.number("Q")
        self.values = {}
        for _ in range(values):
            key = self.text()
            self.values[key] = self.value(self.number("I"))
        infos = []
        for _ in range(tensors):
            name, rank = self.text(), self.number("I")
            infos.append((name, [self.number("Q") for _ in range(rank)], self.number("I"), self.number("Q")))
        start = (self.at + 31) // 32 * 32
        self.tensors = {}
        for name, shape, kind, offset in infos:
            assert kind == 0, f"{name} is no F32"
            count = 1
            for size in shape:
                count *= size
            self.tensors[name] = (shape[::-1], self.bytes[start + offset:start + offset + 4 * count])

    def number(self, form):
        value, = struct.unpack_from("<" + form, self.bytes, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def text(self):
        size = self.number("Q")
        self.at += size
        return self.bytes[self.at - size:self.at].decode()

    def value(self, kind):
        if kind == 9:
            inner, count = self.number("I"), self.number("Q")
            return [self.value(inner) for _ in range(count)]
        return self.text() if kind == 8 else self.number(NUMBERS[kind])


# --- models ---------------------------------------------------------------------------------------

SIZES = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=40, max_position_embeddings=34,
             type_vocab_size=1, pad_token_id=1, hidden_act="gelu", layer_norm_eps=1e-5)
NAMES = {"embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
         "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm"}
LAYER = {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
         "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
         "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}
NAMES.update({f"encoder.layer.{i}.{ours}": f"blk.{i}.{theirs}" for i in range(2) for ours, theirs in LAYER.items()})

with open("text.txt", "w", encoding="utf-8") as text:
    text.write(TEXT)
WHOLE = {}
for tokenizer in ("bpe", "unigram"):
    must("vocab", "--text", "text.txt", "--model_type", tokenizer, "--cased", "--size", "300", "--min_frequency", "2",
         "--output", tokenizer + ".json", "--quiet")
    with open(tokenizer + ".json", encoding="utf-8") as file:
        WHOLE[tokenizer] = json.load(file)


def words_of(whole):
    words = whole["model"]["vocab"]
    return sorted(words, key=words.get) if isinstance(words, dict) else [word for word, _ in words]


def make(kind, whole, extra=0, **more):
    """A folder with random weights and the tokenizer; `extra` rows of the word table have no word."""
    shutil.rmtree("model", ignore_errors=True)
    count = max(len(words_of(whole)), *(token["id"] + 1 for token in whole["added_tokens"])) + extra
    with open("config.json", "w", encoding="utf-8") as out:
        json.dump({"model_type": kind, "vocab_size": count, **SIZES, **more}, out)
    must("init", "--config", "config.json", "--output", "model", "--seed", "3", "--quiet")
    with open("model/tokenizer.json", "w", encoding="utf-8") as out:
        json.dump(whole, out)
    return count


def convert():
    shutil.rmtree("gguf", ignore_errors=True)
    return berth("convert", "model", "gguf", "--to", "gguf", "--allow_lossy")


def changed(tokenizer, change):
    whole = copy.deepcopy(WHOLE[tokenizer])
    change(whole)
    return whole


# --- what is written ------------------------------------------------------------------------------

def check_tensors(reader, prefix, first, what):
    with open("model/model.safetensors", "rb") as file:
        data = file.read()
    found = dict(reader.tensors)
    for name, (_, shape, place) in tensor_file.entries("model/model.safetensors").items():
        bare = name.removeprefix(prefix)
        ours, _, end = bare.rpartition(".")
        if ours not in NAMES:
            continue
        begin = first if "position" in name else 0
        wanted = ([shape[0] - begin, *shape[1:]], data[place][4 * begin * shape[-1]:])
        expect(found.pop(f"{NAMES[ours]}.{end}", None) == wanted, f"{what}: {name}")
    expect(not found, f"{what}: also {list(found)}")


def check_values(reader, expected, what):
    for key, value in expected.items():
        found = reader.values.get(key)
        expect(found == value, f"{what}: {key}: expected {str(value)[:200]}, found {str(found)[:200]}")


def floats(values):
    return list(struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}f", *values)))


def types_of(whole, count, unknown):
    types = [1] * len(words_of(whole)) + [5] * (count - len(words_of(whole)))
    for token in whole["added_tokens"]:
        types[token["id"]] = 3 if token["special"] else 4
    if unknown is not None:
        types[unknown] = 2
    return types


def check(kind, tokenizer, whole, extra, notes, **values):
    count = make(kind, whole, extra)
    done = convert()
    what = f"{kind}, {tokenizer}"
    expect(done.returncode == 0, f"{what}: {done.stderr}")
    notes = ["leaves out 2 tensors: qa_outputs.bias", *notes]
    expect(done.stderr.count("warning") == len(notes) and all(note in done.stderr for note in notes), f"{what}: {done.stderr}")
    reader = Reader("gguf/model.gguf")
    prefix, first = ("bert.", 0) if kind == "bert" else ("roberta.", 2)
    check_tensors(reader, prefix, first, what)
    words = words_of(whole) + [""] * (count - len(words_of(whole)))
    for token in whole["added_tokens"]:
        words[token["id"]] = token["content"]
    ids = {word: i for i, word in enumerate(words)}
    is_bpe = tokenizer == "bpe"
    check_values(reader, {
        "general.architecture": "bert", "bert.context_length": 34 - first, "bert.vocab_size": count,
        "bert.attention.layer_norm_epsilon": floats([1e-5])[0], "tokenizer.ggml.token_type_count": 1,
        "tokenizer.ggml.model": "gpt2" if is_bpe else "t5", "tokenizer.ggml.pre": "roberta-bpe" if is_bpe else "default",
        "tokenizer.ggml.tokens": [word or f"[PAD{i}]" for i, word in enumerate(words)],
        "tokenizer.ggml.token_type": types_of(whole, count, None if is_bpe else ids["<unk>"]),
        "tokenizer.ggml.bos_token_id": ids["<s>"], "tokenizer.ggml.eos_token_id": ids["</s>"],
        "tokenizer.ggml.cls_token_id": ids["<s>"], "tokenizer.ggml.seperator_token_id": ids["</s>"],
        "tokenizer.ggml.padding_token_id": ids["<pad>"], "tokenizer.ggml.mask_token_id": ids["<mask>"],
        "tokenizer.ggml.unknown_token_id": ids["<unk>"], "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_eos_token": True, **values}, what)


def as_text(merge):
    return merge if isinstance(merge, str) else " ".join(merge)


ADDED = {"id": 0, "content": "New York", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
bpe = changed("bpe", lambda whole: whole["added_tokens"].append({**ADDED, "id": len(words_of(whole))}))
merges = {"tokenizer.ggml.merges": [as_text(merge) for merge in bpe["model"]["merges"]]}
check("roberta", "bpe", bpe, 0, [], **merges)
check("roberta", "bpe", bpe, 13, ["fewer than"], **merges)
check("bert", "bpe", changed("bpe", lambda whole: whole["model"].update(merges=["#version: 0.2", *map(as_text, whole["model"]["merges"])])),
      0, [], **merges)
scores = floats([score for _, score in WHOLE["unigram"]["model"]["vocab"]])
blanks = {"tokenizer.ggml.add_space_prefix": True, "tokenizer.ggml.remove_extra_whitespaces": True}
for kind in ("xlm-roberta", "camembert"):
    check(kind, "unigram", WHOLE["unigram"], 0, ["does not normalize a text to NFKC", "other white space than single blanks"],
          **{"tokenizer.ggml.scores": scores, "tokenizer.ggml.precompiled_charsmap": None, **blanks})
TABLE = struct.pack("<II", 4, 0) + b"x\0"
MAP = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(TABLE).decode()}
COLLAPSE = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": MARK}
STRIP = {"type": "Strip", "strip_left": False, "strip_right": True}
METASPACE = {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True}
FORMS = [  # normalizer, pre-tokenizer, warnings, whether a blank is added and several become one
    (MAP, WHOLE["unigram"]["pre_tokenizer"], [], True, True),
    ({"type": "Sequence", "normalizers": [MAP, STRIP, COLLAPSE]}, METASPACE, [], True, True),
    ({"type": "Sequence", "normalizers": [MAP, COLLAPSE]}, METASPACE, ["other white space"], True, True),
    (MAP, {**METASPACE, "prepend_scheme": "first"}, ["other white space"], True, False),
    (MAP, {**METASPACE, "prepend_scheme": "never"}, [], False, False),
]
for normalizer, splitter, notes, adds, merging in FORMS:
    check("xlm-roberta", "unigram",
          changed("unigram", lambda whole, a=normalizer, b=splitter: whole.update(normalizer=a, pre_tokenizer=b)), 2, ["fewer", *notes],
          **{"tokenizer.ggml.scores": scores + [-10000.0] * 2, "tokenizer.ggml.precompiled_charsmap": list(TABLE),
             "tokenizer.ggml.add_space_prefix": adds, "tokenizer.ggml.remove_extra_whitespaces": merging})
with open("gguf/model.gguf", "rb") as file:
    before = file.read()
convert()
with open("gguf/model.gguf", "rb") as file:
    expect(file.read() == before, "two conversions differ")

# A DistilBERT has no types of tokens, but llama.cpp refuses a model with none.
make("distilbert", WHOLE["bpe"], dim=24, n_layers=2, n_heads=2, hidden_dim=40, activation="gelu")
expect(convert().returncode == 0 and Reader("gguf/model.gguf").values["tokenizer.ggml.token_type_count"] == 1, "DistilBERT's types")

# --- what is refused ------------------------------------------------------------------------------

LOWER = {"type": "Lowercase"}
WORD_PIECES = {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
REFUSED = [  # tokenizer, change, parts of the message
    ("bpe", lambda whole: whole["pre_tokenizer"].update(add_prefix_space=True), ['"pre_tokenizer": found ByteLevel', "add_prefix_space false"]),
    ("bpe", lambda whole: whole["pre_tokenizer"].update(use_regex=False), ['"pre_tokenizer": found ByteLevel']),
    ("bpe", lambda whole: whole.update(normalizer=LOWER), ['"normalizer": found Lowercase', "no normalizer"]),
    ("bpe", lambda whole: whole.update(pre_tokenizer=METASPACE), ['"pre_tokenizer": found Metaspace']),
    ("bpe", lambda whole: whole["model"].update(ignore_merges=True), ['"model.ignore_merges": found true']),
    ("unigram", lambda whole: whole["model"].update(byte_fallback=True), ['"model.byte_fallback": found true']),
    ("unigram", lambda whole: whole.update(normalizer=LOWER), ['"normalizer": found Lowercase', "perhaps NFC, NFKC, Precompiled"]),
    ("unigram", lambda whole: whole.update(normalizer={"type": "Sequence", "normalizers": [COLLAPSE, MAP]}), ['"normalizer": found Precompiled']),
    ("unigram", lambda whole: whole.update(normalizer={**COLLAPSE, "content": ""}), ['"normalizer": found Replace']),
    ("unigram", lambda whole: whole.update(pre_tokenizer={"type": "WhitespaceSplit"}), ['"pre_tokenizer": found another']),
    ("unigram", lambda whole: whole.update(pre_tokenizer=None), ['"pre_tokenizer": found another']),
    ("unigram", lambda whole: whole["pre_tokenizer"]["pretokenizers"][1].update(prepend_scheme="never"), ['"pre_tokenizer": found Metaspace']),
    ("bpe", lambda whole: whole.update(model={**WORD_PIECES, "vocab": whole["model"]["vocab"]}, pre_tokenizer={"type": "Whitespace"}),
     ['"model": expected BERT\'s tokenizer, BPE or Unigram, found WordPiece']),
]
for tokenizer, change, parts in REFUSED:
    make("roberta", changed(tokenizer, change))
    done = convert()
    for part in ["model/tokenizer.json: key ", "convert the model to onnx or hf", *parts]:
        expect(done.returncode == 78 and part in done.stderr, f"{part!r} is not in {done.returncode}, {done.stderr!r}")
    expect(not os.path.exists("gguf"), f"{parts}: something was written")
make("roberta", WHOLE["bpe"], hidden_act="relu")
expect("hidden_act is relu, but llama.cpp's BERT computes gelu" in convert().stderr, "another activation")
make("electra", WHOLE["bpe"])
expect("Berth does not write an ELECTRA in this format" in convert().stderr, "an ELECTRA")

shutil.rmtree(os.getcwd())
sys.exit(1 if failures else 0)
