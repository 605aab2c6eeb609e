# SPDX-License-Identifier: Apache-2.0
"""What the server refuses, and that clients who misbehave do not disturb others."""
import gzip
import http.client
import json
import os
import pathlib
import re
import resource
import select
import socket
import threading
import time
import unittest

from server import CONTEXT, IS_SLOW, PATIENCE, QUESTION, Server

ASK = json.dumps({"inputs": QUESTION}).encode()


def post(body: bytes, *headers: bytes, path: bytes = b"/") -> bytes:
    lines = [b"POST " + path + b" HTTP/1.1", b"Host: localhost", *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def length(body: bytes) -> bytes:
    return b"Content-Length: %d" % len(body)


def statuses(reply: bytes) -> list:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", reply)]


class Framing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--max_body_bytes", "20000", "--header_timeout", "5", "--body_timeout", "5",
                            models=["qa=qa"])
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    def test_requests_that_two_servers_may_read_differently(self):
        # A second request hides in the body of each; it is never answered.
        inner = post(ASK, length(ASK))
        for headers in ([b"Content-Length: 0", b"Content-Length: %d" % len(inner)],
                        [b"Content-Length: 4", b"Transfer-Encoding: chunked"],
                        [b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"],
                        [b"Transfer-Encoding: chunked, identity"], [b"Transfer-Encoding: xchunked"],
                        [b"Content-Length: +5"], [b"Content-Length: 0x5"], [b"Content-Length: 5, 5"],
                        [b"Host: evil"]):
            reply = self.server.raw(post(b"0\r\n\r\n" + inner, *headers))
            self.assertTrue(statuses(reply) and set(statuses(reply)) <= {400, 403, 501}, (headers, reply))
        self.assertEqual(statuses(self.server.raw(post(inner, b"Content-Length : %d" % len(inner)))), [400])

    def test_sizes(self):
        for request, status in [
                (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414),
                (post(b"", b"X: " + b"a" * 40000), 431), (post(b"", *[b"X: 1"] * 101), 431),
                (post(b" " * 20001, b"Content-Length: 20001"), 413), (post(b"", b"Content-Length: 9" + b"9" * 30), 413)]:
            reply = self.server.raw(request)
            self.assertEqual(statuses(reply)[:1], [status], reply[:200])
        chunk = b"%x\r\n%s\r\n" % (10001, b" " * 10001)
        self.assertEqual(statuses(self.server.raw(post(chunk * 2 + b"0\r\n\r\n", b"Transfer-Encoding: chunked"))), [413])
        exactly = ASK + b" " * (20000 - len(ASK))
        self.assertEqual(self.server.status("/", exactly), 200)
        self.assertEqual(self.server.status("/", exactly + b" "), 413)

    def test_pieces_after_a_refused_one_take_nothing_from_others(self):
        # 540 MB, more than all bodies may take together, none of which is kept.
        for _ in range(9):
            with self.refused_chunks() as connection:
                self.send_chunks(connection, 5000, 12000)
                connection.sendall(b"0\r\n\r\n")
                self.assertEqual(statuses(connection.recv(65536)), [413])
        self.assertEqual(self.server.status("/", ASK), 200)

    def test_a_refused_body_without_an_end_is_cut(self):
        with self.refused_chunks() as connection, self.assertRaises((ConnectionResetError, BrokenPipeError)):
            self.send_chunks(connection, 5000, 40000)
        self.assertEqual(self.server.status("/", ASK), 200)

    @staticmethod
    def send_chunks(connection: socket.socket, size: int, times: int):
        chunk = b"%x\r\n%s\r\n" % (size, b" " * size)
        for done in range(0, times, 200):
            connection.sendall(chunk * min(200, times - done))

    def refused_chunks(self) -> socket.socket:
        """A connection with a body that has become too large."""
        connection = socket.create_connection(("127.0.0.1", self.server.port), timeout=PATIENCE)
        connection.sendall(post(b"", b"Transfer-Encoding: chunked", b"Connection: close"))
        time.sleep(0.2)  # so that each of the next two chunks is read as a whole
        self.send_chunks(connection, 10000, 1)
        time.sleep(0.2)
        self.send_chunks(connection, 10001, 1)
        return connection

    def test_chunked_body(self):
        parts = b"".join(b"%x\r\n%s\r\n" % (len(ASK[i:i + 7]), ASK[i:i + 7]) for i in range(0, len(ASK), 7))
        reply = self.server.raw(post(parts + b"0\r\n\r\n", b"Transfer-Encoding: chunked", b"Connection: close"))
        self.assertEqual(statuses(reply), [200])

    def test_pipelined_requests(self):
        both = post(ASK, length(ASK)) + post(ASK, length(ASK), b"Connection: close")
        self.assertEqual(statuses(self.server.raw(both)), [200, 200])

    def test_targets_that_are_urls(self):
        for target, status in [(b"http://localhost/health", 200), (b"http://localhost:80/health", 200),
                               (b"http://localhost", 200), (b"http://localhost/none", 404), (b"x", 404)]:
            reply = self.server.raw(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            self.assertEqual(statuses(reply), [status], target)

    def test_metrics_count_what_cannot_be_read(self):
        name = 'berth_requests_total{model="qa",code="400"}'
        self.server.status("/models/qa", "{bad")
        before = self.server.metric(name)
        for path in ("/models/qa", "/", "/models/none"):
            self.assertEqual(self.server.status(path, "{bad"), 400)
        self.assertEqual(self.server.metric(name), before + 2)

    def test_paths_methods_and_types(self):
        for path, method, status in [("/../../etc/passwd", "GET", 404), ("/%2e%2e/%2e%2e/etc/passwd", "GET", 404),
                                     ("/models/", "POST", 404), ("/models/a/b", "POST", 404), ("/health", "POST", 405),
                                     ("/models/qa", "GET", 405), ("/", "DELETE", 405), ("/health", "HEAD", 200)]:
            self.assertEqual(self.server.status(path, "" if method == "POST" else None, method=method), status, path)
        self.assertEqual(self.server.ask("/health", "", method="POST")[1]["Allow"], "GET, HEAD")
        self.assertEqual(self.server.status("/", ASK, headers={"Content-Type": "text/plain"}), 415)
        self.assertEqual(self.server.status("/", ASK, headers={"Content-Type": "application/json; charset=utf-8"}), 200)
        self.assertEqual(self.server.status("/", ASK, headers={"Content-Type": "application/json-seq"}), 415)
        status, _, content = self.server.ask("/", gzip.compress(ASK), headers={"Content-Encoding": "gzip"})
        self.assertEqual(status, 415)
        self.assertIn("Content-Encoding", content["error"]["message"])
        self.assertEqual(self.server.status("/", ASK, headers={"Content-Encoding": "identity"}), 200)

    def test_other_sites(self):
        port = self.server.port
        for host, status in [("localhost", 200), (f"localhost:{port}", 200), ("127.0.0.1", 200), ("[::1]:80", 200),
                             ("192.0.2.1", 200), ("evil.example", 403), (f"localhost.evil.example:{port}", 403),
                             ("127.0.0.1.evil.example", 403), ("", 400)]:
            self.assertEqual(self.server.status("/health", headers={"Host": host}), status, host)
        self.assertEqual(set(statuses(self.server.raw(b"GET /health HTTP/1.1\r\n\r\n"))), {400})
        for headers, status in [(b"", 200), (b"Host: evil.example\r\n", 403), (b"Host:\r\n", 400),
                                (b"Origin: http://localhost\r\n", 403)]:  # HTTP/1.0 has no Host
            reply = self.server.raw(b"GET /health HTTP/1.0\r\n" + headers + b"\r\n")
            self.assertEqual(statuses(reply), [status], headers)
        for origin, status in [(f"http://127.0.0.1:{port}", 200), ("http://evil.example", 403), ("null", 403),
                               (f"http://127.0.0.1:{port + 1}", 403)]:
            headers = {"Host": f"127.0.0.1:{port}", "Origin": origin}
            self.assertEqual(self.server.status("/", ASK, headers=headers), status, origin)

    def test_drips_are_cut(self):
        for request in (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ", post(b"", length(ASK))):
            with socket.create_connection(("127.0.0.1", self.server.port)) as connection:
                connection.sendall(request)
                begin = time.monotonic()
                while time.monotonic() < begin + 20:
                    try:
                        connection.sendall(b"a")
                    except OSError:
                        break
                    if select.select([connection], [], [], 0.2)[0]:
                        break
                self.assertLess(time.monotonic() - begin, 18)
                self.assertGreater(time.monotonic() - begin, 4)

    def test_idle_connections_and_drips_disturb_nobody(self):
        before = self.server.metric("process_open_fds")
        idle = [socket.create_connection(("127.0.0.1", self.server.port)) for _ in range(1000)]
        for i, connection in enumerate(idle):
            connection.sendall([b"", b"G", b"GET / HTTP/1.1\r\nHost: local", post(ASK[:5], length(ASK))][i % 4])
        self.assertGreater(self.server.metric("process_open_fds"), before + 900)
        slowest, end = 0.0, time.monotonic() + 4
        while time.monotonic() < end:
            begin = time.monotonic()
            self.assertEqual(self.server.status("/health"), 200)
            self.assertEqual(self.server.status("/", ASK), 200)
            slowest = max(slowest, time.monotonic() - begin)
        self.assertLess(slowest, 4)  # less than a drip may take, 5 s
        end = time.monotonic() + 30
        while self.server.metric("process_open_fds") > before + 5 and time.monotonic() < end:
            time.sleep(0.1)
        self.assertLessEqual(self.server.metric("process_open_fds"), before + 5)
        for connection in idle:
            connection.close()

    def test_metrics_when_descriptors_run_out(self):
        most = 100
        with Server(models=["qa=qa"], preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))) as server:
            with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as first:
                first.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertEqual(statuses(first.recv(65536)), [200])
                others = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(most)]
                while len(os.listdir(f"/proc/{server.process.pid}/fd")) < most:
                    time.sleep(0.01)
                first.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                text = b"".join(iter(lambda: first.recv(65536), b"")).decode()
                self.assertEqual(re.findall(r"^process_\w+_fds (.*)$", text, re.M), [str(most)] * 2)
                for connection in others:
                    connection.close()

    def test_clients_that_leave_in_mid_body(self):
        """Their connections end soon, even if the last bytes and the end arrive together; slow ones stay."""
        with Server("--body_timeout", "60", models=["qa=qa"]) as server:
            before, part = server.wait_for_descriptors(0, 0), post(ASK[:20], length(ASK))
            slow = socket.create_connection(("127.0.0.1", server.port))
            slow.sendall(part)
            for pause in [0, 0.001] * 40:
                with socket.create_connection(("127.0.0.1", server.port)) as connection:
                    connection.sendall(part[:-10])
                    time.sleep(pause)
                    connection.sendall(part[-10:])
            self.assertEqual(server.wait_for_descriptors(before + 1), before + 1)
            slow.sendall(ASK[20:])
            self.assertEqual(statuses(slow.recv(65536)), [200])
            slow.close()

    def test_clients_that_leave(self):
        """Nothing is computed for those who have left while they waited."""
        one, many = {"question": "Who?", "context": CONTEXT * 100}, 200 if IS_SLOW else 1000
        tokens, left = 'berth_tokens_total{model="qa"}', 'berth_requests_total{model="qa",code="499"}'
        with Server("--max_body_bytes", "8000000", models=["qa=qa"]) as server:
            server.json("/", {"inputs": one})
            each, descriptors, found = server.metric(tokens), server.wait_for_descriptors(0, 0), []
            patient = threading.Thread(target=lambda: found.append(server.status("/", {"inputs": [one] * many})))
            patient.start()
            while server.metric('berth_queue_length{model="qa"}') < 3 * many // 4:
                time.sleep(0.005)
            leaving = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(10)]
            large = json.dumps({"inputs": [one, one]}).encode()  # waits for its turn after the patient client's
            for connection in leaving:
                connection.sendall(post(large, length(large)))
            time.sleep(0.1)
            for connection in leaving:
                connection.close()
            patient.join()
            end = time.monotonic() + 10
            while server.metric(left) < 1 and time.monotonic() < end:
                time.sleep(0.01)
            self.assertGreater(server.metric(left), 0)
            self.assertEqual((found, server.metric(tokens)), ([200], (many + 1) * each))
            self.assertLessEqual(server.wait_for_descriptors(descriptors), descriptors)
            self.assertEqual(server.status("/", ASK), 200)


