#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads a running `berth serve` with questions that arrive at random (open loop, Poisson):

    bench/serve_load.py URL SQUAD.json [--rate REQUESTS_PER_SECOND ...] [--seconds N] [--seed N]

URL is that of a model, http://localhost:8080/models/NAME. First measures an idle server (one request at a time), then the
rate at which 64 requests that are always waiting are answered, then each --rate (default: 0.4 and 0.8 of that rate).
Arrivals do not wait for replies, so a slow server is not spared. Prints one JSON object a line: requests, replies by
status, latencies in seconds from the moment a request was due, and those of a queue with one server, simulated with the
same arrivals and the mean service time at saturation.
"""
import argparse
import asyncio
import json
import pathlib
import random
import time
import urllib.parse


def read_questions(path: str, seed: int) -> list:
    data = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["data"]
    bodies = [json.dumps({"inputs": {"question": question["question"], "context": paragraph["context"]}}).encode()
              for article in data for paragraph in article["paragraphs"] for question in paragraph["qas"]]
    random.Random(seed).shuffle(bodies)
    return bodies


class Client:
    """Connections that are kept and reused."""

    def __init__(self, url: str):
        parts = urllib.parse.urlsplit(url)
        self.host, self.port, self.path = parts.hostname, parts.port or 80, parts.path or "/"
        self.idle = []

    async def ask(self, body: bytes) -> int:
        """Posts the body; returns the status."""
        reader, writer = self.idle.pop() if self.idle else await asyncio.open_connection(self.host, self.port)
        writer.write(f"POST {self.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        await reader.readexactly(int(head.split("content-length:")[1].split()[0]))
        if "connection: close" in head:
            writer.close()
        else:
            self.idle.append((reader, writer))
        return int(head.split()[1])


def quantiles(seconds: list) -> dict:
    seconds = sorted(seconds)
    return {name: seconds[min(int(share * len(seconds)), len(seconds) - 1)]
            for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))} if seconds else {}


async def idle(client: Client, bodies: list, count: int) -> dict:
    seconds = []
    for body in bodies[:count]:
        begin = time.perf_counter()
        await client.ask(body)
        seconds.append(time.perf_counter() - begin)
    return {"phase": "idle", "requests": count, **quantiles(seconds)}


async def saturate(client: Client, bodies: list, duration: float) -> dict:
    begin, done = time.perf_counter(), 0

    async def always(start: int):
        nonlocal done
        number = start
        while time.perf_counter() < begin + duration:
            await client.ask(bodies[number % len(bodies)])
            done += 1
            number += 64
    await asyncio.gather(*(always(start) for start in range(64)))
    return {"phase": "saturated", "requests": done, "rate": done / (time.perf_counter() - begin)}


def simulate(arrivals: list, service: float) -> dict:
    """Latencies of a queue with one server that takes requests one by one."""
    free, seconds = 0.0, []
    for arrival in arrivals:
        free = max(free, arrival) + service
        seconds.append(free - arrival)
    return quantiles(seconds)


async def poisson(client: Client, bodies: list, rate: float, duration: float, service: float, seed: int) -> dict:
    source = random.Random(seed)
    arrivals, at = [], 0.0
    while (at := at + source.expovariate(rate)) < duration:
        arrivals.append(at)
    begin, seconds, statuses = time.perf_counter(), [], {}

    async def one(arrival: float, body: bytes):
        await asyncio.sleep(begin + arrival - time.perf_counter())
        status = await client.ask(body)
        statuses[status] = statuses.get(status, 0) + 1
        if status == 200:
            seconds.append(time.perf_counter() - begin - arrival)
    await asyncio.gather(*(one(arrival, bodies[i % len(bodies)]) for i, arrival in enumerate(arrivals)))
    return {"phase": "poisson", "rate": rate, "requests": len(arrivals), "statuses": statuses, **quantiles(seconds),
            "simulated": simulate(arrivals, service)}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("data")
    parser.add_argument("--rate", type=float, nargs="*")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    client, bodies = Client(args.url), read_questions(args.data, args.seed)
    print(json.dumps(await idle(client, bodies, 100)), flush=True)
    saturated = await saturate(client, bodies, args.seconds)
    print(json.dumps(saturated), flush=True)
    for rate in args.rate or (0.4 * saturated["rate"], 0.8 * saturated["rate"]):
        print(json.dumps(await poisson(client, bodies, rate, args.seconds, 1 / saturated["rate"], args.seed)), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
