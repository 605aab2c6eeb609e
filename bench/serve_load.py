#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads a running server with questions that arrive at random (open loop, Poisson):

    bench/serve_load.py URL SQUAD.json [--offline QUESTIONS_PER_SECOND] [--seconds N] [--seed N] [--batch_tokens N]

URL is that of a model with Hugging Face's API, http://localhost:8080/models/NAME. The phases, each a JSON object on a line:

idle       one request at a time
service    lists of questions, one list at a time: the time of a batch of so many tokens (of `berth serve`, which counts them)
saturated  64 requests are always waiting
poisson    arrivals at --rate, by default 0.4 and 0.8 of --offline (of the saturated rate if that is not given)

Arrivals do not wait for replies, so a slow server is not spared. Latencies are seconds from the moment a request was due.
"simulated" are those of a queue with one server that takes what waits up to --batch_tokens, with the same arrivals and
the service times of the first two phases. "client_cpu" is the share of one core that this program used itself.
"""
import argparse
import asyncio
import bisect
import collections
import http.client
import json
import pathlib
import random
import re
import time
import urllib.parse


def read_questions(path: str, seed: int) -> list:
    data = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["data"]
    questions = [{"question": question["question"], "context": paragraph["context"]}
                 for article in data for paragraph in article["paragraphs"] for question in paragraph["qas"]]
    random.Random(seed).shuffle(questions)
    return questions


class Connection(asyncio.Protocol):
    """A kept connection; `done` is called with the status of each reply."""

    def __init__(self):
        self.buffer, self.done = b"", None

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data: bytes):
        self.buffer += data
        head = self.buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        length = re.search(rb"\r\ncontent-length: *(\d+)", self.buffer[:head + 2], re.I)
        if len(self.buffer) >= head + 4 + int(length[1]):
            status, self.buffer = int(self.buffer[9:12]), b""
            done, self.done = self.done, None
            done(status)

    def connection_lost(self, error):
        if self.done is not None:
            self.done(0)


class Client:
    def __init__(self, url: str):
        parts = urllib.parse.urlsplit(url)
        self.host, self.port, self.path = parts.hostname, parts.port or 80, parts.path or "/"
        self.idle, self.cpu = collections.deque(), time.process_time()

    def encode(self, inputs) -> bytes:
        body = json.dumps({"inputs": inputs}).encode()
        return (f"POST {self.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode() + body

    async def open(self, count: int):
        loop = asyncio.get_running_loop()
        for _ in range(count):
            self.idle.append((await loop.create_connection(Connection, self.host, self.port))[1])

    def send(self, request: bytes, done):
        """Calls done(status) with the reply; 0: there is no connection, or it was cut."""
        while self.idle and self.idle[0].transport.is_closing():
            self.idle.popleft()
        if not self.idle:
            done(0)
            return
        connection = self.idle.popleft()  # each in turn, so that none is idle for long

        def finished(status: int):
            self.idle.append(connection)
            done(status)
        connection.done = finished
        connection.transport.write(request)

    async def ask(self, request: bytes) -> float:
        """Seconds until the reply."""
        future, begin = asyncio.get_running_loop().create_future(), time.perf_counter()
        self.send(request, lambda status: future.set_result(status))
        status = await future
        if status != 200:
            raise SystemExit(f"status {status}")
        return time.perf_counter() - begin

    def tokens(self):
        """Tokens that the model has read; None: the server does not count them."""
        connection = http.client.HTTPConnection(self.host, self.port)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        name = self.path.rpartition("/")[2]
        found = re.findall(r'^berth_tokens_total\{model="([^"]*)"\} (\d+)', text, re.M)
        return next((int(count) for own, count in found if name in ("", own)), None)

    def batch_tokens(self) -> int:
        connection = http.client.HTTPConnection(self.host, self.port)
        connection.request("GET", "/info")
        return json.loads(connection.getresponse().read())["max_batch_tokens"]

    def cpu_since(self, seconds: float) -> float:
        before, self.cpu = self.cpu, time.process_time()
        return round((self.cpu - before) / seconds, 4)


def quantiles(seconds: list) -> dict:
    seconds = sorted(seconds)
    return {name: round(seconds[min(int(share * len(seconds)), len(seconds) - 1)], 5)
            for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))} if seconds else {}


async def idle(client: Client, requests: list) -> tuple:
    """The result, and (tokens, seconds) of each request."""
    seconds, tokens = [], []
    for request in requests:
        before = client.tokens()
        seconds.append(await client.ask(request))
        tokens.append(client.tokens() - before if before is not None else 0)
    return {"phase": "idle", "requests": len(requests), **quantiles(seconds)}, list(zip(tokens, seconds))


async def lists(client: Client, questions: list, most_tokens: int) -> list:
    """(tokens, seconds) of lists up to the size of a batch: the median of five."""
    points, count = [], 2
    while points == [] or points[-1][0] < 0.8 * most_tokens and count <= 64:
        request, seconds = client.encode(questions[:count]), []
        before = client.tokens()
        for _ in range(5):
            seconds.append(await client.ask(request))
        tokens = (client.tokens() - before) // 5
        if tokens > most_tokens:
            break
        points.append((tokens, sorted(seconds)[2]))
        count += max(count // 2, 1)
    return points


async def saturate(client: Client, requests: list, duration: float) -> dict:
    begin, done = time.perf_counter(), 0

    async def always(number: int):
        nonlocal done
        while time.perf_counter() < begin + duration:
            await client.ask(requests[number % len(requests)])
            done += 1
            number += 64
    await asyncio.gather(*(always(number) for number in range(64)))
    seconds = time.perf_counter() - begin
    return {"phase": "saturated", "requests": done, "rate": round(done / seconds, 2), "client_cpu": client.cpu_since(seconds)}


class Service:
    """Seconds for a number of tokens: straight lines between the measured points, single requests by their medians."""

    def __init__(self, singles: list, batches: list):
        singles = sorted(singles)
        groups = [singles[i:i + 20] for i in range(0, len(singles), 20)]
        middles = [(sum(t for t, _ in group) / len(group), sorted(s for _, s in group)[len(group) // 2]) for group in groups]
        self.points = sorted(middles + batches)

    def __call__(self, tokens: float) -> float:
        at = min(max(bisect.bisect([t for t, _ in self.points], tokens), 1), len(self.points) - 1)
        (t0, s0), (t1, s1) = self.points[at - 1:at + 1]
        return s0 + (s1 - s0) * (tokens - t0) / (t1 - t0) if tokens > t0 else s0


def simulate(arrivals: list, tokens: list, service, most: int) -> dict:
    """Latencies of a queue with one server that takes all that waits, in batches of at most `most` tokens."""
    free, seconds, first = 0.0, [], 0
    while first < len(arrivals):
        start, end, size = max(free, arrivals[first]), first, 0
        while end < len(arrivals) and arrivals[end] <= start and (end == first or size + tokens[end] <= most):
            size += tokens[end]
            end += 1
        free = start + service(size)
        seconds += [free - arrival for arrival in arrivals[first:end]]
        first = end
    return quantiles(seconds)


async def poisson(client: Client, requests: list, arrivals: list) -> dict:
    loop = asyncio.get_running_loop()
    begin, seconds, statuses, finished = loop.time() + 0.05, [], {}, asyncio.Event()

    def ask(number: int):
        def done(status: int):
            statuses[status] = statuses.get(status, 0) + 1
            if status == 200:
                seconds.append(loop.time() - begin - arrivals[number])
            if sum(statuses.values()) == len(arrivals):
                finished.set()
        client.send(requests[number % len(requests)], done)
        if number + 1 < len(arrivals):
            loop.call_at(begin + arrivals[number + 1], ask, number + 1)
    loop.call_at(begin + arrivals[0], ask, 0)
    await finished.wait()
    duration = loop.time() - begin
    return {"statuses": statuses, **quantiles(seconds), "client_cpu": client.cpu_since(duration)}


def make_arrivals(rate: float, duration: float, seed: int) -> list:
    source, arrivals, at = random.Random(seed), [], 0.0
    while (at := at + source.expovariate(rate)) < duration:
        arrivals.append(at)
    return arrivals


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("data")
    parser.add_argument("--offline", type=float)
    parser.add_argument("--rate", type=float, nargs="*")
    parser.add_argument("--seconds", type=float, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch_tokens", type=int, help="of the simulated queue; default: the server's")
    parser.add_argument("--connections", type=int, default=512)
    args = parser.parse_args()
    client, questions = Client(args.url), read_questions(args.data, args.seed)
    requests = [client.encode(question) for question in questions]
    await client.open(args.connections)
    for request in requests[-20:]:
        await client.ask(request)
    result, points = await idle(client, requests[:100])
    print(json.dumps(result), flush=True)
    counts = client.tokens() is not None
    if counts:
        args.batch_tokens = args.batch_tokens or client.batch_tokens()
        service = Service(points, await lists(client, questions, args.batch_tokens))
        print(json.dumps({"phase": "service", "points": [(round(t), round(s, 5)) for t, s in service.points]}), flush=True)
    client.cpu_since(1)
    saturated = await saturate(client, requests, args.seconds / 2)
    print(json.dumps(saturated), flush=True)
    whole = args.offline or saturated["rate"]
    for rate in args.rate or (0.4 * whole, 0.8 * whole):
        arrivals = make_arrivals(rate, args.seconds, args.seed)
        found = {"phase": "poisson", "rate": round(rate, 2), "requests": len(arrivals),
                 **await poisson(client, requests, arrivals)}
        if counts:
            per_byte = sum(t for t, _ in points) / sum(map(len, requests[:100]))
            tokens = [per_byte * len(requests[i % len(requests)]) for i in range(len(arrivals))]
            found["simulated"] = simulate(arrivals, tokens, service, args.batch_tokens)
        found["p99_by_idle_p50"] = round(found["p99"] / result["p50"], 2)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
