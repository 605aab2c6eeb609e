#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Flips one bit of a parameter in the memory of a training process, as faulty memory would.

usage: flip_bit.py PID OUTPUT_DIR TENSOR

The run must write a checkpoint after each update. Once there are three, the process is stopped. Until the next update,
its memory holds the numbers of the newest checkpoint, so they are found by their bytes. If the process was stopped too
late, only a copy that is no longer used may hold them: if another checkpoint follows, a bit is flipped again. Prints
the number of the last checkpoint. Exits 77 if the memory of another process may not be written.
"""
import glob
import os
import pathlib
import re
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tensor_file

pid, folder, tensor = int(sys.argv[1]), sys.argv[2], sys.argv[3]
LENGTH = 256  # bytes to search for


def newest_step():
    steps = [int(re.search(r"\d+$", name).group()) for name in glob.glob(folder + "/checkpoint-*")]
    return max(steps, default=0)


def parameter_bytes(step):
    path = f"{folder}/checkpoint-{step}/model.safetensors"
    place = tensor_file.entries(path)[tensor][2]
    middle = place.start + (place.stop - place.start) // 8 * 4
    with open(path, "rb") as file:
        file.seek(middle)
        return file.read(min(LENGTH, place.stop - middle))


def find_addresses(memory, wanted):
    for line in open(f"/proc/{pid}/maps"):
        addresses, access = line.split()[:2]
        first, end = (int(text, 16) for text in addresses.split("-"))
        if not access.startswith("rw") or "[v" in line:
            continue
        memory.seek(first)
        try:
            block = memory.read(end - first)
        except OSError:
            continue
        offset = block.find(wanted)
        while offset >= 0:
            yield first + offset
            offset = block.find(wanted, offset + 1)


def flip(step):
    found = 0
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        wanted = parameter_bytes(step)
        for address in find_addresses(memory, wanted):
            memory.seek(address)
            memory.write(bytes([wanted[0] ^ 1]))
            found += 1
    return found


last, flipped = 2, False
while os.path.exists(f"/proc/{pid}/exe"):
    step = newest_step()
    if step <= last:
        time.sleep(0.0002)
        continue
    last, flipped = step, False
    os.kill(pid, signal.SIGSTOP)
    try:
        flipped = newest_step() == step and flip(step) > 0
    except PermissionError:
        sys.exit(77)
    except FileNotFoundError:  # the checkpoint was removed meanwhile
        pass
    finally:
        os.kill(pid, signal.SIGCONT)
if not flipped:
    sys.exit("the parameter was never found in memory")
print(last)
