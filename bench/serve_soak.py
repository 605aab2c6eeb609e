#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Serves mixed requests for an hour and watches the server's memory and descriptors:

    bench/serve_soak.py BERTH SQUAD.json --model NAME=DIR ... [--minutes N] [--rate N] [--reload_seconds N]

Starts `berth serve` with the models, asks --rate requests a second (questions short and long, lists, every API, wrong
requests, clients that leave), loads the models again every --reload_seconds, and prints one JSON object each 10 seconds:
resident memory, descriptors, threads, replies by status. After each loading every model is asked a batch as large as
the server makes: memory for a batch becomes resident, in steps of 2 MiB, when a batch needs it. The last object has the
slope of the memory after the first sixth of the time (of the highest points between two reloads, the median of the slopes
of all pairs; while models are loaded, old and new are in memory, so nothing is measured), the range of the
descriptors and what was unexpected. The exit code is 1 if the slope is 1 MiB an hour or more (in
less than an hour: if it would make a MiB), if descriptors remain, or if a reply was unexpected. Connections that were cut
while the machine was stopped are counted, but are no failures.
"""
import argparse
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from serve_load import read_questions

MEBIBYTE = 1 << 20


class Process:
    """The server, its port and what the kernel says of it."""

    def __init__(self, words: list):
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=self.log)
        self.port = int(self.wait_for(r"listening on \S+:(\d+)\n"))
        self.wait_for("note: (ready)")

    def wait_for(self, pattern: str) -> str:
        while self.process.poll() is None:
            found = re.search(pattern, pathlib.Path(self.log.name).read_text(encoding="utf-8"))
            if found:
                return found[1]
            time.sleep(0.05)
        sys.exit(pathlib.Path(self.log.name).read_text(encoding="utf-8"))

    def wait_for_loading(self, number: int):
        """Until the models have been loaded again so often."""
        done = "note: the models were reloaded"
        while (log := pathlib.Path(self.log.name).read_text(encoding="utf-8")).count(done) < number:
            if self.process.poll() is not None or re.search(r"were not reloaded|only \d+ of \d+ models were reloaded", log):
                sys.exit(log)
            time.sleep(0.1)

    def state(self) -> dict:
        folder = f"/proc/{self.process.pid}"
        status = pathlib.Path(folder, "status").read_text(encoding="utf-8")
        number = {name: int(re.search(rf"^{name}:\s+(\d+)", status, re.M)[1]) for name in ("VmRSS", "Threads")}
        return {"rss": number["VmRSS"] * 1024, "threads": number["Threads"], "descriptors": len(os.listdir(folder + "/fd"))}


class Load:
    """A thread that asks; `counts` has the replies by kind of request and status."""

    def __init__(self, server: Process, models: dict, questions: list, seed: int):
        self.server, self.models, self.questions = server, models, questions
        self.random = random.Random(seed)
        self.counts, self.unexpected, self.cut = {}, [], 0
        self.connection = None
        self.kinds = [kind for kind in (self.question, self.long, self.several, self.embed, self.embeddings, self.classify,
                                        self.tags, self.words, self.infer, self.form, self.wrong, self.unknown, self.look,
                                        self.leave) if kind() is not None]

    def name(self, task: str):
        return next((name for name, own in self.models.items() if own == task), None)

    def some(self) -> dict:
        return self.random.choice(self.questions)

    def to_model(self, task: str, body: dict):
        name = self.name(task)
        return name and ("POST", "/models/" + name, json.dumps(body), 200)

    def question(self):
        return self.to_model("question-answering", {"inputs": self.some()})

    def long(self):
        context = " ".join(self.some()["context"] for _ in range(8))
        return self.to_model("question-answering", {"inputs": {**self.some(), "context": context}})

    def several(self):
        return self.to_model("question-answering", {"inputs": [self.some() for _ in range(self.random.randint(1, 8))],
                                                    "parameters": {"top_k": 3}})

    def embed(self):
        return self.name("feature-extraction") and ("POST", "/embed", json.dumps({"inputs": self.some()["context"]}), 200)

    def embeddings(self):
        name = self.name("feature-extraction")
        return name and ("POST", "/v1/embeddings", json.dumps({"input": [self.some()["question"]] * 3, "model": name,
                                                               "encoding_format": "base64"}), 200)

    def classify(self):
        return self.to_model("text-classification", {"inputs": self.some()["context"]})

    def tags(self):
        return self.to_model("token-classification", {"inputs": self.some()["context"]})

    def words(self):
        return self.to_model("fill-mask", {"inputs": "[MASK] " + self.some()["question"]})

    def infer(self):
        name = self.name("question-answering")
        tensors = [{"name": field, "shape": [1], "datatype": "BYTES", "data": [text]} for field, text in self.some().items()]
        return name and ("POST", f"/v2/models/{name}/infer", json.dumps({"inputs": tensors}), 200)

    def form(self):
        name = self.name("question-answering")
        return name and ("POST", "/ask", f"model={name}&question=Who&context=Ada+in+Oslo", 200)

    def wrong(self):
        return self.to_model("question-answering", {"inputs": {"question": "Who?"}}) and (
            *self.to_model("question-answering", {"inputs": {"question": "Who?"}})[:3], 400)

    def unknown(self):
        return "POST", "/models/there-is-none", "{}", 404

    def look(self):
        return "GET", self.random.choice(["/", "/metrics", "/health", "/v1/models", "/openapi.json"]), None, 200

    def leave(self):
        return "LEAVE", "", None, 0

    def leave_early(self):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=60) as connection:
            body = json.dumps({"inputs": self.some()})
            connection.sendall(f"POST /models/{self.name('question-answering')} HTTP/1.1\r\nHost: localhost\r\n"
                               f"Content-Length: {len(body)}\r\n\r\n{body[:self.random.randint(0, len(body))]}".encode())

    def ask(self, method: str, path: str, body) -> int:
        if self.connection is None or self.random.random() < 0.1:
            if self.connection is not None:
                self.connection.close()
            self.connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=600)
        headers = {"Content-Type": "application/x-www-form-urlencoded" if path == "/ask" else "application/json"}
        self.connection.request(method, path, body, headers if body else {})
        reply = self.connection.getresponse()
        reply.read()
        return reply.status

    def one(self):
        kind = self.random.choice(self.kinds)
        method, path, body, expected = kind()
        try:
            if method == "LEAVE":
                self.leave_early()
                return
            status = self.ask(method, path, body)
        except (OSError, http.client.HTTPException):
            self.connection, self.cut = None, self.cut + 1
            return
        key = f"{kind.__name__} {status}"
        self.counts[key] = self.counts.get(key, 0) + 1
        if status != expected:
            self.unexpected.append(key)

    def run(self, end: float, rate: float):
        while time.monotonic() < end:
            self.one()
            time.sleep(self.random.expovariate(rate))


def tasks_of(server: Process) -> dict:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", "/v1/models")
    return {model["id"]: model["task"] for model in json.loads(connection.getresponse().read())["data"]}


def warm(server: Process, models: dict, questions: list):
    """Asks every model a batch as large as the server makes."""
    words = [question["context"] * 3 for question in questions[:64]]
    for name, task in models.items():
        inputs = {"question-answering": [{"question": "Who?", "context": text} for text in words],
                  "fill-mask": ["[MASK] " + text for text in words]}.get(task, words)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
        connection.request("POST", "/models/" + name, json.dumps({"inputs": inputs}), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        if reply.status != 200:
            sys.exit(f"{name}: {reply.status} {reply.read()[:200]}")
        connection.close()


def peaks(points: list, seconds: float) -> list:
    """The highest point between two reloads: a loaded model's buffers become resident only when they are first used."""
    periods = {}
    for point in points:
        period = int(point["seconds"] / seconds) if seconds else point["seconds"]
        periods[period] = max(periods.get(period, point), point, key=lambda one: one["rss"])
    return list(periods.values())


