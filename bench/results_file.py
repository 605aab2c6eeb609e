# SPDX-License-Identifier: Apache-2.0
"""The files of bench/results: figures by machine and date, one a row, which `dev/draw-pictures` draws and documents cite.

    date,machine,threads,benchmark,model,program,precision,version,measure,value
"""
import csv
import datetime
import importlib.metadata
import os
import re
import subprocess

FIELDS = ("date", "machine", "threads", "benchmark", "model", "program", "precision", "version", "measure", "value")
PACKAGES = {"onnxruntime": ("onnxruntime",), "openvino": ("openvino", "nncf"), "pytorch": ("torch", "transformers"),
            "sentence-transformers": ("sentence-transformers", "torch")}
SETS = (("amx_int8", "AMX"), ("avx512_vnni", "AVX-512 VNNI"), ("avx512f", "AVX-512"), ("avx_vnni", "AVX-VNNI"), ("avx2", "AVX2"))


def machine():
    """The processor as /proc/cpuinfo has it: name, family, model, the widest instructions for bytes."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        facts = dict(re.findall(r"^(\w[\w ]*\w)\s*:\s*(.*)$", file.read(), re.M))
    flags = facts.get("flags", "").split()
    widest = next((name for flag, name in SETS if flag in flags), facts.get("CPU architecture", "?"))
    name = re.sub(r"\((R|TM)\)|Processor|\s+", " ", facts.get("model name", "?"))
    return (f"{' '.join(name.split())}, family {facts.get('cpu family', '?')} model {facts.get('model', '?')}, {widest}, "
            f"{len(os.sched_getaffinity(0))} cores")


def version(program, berth):
    if program == "berth":
        return subprocess.run([berth, "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0].strip()
    return " ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES[program])


def append(path, benchmark, model, threads, berth, found):
    """`found`: (program-precision, measure) -> value."""
    is_new = not os.path.exists(path) or os.path.getsize(path) == 0
    with open(path, "a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow(FIELDS)
        for (name, measure), value in found.items():
            program, _, precision = name.rpartition("-")
            writer.writerow((datetime.date.today().isoformat(), machine(), threads, benchmark, model, program, precision,
                             version(program, berth), measure, f"{value:.6g}"))
