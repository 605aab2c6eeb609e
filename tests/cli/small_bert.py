#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares examples/small_bert.c with the program: the losses of 20 updates on the same ids, where each half of the loss
matters, and the vectors of texts. A gradient that is wrong in one place changes the losses. Also what small_bert refuses,
what it writes, and that its lines have at most 100 columns.

    small_bert.py BERTH SOURCE_DIR CC [SANITIZERS]
"""
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

from expectations import expect, failures

BERTH, SOURCE, CC = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
SANITIZERS = [f"-fsanitize={names}" for names in sys.argv[4:] if names]
PROGRAM = os.path.join(SOURCE, "examples/small_bert.c")
STRICT = ["-std=c17", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
BOUND = 1e-5  # of a loss, relative; of a number of a vector, absolute
UPDATES, SEQUENCES, LONGEST, SEED, RATE = 20, 6, 48, 3, 3e-3
PAD, CLS, SEP, FIRST_WORD = 0, 2, 3, 5
os.chdir(tempfile.mkdtemp())
sys.path.insert(0, os.path.join(SOURCE, "tests"))
import tensor_file  # noqa: E402


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                          env={**os.environ, "OMP_WAIT_POLICY": "passive"})


def must(*words):
    done = run(*words)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stdout[-2000:]}{done.stderr}")
    return done.stdout


def compiled(name, source, *options):
    must(CC, "-O2", *STRICT, *options, source, "-lm", "-o", name)
    return os.path.abspath(name)


# --- the same examples as TFRecord and as numbers -------------------------------------------------

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def checksum(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def varint(number):
    found = b""
    while number >= 0x80:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def record(features):
    """A tf.train.Example in the frame of a TFRecord."""
    entries = b""
    for name, (kind, numbers) in features.items():
        packed = struct.pack(f"<{len(numbers)}f", *numbers) if kind == 2 else b"".join(map(varint, numbers))
        entries += field(1, field(1, name.encode()) + field(2, field(kind, field(1, packed))))
    data = field(1, entries)
    size = struct.pack("<Q", len(data))
    return size + checksum(size) + data + checksum(data)


class Example:
    """[CLS] a [SEP] b [SEP], some of whose tokens are to be predicted. Their ids follow from their neighbours', so that
    there is something to learn."""

    def __init__(self, draws, words):
        first, second = (draws.randrange(1, (LONGEST - 3) // 2) for _ in range(2))
        begin = draws.randrange(FIRST_WORD, words)
        text = [FIRST_WORD + (begin + 3 * i) % (words - FIRST_WORD) for i in range(first + second)]
        self.ids = [CLS, *text[:first], SEP, *text[first:], SEP]
        self.second = first + 2
        self.next = draws.randrange(2)
        places = [i for i, token in enumerate(self.ids) if token >= FIRST_WORD]
        self.places = sorted(draws.sample(places, max(1, len(places) // 6)))
        self.labels = [self.ids[place] for place in self.places]
        for place in self.places:
            self.ids[place] = draws.choice([4, 4, 4, self.ids[place], draws.randrange(FIRST_WORD, words)])

    def record(self):
        def padded(numbers, width):
            return (3, [*numbers, *[0] * (width - len(numbers))])
        length, most = len(self.ids), LONGEST // 6
        return record({"input_ids": padded(self.ids, LONGEST), "input_mask": padded([1] * length, LONGEST),
                       "segment_ids": padded([int(i >= self.second) for i in range(length)], LONGEST),
                       "masked_lm_positions": padded(self.places, most), "masked_lm_ids": padded(self.labels, most),
                       "masked_lm_weights": (2, [float(i < len(self.places)) for i in range(most)]),
                       "next_sentence_labels": (3, [self.next])})

    def line(self):
        words = dict(zip(self.places, self.labels))
        tokens = [f"{token}={words[i]}" if i in words else str(token) for i, token in enumerate(self.ids)]
        return " ".join([str(self.next), *tokens[:self.second], "|", *tokens[self.second:]])


def write_shards(folder, updates, words):
    """A file for the examples of each update, and the order in which `--shard_order rank` reads them."""
    draws = random.Random(5)
    os.mkdir(folder)
    files = {f"part_training_{i:02}.tfrecord": [Example(draws, words) for _ in range(SEQUENCES)] for i in range(updates)}
    for name, examples in files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(b"".join(example.record() for example in examples))
    order = sorted(files)
    random.Random(SEED).shuffle(order)
    return [files[name] for name in order]


def pretrain(output, shards, updates, *words):
    must(BERTH, "pretrain", "--input_dir", shards, "--output", output, "--precision", "fp32", "--shard_order", "rank",
         "--seed", str(SEED), "--optimizer", "adamw", "--schedule", "linear", "--warmup_proportion", "0.1", "--learning_rate",
         str(RATE), "--train_batch_size", str(SEQUENCES), "--max_steps", str(updates), "--logging_steps", "1", "--device",
         "cpu", "--json_summary", output + ".jsonl", "--no_do_eval", *words)
    with open(output + ".jsonl", encoding="utf-8") as file:
        return [line["loss"] for line in map(json.loads, file) if line.get("kind") == "step"]


# --- a model, and both programs -------------------------------------------------------------------

LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *".,?!'-()", *"0123456789", *LETTERS[:25],
              *("##" + letter for letter in LETTERS), "the", "in", "lived", "where", "did", "##ed", "##ing", "li", "##ve"]
CONFIG = {"vocab_size": len(VOCABULARY), "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 3,
          "intermediate_size": 96, "max_position_embeddings": 64, "type_vocab_size": 2, "hidden_act": "gelu",
          "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "layer_norm_eps": 1e-12,
          "initializer_range": 0.1, "model_type": "bert"}
with open("config.json", "w", encoding="utf-8") as config:
    json.dump(CONFIG, config)
with open("vocab.txt", "w", encoding="utf-8") as vocabulary:
    vocabulary.write("".join(word + "\n" for word in VOCABULARY))

# A few updates at a high rate, so that biases and the factors of norms are not 0 and 1.
write_shards("first", 5, len(VOCABULARY))
pretrain("model", "first", 5, "--config_file", "config.json", "--vocab_file", "vocab.txt")
batches = write_shards("shards", UPDATES, len(VOCABULARY))
with open("ids.txt", "w", encoding="utf-8") as ids:
    ids.write("\n".join("".join(example.line() + "\n" for example in batch) for batch in batches))
expected = pretrain("trained", "shards", UPDATES, "--model", "model")

with open(PROGRAM, encoding="utf-8") as text:
    lines = text.read().split("\n")
wide = [i + 1 for i, line in enumerate(lines) if len(line) > 100]
expect(not wide, f"lines of more than 100 columns: {wide}")


def losses(program, *words):
    return [float(line.split()[3]) for line in must(program, "model", *words).splitlines()]


def farthest(found):
    return max(abs(a - b) / b for a, b in zip(found, expected)) if len(found) == len(expected) else float("inf")


GIVEN = ["--rate", str(RATE), "--ids", "ids.txt"]
program = compiled("small_bert", PROGRAM, *SANITIZERS)
found = losses(program, *GIVEN)
print("largest difference of a loss", farthest(found), found[0], found[-1])
expect(farthest(found) <= BOUND, f"losses {found}, expected {expected}")
expect(min(found) < found[0] / 2, f"the model does not learn: {found}")