def slope(points: list) -> float:
    """Bytes an hour: the median of the slopes of all pairs, which a few high points do not move."""
    return statistics.median((b["rss"] - a["rss"]) / (b["seconds"] - a["seconds"]) * 3600
                             for i, a in enumerate(points) for b in points[i + 1:])


def settle(server: Process, descriptors: int):
    """Waits until the connections of clients that left are closed."""
    end = time.monotonic() + 60
    while server.state()["descriptors"] > descriptors and time.monotonic() < end:
        time.sleep(0.5)


def watch(server: Process, loads: list, args: argparse.Namespace) -> list:
    begin, points, reloaded, loadings, models = time.monotonic(), [], 0.0, 0, loads[0].models
    warm(server, models, loads[0].questions)
    while (now := time.monotonic() - begin) < 60 * args.minutes:
        if args.reload_seconds and now - reloaded > args.reload_seconds:
            server.process.send_signal(signal.SIGHUP)
            reloaded, loadings = now, loadings + 1
            server.wait_for_loading(loadings)
            warm(server, models, loads[0].questions)
        points.append({"seconds": round(now, 1), **server.state(),
                       "requests": sum(sum(load.counts.values()) for load in loads), "cut": sum(load.cut for load in loads)})
        print(json.dumps(points[-1]), flush=True)
        time.sleep(10)
    return points


