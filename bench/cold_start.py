#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a process takes from its start to the vector of one text, and how large the program is: Berth beside
sentence-transformers of the Python that runs this.

    cold_start.py BERTH MODEL [ROUNDS]

The two take turns, so that other programs on the machine slow both down; prints the median, the least and the largest of
each. Files are in memory after the first round, which does not count. Fails if the vectors differ.
"""
import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys
import time

TEXT = "The bridge was opened in 1932 after eight years of work."
PEER = """import json, sys
from sentence_transformers import SentenceTransformer
print(json.dumps(SentenceTransformer(sys.argv[1], device="cpu").encode(sys.argv[2]).tolist()))"""


def timed(words: list) -> tuple:
    begin = time.perf_counter()
    output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return time.perf_counter() - begin, output


def size_of(packages: list) -> float:
    """MB of the files of Python packages."""
    folders = [pathlib.Path(importlib.util.find_spec(name).origin).parent for name in packages]
    return sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file()) / 1e6


def main():
    berth, model, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 7
    commands = {"berth embed": [berth, "embed", "--model", model, "--text", TEXT, "--quiet"],
                "sentence-transformers": [sys.executable, "-c", PEER, model, TEXT]}
    seconds = {name: [] for name in commands}
    for number in range(rounds + 1):
        vectors = []
        for name, words in commands.items():
            taken, output = timed(words)
            found = json.loads(output)
            vectors.append(found["embedding"] if isinstance(found, dict) else found)
            if number > 0:
                seconds[name].append(taken)
        largest = max(abs(a - b) for a, b in zip(*vectors))
        assert len(vectors[0]) == len(vectors[1]) and largest < 1e-5, largest
    for name, taken in seconds.items():
        print(f"{name}: {statistics.median(taken):.2f} s ({min(taken):.2f} to {max(taken):.2f})")
    print(f"sizes: berth {pathlib.Path(berth).stat().st_size / 1e6:.1f} MB; torch, transformers and sentence_transformers "
          f"{size_of(['torch', 'transformers', 'sentence_transformers']):.0f} MB; the largest difference of a number {largest:.1e}")


if __name__ == "__main__":
    main()
