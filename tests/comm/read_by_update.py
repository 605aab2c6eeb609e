#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which sequences a pre-training run read in each update, as its checkpoints say.

    read_by_update.py make FOLDER FILES SEQUENCES         shards, vocabulary and configuration
    read_by_update.py show OUTPUT SEQUENCES FIRST LAST    of the updates, the numbers of their sequences

Sequence n has one masked token, of which the right word is word n. The learning rate is 0 and Adam's first moment is the
gradient (--adam_beta1 0). So in the moment of the output bias the entry of word n is the word's probability, which is small,
less 1 / SEQUENCES for each time that the update has sequence n.
"""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tensor_file  # noqa: E402
from tfrecord_file import FLOATS, INTEGERS, record  # noqa: E402

CLS, SEP, MASK, FIRST = 2, 3, 4, 5
LENGTH, BIAS = 8, "exp_avg.cls.predictions.bias"
CONFIG = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 16,
          "max_position_embeddings": LENGTH, "type_vocab_size": 2, "hidden_act": "gelu", "hidden_dropout_prob": 0.0,
          "attention_probs_dropout_prob": 0.0, "layer_norm_eps": 1e-12, "initializer_range": 1e-3, "model_type": "bert"}


def example(number):
    ids = [CLS, FIRST, MASK, SEP, FIRST, SEP]
    padding = [0] * (LENGTH - len(ids))
    return record({"input_ids": (INTEGERS, ids + padding), "input_mask": (INTEGERS, [1] * len(ids) + padding),
                   "segment_ids": (INTEGERS, [0, 0, 0, 0, 1, 1] + padding), "masked_lm_positions": (INTEGERS, [2]),
                   "masked_lm_ids": (INTEGERS, [FIRST + number]), "masked_lm_weights": (FLOATS, [1.0]),
                   "next_sentence_labels": (INTEGERS, [0])})


def make(folder, files, sequences):
    shards = os.path.join(folder, "shards")
    os.makedirs(shards)
    for number in range(files):
        first = number * sequences
        with open(os.path.join(shards, f"{number}_training.tfrecord"), "wb") as file:
            file.write(b"".join(map(example, range(first, first + sequences))))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(files * sequences))]
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="ascii") as file:
        file.write("".join(word + "\n" for word in words))
    with open(os.path.join(folder, "config.json"), "w", encoding="ascii") as file:
        json.dump({**CONFIG, "vocab_size": len(words)}, file)


def show(output, sequences, first, last):
    for update in range(first, last + 1):
        path = os.path.join(output, f"checkpoint-{update}", "optimizer.safetensors")
        kind, (count,), place = tensor_file.entries(path)[BIAS]
        assert kind == "F32"
        with open(path, "rb") as file:
            moment = struct.unpack(f"<{count}f", file.read()[place])
        times = [round(-value * sequences + 0.1) for value in moment[FIRST:]]
        assert sum(times) == sequences, f"update {update}: {sum(times)} sequences, {moment}"
        print(*(number for number, time in enumerate(times) for _ in range(time)))


if sys.argv[1] == "make":
    make(sys.argv[2], *map(int, sys.argv[3:]))
else:
    show(sys.argv[2], *map(int, sys.argv[3:]))
