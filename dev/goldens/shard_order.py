#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/shard_order.golden.h: the files that NVIDIA's run_pretraining gives to each rank.

Its rules: the files, sorted by name, are shuffled with random.Random(seed + epoch). An epoch has as many rounds as there
are files. In round f, rank r of W reads file (f * W + r) mod n of this order; if W is greater than n, file
(f * W + r + f * (W mod n)) mod n.
"""
import os
import random

EPOCHS = 3
CASES = [(4, 1, 42), (4, 2, 42), (5, 2, 7), (3, 3, 12345), (1, 3, 42), (3, 7, 9), (2, 5, 0)]  # files, ranks, seed


def files_of(files, ranks, seed, rank):
    visits = []
    for epoch in range(EPOCHS):
        names = [f"{i}_training.hdf5" for i in range(files)]
        random.Random(seed + epoch).shuffle(names)
        for turn in range(files):
            index = turn * ranks + rank
            if ranks > files:
                index += (ranks % files) * turn
            visits.append(int(names[index % files].split("_")[0]))
    return visits


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.path.join(here, "../../tests/data/shard_order.golden.h")
    with open(path, "w", encoding="ascii") as out:
        out.write("// SPDX-License-Identifier: Apache-2.0\n// Made by dev/goldens/shard_order.py.\n")
        out.write(f"enum {{ ORDER_EPOCHS = {EPOCHS}, ORDER_VISITS = {EPOCHS * max(case[0] for case in CASES)} }};\n\n")
        out.write("static const struct {\n    int files, ranks, seed, rank;\n    int visits[ORDER_VISITS];\n"
                  "} shard_orders[] = {\n")
        for files, ranks, seed in CASES:
            for rank in range(ranks):
                numbers = ", ".join(map(str, files_of(files, ranks, seed, rank)))
                out.write(f"    {{{files}, {ranks}, {seed}, {rank}, {{{numbers}}}}},\n")
        out.write("};\n")


if __name__ == "__main__":
    main()
