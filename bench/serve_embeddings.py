# SPDX-License-Identifier: Apache-2.0
"""Embeddings of the same texts by `berth serve` and by other programs, for bench/serve_compare.py.

infinity-torch, infinity-onnx   infinity_emb (pip install 'infinity_emb[server,torch,optimum]'), OpenAI's API as Berth
fastembed                       fastembed, a library (ONNX Runtime) in a process of its own: no HTTP, no JSON

All have the same folder and number of threads. Servers get lists of texts, several lists at a time, and reply in base64.
The programs take turns, so that other programs on the machine disturb each as much as the other. Each reads all texts in each
turn. "texts_per_second" is the median of the turns; "texts_per_cpu_second" has the processor time of the program's process in
its place, which other programs change less; the client's is not in it.
"""
import argparse
import array
import base64
import concurrent.futures
import http.client
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

FASTEMBED = """
import array, base64, json, sys
from fastembed import TextEmbedding
folder, threads, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
model = TextEmbedding("sentence-transformers/all-MiniLM-L6-v2", specific_model_path=folder, threads=threads)
for line in sys.stdin:
    rows = [row.astype("<f4").tobytes() for row in model.embed(json.loads(line), batch_size=batch)]
    print(json.dumps([base64.b64encode(row).decode() for row in rows]), flush=True)
"""
PEERS = ("infinity-torch", "infinity-onnx", "fastembed")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cpu_seconds(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Peer:
    """A program that embeds lists of texts; `with` ends it."""

    def __init__(self, kind: str, folder: str, args: argparse.Namespace):
        self.kind, self.args, self.port = kind, args, free_port()
        threads, batch = str(args.threads), str(args.batch)
        environment = {**os.environ, "OMP_NUM_THREADS": threads, "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}
        if kind == "berth":
            words = [args.berth, "serve", "--model", "m=" + folder, "--precision", args.precision, "--threads", threads,
                     "--port", str(self.port), "--idle_timeout", "3600", *args.option]
            self.path = "/v1/embeddings"
        elif kind == "fastembed":
            words = [args.python, "-c", FASTEMBED, folder, threads, batch]
        else:  # its ONNX engine finds the file of a folder only from within
            dtype = {"fp32": "float32", "bf16": "bfloat16"}[args.precision]
            words = [args.python, "-c", "from infinity_emb.cli import cli; cli()", "v2", "--model-id", ".", "--served-model-name", "m",
                     "--engine", "torch" if kind == "infinity-torch" else "optimum", "--device", "cpu", "--dtype", dtype,
                     "--batch-size", batch, "--pooling-method", "mean", "--no-bettertransformer", "--no-model-warmup",
                     "--host", "127.0.0.1", "--port", str(self.port)]
            self.path = "/embeddings"
        pipe = subprocess.PIPE if kind == "fastembed" else subprocess.DEVNULL
        self.process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=None if args.verbose else subprocess.DEVNULL,
                                        cwd=folder if kind.startswith("infinity") else None, env=environment, text=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.process.terminate()
        self.process.wait()

    def wait(self):
        end = time.monotonic() + 300
        while time.monotonic() < end and self.process.poll() is None:
            try:
                self.embed(["hello"])
                return
            except OSError:
                time.sleep(0.3)
        sys.exit(f"{self.kind} did not begin to answer; --verbose shows what it says: {self.process.args}")

    def ask(self, texts: list) -> list:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        body = json.dumps({"model": "m", "input": texts, "encoding_format": "base64"})
        connection.request("POST", self.path, body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        content = reply.read()
        if reply.status == 503:
            raise ConnectionError("loading")
        if reply.status != 200:
            sys.exit(f"{self.kind}: status {reply.status}: {content[:300]}")
        return content

    def embed(self, texts: list) -> list:
        """What came back, which is decoded where nothing is measured."""
        if self.kind == "fastembed":
            print(json.dumps(texts), file=self.process.stdin, flush=True)
            return [self.process.stdout.readline()]
        lists = [texts[i:i + self.args.list] for i in range(0, len(texts), self.args.list)]
        with concurrent.futures.ThreadPoolExecutor(self.args.waiting) as pool:
            return list(pool.map(self.ask, lists))

    def vectors(self, texts: list) -> list:
        found = [json.loads(each) for each in self.embed(texts)]
        rows = found[0] if self.kind == "fastembed" else [row["embedding"] for reply in found for row in reply["data"]]
        return [array.array("f", base64.b64decode(row)) for row in rows]

    def turn(self, texts: list) -> tuple:
        """Texts a second, and a second of the process's own time."""
        begin, cpu = time.perf_counter(), cpu_seconds(self.process.pid)
        self.embed(texts)
        return len(texts) / (time.perf_counter() - begin), len(texts) / max(cpu_seconds(self.process.pid) - cpu, 0.01)


def prepare(args: argparse.Namespace, work: str) -> str:
    """The folder with its ONNX file, which Berth writes."""
    folder = os.path.join(work, "model")
    shutil.copytree(args.model, folder)
    subprocess.run([args.berth, "convert", args.model, work + "/onnx", "--to", "onnx", "--quiet"], check=True)
    shutil.copy(work + "/onnx/model.onnx", folder)
    return folder


def difference(found: list, wanted: list) -> float:
    return max(abs(a - b) for one, other in zip(found, wanted, strict=True) for a, b in zip(one, other, strict=True))


def compare(args: argparse.Namespace) -> None:
    texts = [line for line in pathlib.Path(args.data).read_text(encoding="utf-8").splitlines() if line.strip()][:args.texts]
    with tempfile.TemporaryDirectory() as work:
        folder = prepare(args, work)
        with Peer("berth", folder, args) as berth:
            berth.wait()
            wanted = berth.vectors(texts)
            for kind in args.peers:
                with Peer(kind, folder, args) as peer:
                    peer.wait()
                    apart, turns = difference(peer.vectors(texts), wanted), []
                    for _ in range(args.turns):
                        turns.append((*berth.turn(texts), *peer.turn(texts)))
                    load = os.getloadavg()[0]
                rates = [statistics.median(each) for each in zip(*turns)]
                ratios = [statistics.median(own / other for own, other in pairs)
                          for pairs in (((a, c) for a, _, c, _ in turns), ((b, d) for _, b, _, d in turns))]
                print(json.dumps({
                    "peer": kind, "precision": args.precision, "texts": len(texts), "threads": args.threads, "load": round(load, 1),
                    "texts_per_second": {"berth": round(rates[0], 1), "peer": round(rates[2], 1), "ratio": round(ratios[0], 2)},
                    "texts_per_cpu_second": {"berth": round(rates[1], 1), "peer": round(rates[3], 1), "ratio": round(ratios[1], 2)},
                    "largest_difference": float(f"{apart:.2g}")}), flush=True)