def soak(server: Process, args: argparse.Namespace) -> int:
    questions, models = read_questions(args.data, seed=1), tasks_of(server)
    before = server.state()["descriptors"]
    loads = [Load(server, models, questions, seed) for seed in range(args.clients)]
    end = time.monotonic() + 60 * args.minutes
    threads = [threading.Thread(target=load.run, args=(end, args.rate / args.clients), daemon=True)
               for load in loads]
    for thread in threads:
        thread.start()
    points = watch(server, loads, args)
    for thread, load in zip(threads, loads):
        thread.join()
        if load.connection is not None:
            load.connection.close()
    settle(server, before)
    kept = points[len(points) // 6:]
    rises = slope(peaks(kept, args.reload_seconds))
    counts = {}
    for load in loads:
        for key, count in load.counts.items():
            counts[key] = counts.get(key, 0) + count
    after = server.state()["descriptors"]
    unexpected = [key for load in loads for key in load.unexpected]
    summary = {"requests": counts, "cut": sum(load.cut for load in loads), "slope_mib_per_hour": round(rises / MEBIBYTE, 3),
               "rss_mib": [round(min(p["rss"] for p in kept) / MEBIBYTE, 2), round(max(p["rss"] for p in kept) / MEBIBYTE, 2)],
               "descriptors": [before, min(p["descriptors"] for p in kept), max(p["descriptors"] for p in kept), after],
               "threads": [min(p["threads"] for p in kept), max(p["threads"] for p in kept)],
               "unexpected": sorted(set(unexpected))}
    server.process.terminate()
    summary["exit"] = server.process.wait(120)
    print(json.dumps(summary), flush=True)
    return int(rises * min(args.minutes / 60, 1) >= MEBIBYTE or after > before or bool(unexpected) or summary["exit"] != 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("berth")
    parser.add_argument("data")
    parser.add_argument("--model", action="append", required=True)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=8)
    parser.add_argument("--reload_seconds", type=float, default=300)
    parser.add_argument("--clients", type=int, default=4)
    args = parser.parse_args()
    words = [word for model in args.model for word in ("--model", model)]
    server = Process([args.berth, "serve", *words, "--port", "0", "--idle_timeout", "3600"])
    try:
        return soak(server, args)
    finally:
        server.process.terminate()


if __name__ == "__main__":
    sys.exit(main())