class Overload(unittest.TestCase):
    def test_refused_when_full(self):
        long = {"inputs": {"question": "Who?", "context": CONTEXT * 500}}
        with Server("--max_queue", "4", models=["qa=qa"]) as server:
            found = []

            def ask():
                status, headers, content = server.ask("/", long)
                found.append((status, headers["Retry-After"], content))
            for _ in range(2):
                threads = [threading.Thread(target=ask) for _ in range(40)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            refused = [content for status, retry, content in found if status == 503 and retry == "1"]
            answered = [content for status, _, content in found if status == 200]
            self.assertEqual(len(refused) + len(answered), 80)
            self.assertGreaterEqual(len(answered), 8)
            self.assertGreater(len(refused), 20)
            self.assertRegex(refused[0]["error"]["message"], r"^\d texts are waiting and this request has 1, but --max_queue is 4;")
            self.assertEqual(server.metric('berth_requests_total{model="qa",code="503"}'), len(refused))
            self.assertEqual(server.status("/", {"inputs": [QUESTION] * 5}), 400)  # it would never be accepted

    @unittest.skipIf(IS_SLOW, "the address sanitizer keeps what is freed for a while")
    def test_memory_is_flat_under_overload(self):
        """Many more requests than can be answered: the rest is refused, and memory does not grow."""
        long = json.dumps({"inputs": {"question": "Who?", "context": CONTEXT * 100}}).encode()
        request = post(long, length(long))
        with Server("--max_queue", "8", "--doc_stride", "8", models=["qa=qa"]) as server:  # few bytes, many windows
            counts, end = {200: 0, 503: 0}, time.monotonic() + 9

            def flood():
                with socket.create_connection(("127.0.0.1", server.port)) as connection, connection.makefile("rb") as reader:
                    while time.monotonic() < end:
                        connection.sendall(request)
                        status, size = int(reader.readline().split()[1]), 0
                        while (header := reader.readline().strip().lower()) != b"":
                            size = int(header[15:]) if header.startswith(b"content-length:") else size
                        reader.read(size)
                        counts[status] += 1
            threads = [threading.Thread(target=flood) for _ in range(40)]
            for thread in threads:
                thread.start()
            time.sleep(3)
            resident = [server.metric("process_resident_memory_bytes")]
            slowest = 0.0
            while time.monotonic() < end:
                begin = time.monotonic()
                resident.append(server.metric("process_resident_memory_bytes"))
                slowest = max(slowest, time.monotonic() - begin)
                time.sleep(0.2)
            for thread in threads:
                thread.join()
            self.assertGreater(counts[200], 10)
            self.assertGreater(counts[503], counts[200], counts)
            self.assertLess(max(resident) - resident[0], 2 << 20, resident)
            self.assertLess(slowest, 3)  # half of the time in which it was asked

    @unittest.skipIf(IS_SLOW, "the address sanitizer keeps what is freed for a while")
    def test_memory_goes_back(self):
        """What many clients needed at once is given back, although some of them stay."""
        part = post(b" " * 120000, b"Content-Length: 120001")  # smaller than what malloc maps
        with Server(models=["qa=qa"]) as server:
            def resident():
                return server.metric("process_resident_memory_bytes")
            server.json("/", {"inputs": QUESTION})
            before = resident()
            connections = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(400)]
            for connection in connections:
                connection.sendall(part)
            end = time.monotonic() + 20
            while resident() < before + (40 << 20) and time.monotonic() < end:
                time.sleep(0.1)
            self.assertGreater(resident(), before + (40 << 20))
            for i, connection in enumerate(connections):
                if i % 20 != 19:
                    connection.sendall(b" ")  # the whole body: the server refuses it and forgets it
            end = time.monotonic() + 20
            while resident() > before + (20 << 20) and time.monotonic() < end:
                time.sleep(0.1)
            self.assertLess(resident(), before + (20 << 20))
            for connection in connections:
                connection.close()

    def test_clients_take_turns(self):
        """A client with one question does not wait for the hundred questions of another, nor of another behind its proxy."""
        with Server("--host", "::", models=["qa=qa"]) as server:
            many = {"inputs": [{"question": "Who?", "context": CONTEXT * 100}] * 200}
            done = []

            def ask(address: str, body: dict):
                connection = socket.create_connection((address, server.port))
                data = json.dumps(body).encode()
                connection.sendall(post(data, length(data), b"Connection: close"))
                while connection.recv(65536):
                    pass
                done.append(address)
                connection.close()
            for own in ("::1", "127.0.0.1"):
                first = threading.Thread(target=ask, args=("127.0.0.1", many))
                first.start()
                while server.metric('berth_queue_length{model="qa"}') < 50:
                    time.sleep(0.01)
                ask(own, {"inputs": QUESTION})
                self.assertGreater(server.metric('berth_queue_length{model="qa"}'), 0)
                first.join()
                self.assertEqual(done, [own, "127.0.0.1"])
                done.clear()


