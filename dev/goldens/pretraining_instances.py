#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws of CPython's random, and pre-training instances by the published rules, in plain Python.

    python3 dev/goldens/pretraining_instances.py > tests/data/pretraining.golden.h
    python3 dev/goldens/pretraining_instances.py IDS OPTIONS...    (see `from_file`)

The first form generates documents, as the test does, and prints a CRC-32 over all instances for several
settings. The second reads ids, one sentence per line and an empty line after each document, and prints the
same for them. doc/pretraining-data.md describes the rules.
"""
import random
import struct
import sys
import zlib

CLS, SEP, MASK, VOCABULARY = 101, 102, 103, 1000


def is_continuation(token):
    return token >= 700


def synthetic_documents(seed, documents, sentences, tokens):
    """Documents with at most this many sentences of at most this many tokens."""
    numbers = random.Random(seed)
    return [[[numbers.randint(104, VOCABULARY - 1) for _ in range(numbers.randint(1, tokens))]
             for _ in range(numbers.randint(1, sentences))] for _ in range(documents)]


def truncate(a, b, most, numbers):
    while len(a) + len(b) > most:
        longer = a if len(a) > len(b) else b
        longer.pop(0 if numbers.random() < 0.5 else -1)


def mask(tokens, setting, numbers):
    words = []
    for position, token in enumerate(tokens):
        if token in (CLS, SEP):
            continue
        if setting["whole_word"] and words and is_continuation(token):
            words[-1].append(position)
        else:
            words.append([position])
    numbers.shuffle(words)
    wanted = min(setting["predictions"], max(1, int(round(len(tokens) * setting["probability"]))))
    result, chosen = list(tokens), []
    for word in words:
        if len(chosen) >= wanted:
            break
        if len(chosen) + len(word) > wanted:
            continue
        for position in word:
            if numbers.random() < 0.8:
                result[position] = setting["mask"]
            elif numbers.random() >= 0.5:
                result[position] = numbers.randint(0, setting["vocabulary"] - 1)
            chosen.append(position)
    chosen.sort()
    return result, chosen, [tokens[position] for position in chosen]


def pair(a, b, is_random, setting, numbers):
    truncate(a, b, setting["length"] - 3, numbers)
    tokens = [CLS] + a + [SEP] + b + [SEP]
    return (*mask(tokens, setting, numbers), len(a) + 2, int(is_random))


def flat(sentences):
    return [token for sentence in sentences for token in sentence]


def random_next(documents, here, wanted, numbers):
    for _ in range(10):
        there = numbers.randint(0, len(documents) - 1)
        if there != here:
            break
    start, b = numbers.randint(0, len(documents[there]) - 1), []
    for sentence in documents[there][start:]:
        b += sentence
        if len(b) >= wanted:
            break
    return b, there != here


def from_document(documents, here, setting, numbers):
    document, result, chunk, at = documents[here], [], [], 0
    target = setting["length"] - 3
    if numbers.random() < setting["short"]:
        target = numbers.randint(2, target)
    while at < len(document):
        chunk.append(document[at])
        if at == len(document) - 1 or sum(map(len, chunk)) >= target:
            cut = numbers.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
            a = flat(chunk[:cut])
            if len(chunk) == 1 or numbers.random() < 0.5:
                b, is_random = random_next(documents, here, target - len(a), numbers)
                at -= len(chunk) - cut
            else:
                b, is_random = flat(chunk[cut:]), False
            result.append(pair(a, b, is_random, setting, numbers))
            chunk = []
        at += 1
    return result


def instances(documents, setting):
    numbers = random.Random(setting["seed"])
    documents = list(documents)
    numbers.shuffle(documents)
    result = []
    for _ in range(setting["rounds"]):
        for here in range(len(documents)):
            result += from_document(documents, here, setting, numbers)
    numbers.shuffle(result)
    return result


def checksum(made):
    crc = 0
    for tokens, positions, labels, second, is_random in made:
        for part in (tokens, positions, labels, [second, is_random]):
            crc = zlib.crc32(struct.pack(f"<{len(part)}i", *part), crc)
    return crc


BASE = {"length": 32, "predictions": 5, "rounds": 2, "probability": 0.15, "short": 0.1, "seed": 12345,
        "whole_word": False, "mask": MASK, "vocabulary": VOCABULARY}
# generated documents (seed, count, sentences, tokens), and differences from BASE
CASES = [
    ((7, 60, 12, 20), {}),
    ((8, 40, 30, 40), {"length": 128, "predictions": 20, "rounds": 5}),
    ((9, 40, 30, 40), {"length": 512, "predictions": 80, "seed": 42}),
    ((10, 60, 12, 20), {"whole_word": True, "predictions": 8, "probability": 0.25}),
    ((11, 1, 9, 15), {"rounds": 4}),           # no other document
    ((12, 2, 9, 15), {"rounds": 4, "seed": 3}),
    ((13, 300, 1, 90), {"length": 64}),        # one sentence each, some longer than a chunk
    ((14, 50, 9, 15), {"short": 1.0, "probability": 0.5, "seed": 2**40 + 5}),
]


def print_numbers():
    for seed in (0, 12345, 2**32 + 1, 2**64 - 1):
        numbers = random.Random(seed)
        values = [numbers.random() for _ in range(700)][-3:]
        integers = [numbers.randint(-5, 10**k) for k in (1, 3, 6, 9, 10, 12, 18)]
        order = list(range(50))
        numbers.shuffle(order)
        crc = zlib.crc32(struct.pack(f"<{len(order)}I", *order))
        print(f"    {{{seed}u, {{{', '.join(value.hex() for value in values)}}},\n"
              f"     {{{', '.join(f'{i}' for i in integers)}}}, {crc:#010x}u}},")


def print_header():
    print("// SPDX-License-Identifier: Apache-2.0\n"
          "// Made by dev/goldens/pretraining_instances.py with CPython's random.\n"
          "// Three of 700 random(), seven randint(), the CRC-32 of a shuffle.\n"
          "static const struct {\n    uint64_t seed;\n    double reals[3];\n    int64_t integers[7];\n"
          "    uint32_t crc;\n} random_goldens[] = {")
    print_numbers()
    print("};\n\n// Made-up documents, settings, and all instances: their number and CRC-32.\n"
          "static const struct {\n    uint64_t seed;\n    int documents, sentences, tokens;\n"
          "    struct instance_options options;\n    size_t count;\n    uint32_t crc;\n"
          "} instance_goldens[] = {")
    for made, changes in CASES:
        setting = BASE | changes
        result = instances(synthetic_documents(*made), setting)
        print(f"    {{{', '.join(map(str, made))},\n"
              f"     {{.max_length = {setting['length']}, .max_predictions = {setting['predictions']}, "
              f".dupe_factor = {setting['rounds']},\n      .masked_lm_prob = {setting['probability']}, "
              f".short_seq_prob = {setting['short']}, .seed = {setting['seed']}u, "
              f".whole_word = {int(setting['whole_word'])}}},\n"
              f"     {len(result)}, {checksum(result):#010x}u}},")
    print("};")


def from_file(path, *options):
    """options: name=value of BASE, numbers; prints how many instances and their CRC-32."""
    with open(path) as file:
        blocks = file.read().split("\n\n")
    documents = [[list(map(int, line.split())) for line in block.splitlines() if line.strip()]
                 for block in blocks]
    changes = {name: type(BASE[name])(float(value)) for name, value in (o.split("=") for o in options)}
    result = instances([document for document in documents if document], BASE | changes)
    print(len(result), f"{checksum(result):#010x}")


if len(sys.argv) > 1:
    from_file(*sys.argv[1:])
else:
    print_header()
