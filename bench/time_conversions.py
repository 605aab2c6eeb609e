#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures time and memory of `berth convert` on a BERT-large with random weights (1.34 GB in fp32).

    bench/time_conversions.py BERTH [FOLDER]

Converts a Hugging Face folder to every format, and every readable format back to Hugging Face's, with a warm
page cache. FOLDER (default: a temporary one) needs 2.7 GB at a time; an existing model `FOLDER/hf` is used.
Prints a table: elapsed and processor seconds, and peak memory over the size of the larger file.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

TARGETS = [("torch", []), ("tensorflow", []), ("nvidia", []), ("deepspeed", []),
           ("deepspeed", ["--kernel_layers"]), ("onnx", []), ("gguf", ["--allow_lossy"])]


def weights_of(folder):
    return max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)


def warm(folder):
    with open(weights_of(folder), "rb", buffering=0) as file:
        while file.read(1 << 24):
            pass


def measure(berth, source, output, to, options):
    warm(source)
    command = [berth, "convert", source, output, "--to", to, "--quiet", *options]
    begin = time.monotonic()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command} failed: {process.returncode}")
    size = max(weights_of(folder).stat().st_size for folder in (source, output))
    memory = usage.ru_maxrss * 1024
    print(f"| {source.name} | {' '.join([to, *options])} | {seconds:.1f} | "
          f"{usage.ru_utime + usage.ru_stime:.1f} | {memory / size:.2f} |", flush=True)


def run(berth, folder):
    model = folder / "hf"
    if not model.exists():
        subprocess.run([berth, "init", "--config", "large", "--output", model, "--quiet"], check=True)
    print("| from | to | seconds | CPU seconds | memory / model |\n| --- | --- | --- | --- | --- |")
    for to, options in [("hf", []), *TARGETS]:
        other, back = folder / to, folder / "back"
        if other == model:
            other = folder / "copy"
        for path in (other, back):
            shutil.rmtree(path, ignore_errors=True)
        measure(berth, model, other, to, options)
        if to not in ("hf", "onnx", "gguf"):
            measure(berth, other, back, "hf", [])
            files = [folder_ / "model.safetensors" for folder_ in (model, back)]
            if subprocess.run(["cmp", *files]).returncode != 0:
                sys.exit(f"{to} and back is another file")
        for path in (other, back):
            shutil.rmtree(path, ignore_errors=True)


def main():
    berth = sys.argv[1]
    if len(sys.argv) > 2:
        run(berth, pathlib.Path(sys.argv[2]))
        return
    with tempfile.TemporaryDirectory() as folder:
        run(berth, pathlib.Path(folder))


if __name__ == "__main__":
    main()