class LargeBodies(unittest.TestCase):
    """Bodies of a mebibyte, of another client: nobody else waits for them."""
    MEBIBYTE = 1 << 20

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--max_queue", "8000", models=["qa=qa", "similar=other", "slow=slow"])
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    @staticmethod
    def question(context: str) -> bytes:
        return json.dumps({"inputs": {"question": "Who?", "context": context}}, ensure_ascii=False).encode()

    def send(self, path: str, body: bytes, kind: str = "application/json") -> int:
        """The status that another client receives."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE, source_address=("127.0.0.2", 0))
        connection.request("POST", path, body, {"Content-Type": kind})
        reply = connection.getresponse()
        reply.read()
        connection.close()
        return reply.status

    def assert_not_waited(self, slowest: float, whole: float):
        """Who waits for all bodies of a flood waits for most of its time, on a machine of any speed."""
        self.assertLess(slowest, max(1, whole / 2))

    def test_many_values_are_refused(self):
        for body in (b'{"inputs": [' + b"[]," * 300000 + b"[]]}", b'{"inputs": [' + b"1," * 500000 + b"1]}",
                     b"{" + b",".join(b'"%d": 1' % i for i in range(90000)) + b"}"):  # more than 1,000 + 8 * max_queue
            status, _, content = self.server.ask("/models/qa", body)
            self.assertEqual(status, 400)
            self.assertIn("values", content["error"]["message"])
        # Read as bytes, the escaped quote of UTF-16 ends the text, and the values after it are in another one.
        text = r'{"a": "\"", "inputs": [' + "[]," * 100000 + "[]]}"
        for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
            status, _, content = self.server.ask("/models/qa", text.encode(encoding))
            self.assertEqual((status, content["error"]["message"]), (400, "the JSON is not in UTF-8"))
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        status, _, content = self.server.ask("/ask", "&".join(f"a{i}=1" for i in range(17)), headers=form)
        self.assertEqual((status, "16 fields" in content["error"]["message"]), (400, True))
        # What counts is outside the texts.
        self.assertEqual(self.server.status("/models/qa", self.question("hello, [world] {" + "," * 100000)), 200)
        self.assertEqual(self.server.status("/ask", "&".join(["model=qa&question=Who&context=Ada"] + ["b=2"] * 13), headers=form), 200)

    def test_refusals_reach_clients_that_are_still_sending(self):
        large = b" " * (self.MEBIBYTE - 100)
        self.assertEqual(self.server.status("/models/qa", large * 5), 413)
        self.assertEqual(self.server.status("/nothing", large), 404)
        for headers, status in [({"Origin": "http://evil.example"}, 403), ({"Content-Type": "text/plain"}, 415)]:
            self.assertEqual(self.server.status("/models/qa", large, headers=headers), status)
        # Whoever asks first is told at once, and sends nothing.
        reply = self.server.raw(post(b"", length(large * 5), b"Expect: 100-continue", path=b"/models/qa"))
        self.assertEqual(statuses(reply), [413])

    def test_flood_of_bodies(self):
        texts = {"input": ["Ada lived in Oslo. " * 50] * 1000, "model": "similar"}
        bodies = [("/models/qa", self.question(CONTEXT * 26000)), ("/models/qa", self.question("\u6f22\u5b57" * 170000)),
                  ("/models/qa", self.question("!" * 10 ** 6)), ("/v1/embeddings", json.dumps(texts).encode()),
                  ("/models/similar", json.dumps({"inputs": "Ada lived in Oslo. " * 55000}).encode())]
        self.assertTrue(all(900000 < len(body) <= self.MEBIBYTE for _, body in bodies))
        begin, found, slowest, rounds, count = threading.Event(), [], 0.0, 0, 5 if IS_SLOW else 15

        def flood(path: str, body: bytes):
            begin.wait()
            found.append(self.send(path, body))
        threads = [threading.Thread(target=flood, args=bodies[i % len(bodies)]) for i in range(count)]
        for thread in threads:
            thread.start()
        first = time.monotonic()
        begin.set()
        while any(thread.is_alive() for thread in threads):
            start = time.monotonic()
            self.assertEqual(self.server.status("/health"), 200)
            slowest = max(slowest, time.monotonic() - start)
            self.assertEqual(self.server.status("/models/qa", ASK), 200)
            rounds += 1
        self.assertEqual(found, [200] * count)
        self.assertGreater(rounds, 5)
        self.assert_not_waited(slowest, time.monotonic() - first)

    def test_reading_does_not_stop_the_connections(self):
        """What takes longest to read, many times at once."""
        body = self.question("!" * 10 ** 6)
        threads = [threading.Thread(target=self.send, args=("/models/none", body)) for _ in range(20 if IS_SLOW else 100)]
        first, slowest = time.monotonic(), 0.0
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            begin = time.monotonic()
            self.assertEqual(self.server.status("/health"), 200)
            slowest = max(slowest, time.monotonic() - begin)
        self.assert_not_waited(slowest, time.monotonic() - first)

    def test_long_documents_are_not_waited_for(self):
        """Short questions are answered while documents, each longer than a batch, wait for one another."""
        body, count = self.question(CONTEXT * (5000 if IS_SLOW else 26000)), 8
        threads = [threading.Thread(target=self.send, args=("/models/qa", body)) for _ in range(count)]
        for thread in threads:
            thread.start()
        while self.server.metric('berth_queue_length{model="qa"}') < 3:
            self.assertTrue(any(thread.is_alive() for thread in threads))
            time.sleep(0.01)
        for _ in range(count):  # in turns with a document each, they would outlast all documents
            self.assertEqual(self.server.status("/models/qa", ASK), 200)
        self.assertGreater(self.server.metric('berth_queue_length{model="qa"}'), 0)
        for thread in threads:
            thread.join()

    def test_long_documents_give_way_to_short_questions(self):
        """Short questions are answered between the batches of a document. If they waited for its end, one of them
        would take most of the time."""
        body, replies = self.question(CONTEXT * (1500 if IS_SLOW else 6000)), []
        thread = threading.Thread(target=lambda: replies.append(self.send("/models/slow", body)))
        begin, longest = time.monotonic(), 0.0
        thread.start()
        while thread.is_alive():
            start = time.monotonic()
            for model in ("slow", "qa"):  # another model's questions are behind those of this one
                self.assertEqual(self.server.status(f"/models/{model}", ASK), 200)
            longest = max(longest, time.monotonic() - start)
        whole = time.monotonic() - begin
        thread.join()
        self.assertEqual(replies, [200])
        self.assertLess(longest, whole / 2)


class Keys(unittest.TestCase):
    def test_keys(self):
        keys = pathlib.Path(os.environ["MODELS"]) / "keys"
        keys.write_text("first-key\n", encoding="utf-16")
        with Server("--api_key_file", str(keys), models=["qa=qa"]) as server:
            self.assertEqual(server.status("/", ASK, headers={"Authorization": "Bearer first-key"}), 200)
        keys.write_text("\ufefffirst-key\n  second \t\r\n", encoding="utf-8")
        with Server("--api_key_file", str(keys), "--allowed_hosts", "a.example, b.example", models=["qa=qa"]) as server:
            for host, status in [("a.example", 200), ("b.example", 200), ("c.example", 403)]:
                self.assertEqual(server.status("/health", headers={"Host": host}), status)
            for given, status in [(None, 401), ("Bearer first-key", 200), ("Bearer second", 200), ("Bearer first", 401),
                                  ("Bearer ", 401), ("Bearer secondsecond", 401),
                                  ("second", 401)]:
                headers = {"Authorization": given} if given is not None else {}
                self.assertEqual(server.status("/", ASK, headers=headers), status, given)
            self.assertEqual(server.status("/v1/models"), 401)
            self.assertEqual(server.status("/health"), 200)
            self.assertEqual(server.ask("/", ASK)[1]["WWW-Authenticate"], "Bearer")
            self.assertEqual(server.status("/reload", ""), 401)
            self.assertEqual(server.status("/reload", "", headers={"Authorization": "Bearer second"}), 202)
            server.wait_for("were reloaded")


if __name__ == "__main__":
    unittest.main()
