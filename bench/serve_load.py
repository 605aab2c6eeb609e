#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads a running server with questions that arrive at random (open loop, Poisson):

    bench/serve_load.py URL SQUAD.json [--offline QUESTIONS_PER_SECOND] [--seconds N] [--seed N] [--questions N]

URL is that of a model with Hugging Face's API, http://localhost:8080/models/NAME; `berth serve` started with --idle_timeout 3600
keeps the connections open. All phases ask the same --questions questions. The phases, each a JSON object on a line:

idle       each question alone, one after the other
service    lists of questions, one list after the other: the time of a batch of so many tokens (of `berth serve`, which counts them)
saturated  64 requests are always waiting
poisson    arrivals at --rate, by default 0.4 and 0.8 of --offline (of the saturated rate if that is not given)

Arrivals do not wait for replies, so a slow server is not spared. Latencies are seconds from the moment a request was due.
"simulated" is a queue with one server and the same arrivals, which forms batches as `berth serve` does: when it is free it takes
what waits, in its order, up to the batch's tokens. A question has the tokens that it had alone, a batch takes the
seconds that the first two phases measured for its tokens. So the simulated rate of "saturated" should be about the measured one,
and "batch_tokens", the mean of a batch, tells whether batches were formed so. "client_cpu" is the share of one core that
this program used itself.
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
import statistics
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
        """Connections with a first reply: those that never ask are soon cut."""
        loop = asyncio.get_running_loop()
        for _ in range(count):
            connection, future = (await loop.create_connection(Connection, self.host, self.port))[1], loop.create_future()
            connection.done = future.set_result
            connection.transport.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await future
            self.idle.append(connection)

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

    def count(self, metric: str):
        """The model's metric; None: the server does not have it."""
        connection = http.client.HTTPConnection(self.host, self.port)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        name = self.path.rpartition("/")[2]
        found = re.findall(rf'^{metric}\{{model="([^"]*)"\}} (\d+)', text, re.M)
        return next((int(count) for own, count in found if name in ("", own)), None)

    def tokens(self):
        return self.count("berth_tokens_total")

    def batches(self) -> tuple:
        """Tokens and number of all batches."""
        return self.count("berth_batch_tokens_sum"), self.count("berth_batch_tokens_count")

    def info(self) -> dict:
        connection = http.client.HTTPConnection(self.host, self.port)
        connection.request("GET", "/info")
        return json.loads(connection.getresponse().read())

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


class Tokens:
    """Of each question: those that the model read (`read`) and those that the queue counts (`counted`), which are twice the
    text's if it is read in windows."""

    def __init__(self, points: list, longest: int, stride: int):
        self.read = [tokens for tokens, _ in points]
        windows = [-(-tokens // longest) for tokens in self.read]
        self.counted = [tokens if count == 1 else 2 * (tokens - (count - 1) * (longest - stride))
                        for tokens, count in zip(self.read, windows)]

    def batch(self, numbers, most: int) -> list:
        """The first of these questions, up to `most` tokens."""
        batch, size = [], 0
        for number in numbers:
            size += self.counted[number % len(self.counted)]
            if batch and size > most:
                break
            batch.append(number % len(self.counted))
        return batch

    def sum(self, batch: list) -> int:
        return sum(self.read[number] for number in batch)


async def lists(client: Client, questions: list, tokens: Tokens, most: int) -> list:
    """(tokens, seconds) of batches of up to 2 to 8 eighths of `most` tokens: the medians of seven lists of each size."""
    points, first = [], 0
    for eighths in range(2, 9):
        found = []
        for _ in range(7):
            batch = tokens.batch(range(first, first + len(questions)), most * eighths // 8)
            first += len(batch)
            found.append((tokens.sum(batch), await client.ask(client.encode([questions[number] for number in batch]))))
        points.append((statistics.median(size for size, _ in found), statistics.median(seconds for _, seconds in found)))
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


def simulate(arrivals: list, tokens: Tokens, service, most: int) -> dict:
    """A queue with one server that takes what waits, in batches of at most `most` tokens."""
    free, seconds, first, batches = 0.0, [], 0, 0
    while first < len(arrivals):
        start = max(free, arrivals[first])
        batch = tokens.batch(range(first, bisect.bisect(arrivals, start)), most)
        free = start + service(tokens.sum(batch))
        seconds += [free - arrival for arrival in arrivals[first:first + len(batch)]]
        first, batches = first + len(batch), batches + 1
    return {**quantiles(seconds), "rate": round(len(arrivals) / free, 2),
            "batch_tokens": round(tokens.sum([i % len(tokens.read) for i in range(len(arrivals))]) / batches)}


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
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--batch_tokens", type=int, help="of the simulated queue; default: the server's")
    parser.add_argument("--stride", type=int, default=128, help="the server's --doc_stride")
    parser.add_argument("--connections", type=int, default=512)
    args = parser.parse_args()
    client, questions = Client(args.url), read_questions(args.data, args.seed)[:args.questions]
    requests = [client.encode(question) for question in questions]
    await client.open(args.connections)
    for request in requests[-20:]:
        await client.ask(request)
    result, points = await idle(client, requests)
    print(json.dumps(result), flush=True)
    counts = client.tokens() is not None
    if counts:
        info = client.info()
        most, tokens = args.batch_tokens or info["max_batch_tokens"], Tokens(points, info["max_input_length"], args.stride)
        service = Service(points, await lists(client, questions, tokens, most))
        print(json.dumps({"phase": "service", "points": [(round(t), round(s, 5)) for t, s in service.points]}), flush=True)
    client.cpu_since(1)
    saturated = await saturate(client, requests, args.seconds / 2)
    if counts:
        saturated["simulated"] = simulate([0.0] * saturated["requests"], tokens, service, most)["rate"]
    print(json.dumps(saturated), flush=True)
    whole = args.offline or saturated["rate"]
    for rate in args.rate or (0.4 * whole, 0.8 * whole):
        arrivals = make_arrivals(rate, args.seconds, args.seed)
        before = client.batches()
        found = {"phase": "poisson", "rate": round(rate, 2), "requests": len(arrivals),
                 **await poisson(client, requests, arrivals)}
        found["p99_by_idle_p50"] = round(found["p99"] / result["p50"], 2)
        if counts:
            read, batches = (after - own for after, own in zip(client.batches(), before))
            found["batch_tokens"] = round(read / batches)
            found["simulated"] = simulate(arrivals, tokens, service, most)
            found["p99_by_simulated"] = round(found["p99"] / found["simulated"]["p99"], 2)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
