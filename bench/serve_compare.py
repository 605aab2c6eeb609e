#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares `berth serve` with servers that pad, at equal p99:

    bench/serve_compare.py BERTH MODEL_FOLDER SQUAD.json [--python PYTHON] [--precision fp32|bf16|int8] [--threads N] ...

Starts one server after the other: ONNX Runtime (not in bf16, which it does not have on a CPU), PyTorch and `berth serve`, all in
the same precision, and asks each the same questions.

1. Of each peer: questions a second with 64 always waiting, and the p99 of arrivals at random (open loop, as in
   bench/serve_load.py) at rates from 0.15 to 0.8 of this one.
2. Of Berth: the p99 at rates from 0.25 to 0.95 of its own.
3. For each of the peers' p99: the highest rate at which Berth's is not longer, by straight lines between its rates.

All open loops have the same questions at the same times, but for the rate. Questions of more than --longest characters are left
out, since the peers would truncate them to 384 tokens and Berth would read them whole. PYTHON needs what bench/serve_padded.py
needs. Prints a JSON object for each measurement; nothing else should run on the machine. About eight minutes.

    bench/serve_compare.py BERTH MODEL_FOLDER TEXTS --peers infinity-torch infinity-onnx fastembed [--python PYTHON] ...

With these peers the model is one for embeddings (MiniLM's geometry for fastembed), and TEXTS has one a line. Prints texts a
second of Berth and of each peer, which take turns, and the largest difference of their vectors (bench/serve_embeddings.py).
"""
import argparse
import asyncio
import json
import os
import pathlib
import subprocess
import sys
import time

import serve_embeddings
import serve_load

PEER_SHARES = (0.15, 0.25, 0.4, 0.6, 0.8)
OWN_SHARES = (0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 0.88, 0.95)
WAITING = 64


class Server:
    """A process that answers questions; `with` ends it."""

    def __init__(self, kind: str, args: argparse.Namespace):
        port, threads = str(serve_embeddings.free_port()), str(args.threads)
        if kind == "berth":
            words = [args.berth, "serve", "--model", "qa=" + args.model, "--precision", args.precision, "--idle_timeout", "3600",
                     *args.option]
        else:
            dtype = {"fp32": "float32", "bf16": "bfloat16", "int8": "int8"}[args.precision]
            words = [args.python, str(pathlib.Path(__file__).with_name("serve_padded.py")), kind, args.model, "--dtype", dtype]
        self.url = f"http://127.0.0.1:{port}/models/qa"
        self.process = subprocess.Popen([*words, "--port", port, "--threads", threads], stdout=subprocess.DEVNULL,
                                        stderr=None if args.verbose else subprocess.DEVNULL,
                                        env={**os.environ, "OMP_NUM_THREADS": threads})

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.process.terminate()
        self.process.wait()

    async def client(self, request) -> serve_load.Client:
        """A connected client, when the server has answered a request."""
        end = time.monotonic() + 300
        while time.monotonic() < end and self.process.poll() is None:
            try:
                client = serve_load.Client(self.url)
                await client.open(1)
                if await answered(client, request):
                    await client.open(511)
                    return client
            except OSError:
                pass
            await asyncio.sleep(0.3)
        sys.exit(f"the server did not begin to answer: {self.process.args}")


async def answered(client: serve_load.Client, question: dict) -> bool:
    future = asyncio.get_running_loop().create_future()
    client.send(client.encode(question), future.set_result)
    return await future == 200


async def measure(kind: str, shares: tuple, questions: list, args: argparse.Namespace) -> tuple:
    """The saturated rate, and (rate, p99) for each share of it."""
    points = []
    with Server(kind, args) as server:
        client = await server.client(questions[0])
        requests = [client.encode(question) for question in questions]
        for request in requests[-20:]:
            await client.ask(request)
        idle, _ = await serve_load.idle(client, requests[:60])
        saturated = await serve_load.saturate(client, requests, args.seconds)
        print(json.dumps({"server": kind, "idle_p50": idle["p50"], "idle_p99": idle["p99"], "saturated": saturated["rate"]}), flush=True)
        for share in shares:
            rate = share * saturated["rate"]
            arrivals = [at / rate for at in args.arrivals]
            found = await serve_load.poisson(client, requests, arrivals)
            if set(found["statuses"]) != {200}:
                sys.exit(f"{kind}: unexpected replies: {found['statuses']}")
            points.append((rate, found["p99"]))
            print(json.dumps({"server": kind, "share": share, "rate": round(rate, 2), "p50": found["p50"], "p99": found["p99"]}),
                  flush=True)
    return saturated["rate"], points


def rate_at(points: list, p99: float) -> float:
    """The highest rate at which the p99 is not longer; 0: lower than all that were measured. A p99 cannot really fall when
    the rate rises, so where one does, the longer one counts."""
    last_rate, last = 0.0, 0.0
    for rate, own in points:
        own = max(own, last)
        if own > p99:
            return last_rate + (rate - last_rate) * (p99 - last) / (own - last) if last_rate > 0 else 0.0
        last_rate, last = rate, own
    return last_rate


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("berth")
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--python", default=sys.executable, help="runs the peers")
    parser.add_argument("--precision", choices=["fp32", "bf16", "int8"], default="fp32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peers", nargs="*", choices=["torch", "onnx", *serve_embeddings.PEERS])
    parser.add_argument("--texts", type=int, default=1024, help="of the file, in each turn")
    parser.add_argument("--list", type=int, default=32, help="texts of a request")
    parser.add_argument("--batch", type=int, default=32, help="texts of a peer's batch")
    parser.add_argument("--waiting", type=int, default=8, help="requests at a time")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--requests", type=int, default=600, help="of each open loop")
    parser.add_argument("--seconds", type=float, default=10, help="for each saturated rate")
    parser.add_argument("--longest", type=int, default=1400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--option", action="append", default=[], metavar="--NAME=VALUE", help="of `berth serve`; may be repeated")
    parser.add_argument("--verbose", action="store_true", help="show what the servers say")
    args = parser.parse_args()
    if args.peers and set(args.peers) <= set(serve_embeddings.PEERS):
        serve_embeddings.compare(args)
        return
    every = serve_load.read_questions(args.data, args.seed)
    questions = [question for question in every if len(question["question"]) + len(question["context"]) <= args.longest]
    args.arrivals = serve_load.make_arrivals(1, 10 * args.requests, args.seed)[:args.requests]
    print(json.dumps({"questions": len(questions), "left_out": len(every) - len(questions), "precision": args.precision}), flush=True)
    peers = args.peers or (["torch"] if args.precision == "bf16" else ["onnx", "torch"])
    found = {kind: await measure(kind, PEER_SHARES, questions, args) for kind in peers}
    own_rate, points = await measure("berth", OWN_SHARES, questions, args)
    for kind, (saturated, levels) in found.items():
        print(json.dumps({"peer": kind, "ratio_saturated": round(own_rate / saturated, 2),
                          "at_equal_p99": [{"p99": p99, "peer": round(rate, 2), "berth": round(rate_at(points, p99), 2),
                                            "ratio": round(rate_at(points, p99) / rate, 2)} for rate, p99 in levels]}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
