# SPDX-License-Identifier: Apache-2.0
"""Starting, reloading and ending the server, while requests arrive."""
import contextlib
import http.client
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
import unittest

from server import BERTH, CONTEXT, MODELS, QUESTION, Server

LONG = {"inputs": [{"question": "Who?", "context": CONTEXT * 40}] * 40}


class Client:
    """Threads that ask until they are stopped; `found` has a status, or an exception, for each request."""

    def __init__(self, server: Server, count: int = 4):
        self.found, self.ends = [], False
        self.threads = [threading.Thread(target=self.run, args=(server,)) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self, server: Server):
        while not self.ends:
            try:
                status, _, content = server.ask("/", {"inputs": QUESTION})
                self.found.append((status, content.get("score")))
            except OSError as error:
                self.found.append((0, repr(error)))

    def stop(self):
        self.ends = True
        for thread in self.threads:
            thread.join()


class Life(unittest.TestCase):
    def test_end_while_a_request_is_answered(self):
        with Server("--drain_seconds", "4", models=["qa=qa"]) as server:
            results = []
            threads = [threading.Thread(target=lambda: results.append(server.ask("/", LONG))) for _ in range(3)]
            for thread in threads:
                thread.start()
            while server.metric('berth_queue_length{model="qa"}') < 40:
                time.sleep(0.005)
            server.process.send_signal(signal.SIGTERM)
            server.wait_for("shutting down")
            self.assertEqual(server.status("/health"), 503)  # while others are still answered
            self.assertEqual(server.status("/v2/health/ready"), 503)
            self.assertEqual(server.status("/v2/health/live"), 200)
            status, headers, _ = server.ask("/", {"inputs": QUESTION})
            self.assertEqual(status, 200)
            for thread in threads:
                thread.join()
            self.assertEqual(server.process.wait(30), 0)
            self.assertEqual([status for status, _, _ in results], [200] * 3)

    def test_nobody_waits_for_a_server_that_ends(self):
        """Whoever connects while it answers what it has is refused, and does not wait for the end."""
        with Server("--grace_seconds", "600", models=["qa=qa"]) as server:
            body = b'{"inputs": {"question": "Who?", "context": "Ada"}}'
            with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
                connection.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body))
                self.assertEqual(server.status("/health"), 200)  # after which that request has begun
                server.process.send_signal(signal.SIGTERM)
                server.wait_for("shutting down")
                begin = time.monotonic()
                with self.assertRaises(ConnectionRefusedError):
                    while time.monotonic() < begin + 10:  # until then it still accepts
                        with contextlib.suppress(ConnectionResetError):  # of one that waited to be accepted
                            server.status("/health", seconds=10)
                connection.sendall(body)
                self.assertTrue(connection.recv(100).startswith(b"HTTP/1.1 200"))
            self.assertEqual(server.process.wait(60), 0)

    def test_end_under_load_drops_nothing(self):
        with Server("--drain_seconds", "4", models=["qa=qa"]) as server:
            client = Client(server)
            while len(client.found) < 20:
                time.sleep(0.01)
            server.process.send_signal(signal.SIGTERM)
            server.wait_for("shutting down")
            while server.status("/health") != 503:
                time.sleep(0.01)
            client.stop()  # as a load balancer does
            self.assertEqual(server.process.wait(30), 0)
            self.assertEqual({status for status, _ in client.found}, {200})

    def test_grace_ends(self):
        with Server("--grace_seconds", "0.3", models=["qa=qa"]) as server:
            with socket.create_connection(("127.0.0.1", server.port)) as connection:
                connection.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n")
                while server.status("/health") != 200:
                    pass
                server.process.send_signal(signal.SIGTERM)
                self.assertEqual(server.process.wait(20), 1)
                self.assertIn("--grace_seconds", server.messages())

    def test_grace_ends_before_the_queue(self):
        with Server("--grace_seconds", "0.2", models=["qa=qa"]) as server:
            work = {"inputs": [{"question": "Who?", "context": CONTEXT * 300}] * 80}

            def ask_again():  # a fast server may have answered before the queue is seen
                while server.process.poll() is None:
                    self.ask_quietly(server, work)
            threads = [threading.Thread(target=ask_again) for _ in range(8)]
            for thread in threads:
                thread.start()
            while server.metric('berth_queue_length{model="qa"}') < 250:
                time.sleep(0.005)
            server.process.send_signal(signal.SIGTERM)
            server.wait_for("shutting down")
            self.assertEqual(server.process.wait(60), 1)
            self.assertIn("--grace_seconds", server.messages())
            for thread in threads:
                thread.join()

    def test_grace_ends_a_long_document(self):
        """What is being computed does not keep the process."""
        with Server("--grace_seconds", "0.2", "--doc_stride", "1", models=["qa=qa"]) as server:
            work = {"inputs": {"question": "Who?", "context": CONTEXT * 26000}}  # which takes minutes
            thread = threading.Thread(target=self.ask_quietly, args=(server, work))
            thread.start()
            before = server.metric("process_cpu_seconds_total")
            while server.metric("process_cpu_seconds_total") < before + 2:  # far more than reading it takes
                time.sleep(0.1)
            begin = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(60), 1)
            self.assertLess(time.monotonic() - begin, 20)
            self.assertIn("1 requests were not answered within --grace_seconds", server.messages())
            thread.join()

    @staticmethod
    def ask_quietly(server: Server, body: dict):
        try:
            server.ask("/", body)
        except (OSError, http.client.HTTPException):
            pass

    def test_reload_under_load(self):
        folder = MODELS / "changing"
        shutil.copytree(MODELS / "qa", folder)
        with Server(models=["changing"]) as server:
            before = server.json("/", {"inputs": QUESTION})["score"]
            client = Client(server)
            for weights in ("new", "qa", "new"):
                shutil.copy(MODELS / weights / "model.safetensors", folder / "next")
                os.replace(folder / "next", folder / "model.safetensors")
                count = server.messages().count("were reloaded")
                server.process.send_signal(signal.SIGHUP)
                while server.messages().count("were reloaded") == count:
                    time.sleep(0.02)
            after = server.json("/", {"inputs": QUESTION})["score"]
            client.stop()
            self.assertNotEqual(before, after)
            self.assertEqual({status for status, _ in client.found}, {200})
            self.assertEqual({score for _, score in client.found}, {before, after})
            # A model that cannot be read leaves the old one in its place.
            (folder / "model.safetensors").write_bytes(b"damaged")
            server.process.send_signal(signal.SIGHUP)
            server.wait_for("were not reloaded")
            self.assertEqual(server.json("/", {"inputs": QUESTION})["score"], after)

    def test_reload_of_some_models(self):
        """One that cannot be opened does not keep those after it."""
        names = ["first", "second", "third"]
        for name in names:
            shutil.copytree(MODELS / "qa", MODELS / name)
        with Server(models=names) as server:
            def scores():
                return [server.json(f"/models/{name}", {"inputs": QUESTION})["score"] for name in names]
            for name in ("first", "third"):
                shutil.copy(MODELS / "new" / "model.safetensors", MODELS / name / "next")
                os.replace(MODELS / name / "next", MODELS / name / "model.safetensors")
            (MODELS / "second" / "model.safetensors").write_bytes(b"damaged")
            before = scores()
            server.process.send_signal(signal.SIGHUP)
            server.wait_for("only 2 of 3 models were reloaded, and the old ones of the others stay in use")
            self.assertEqual([a == b for a, b in zip(before, scores())], [False, True, False])

    @unittest.skipIf(not os.environ.get("REFUSALS"), "the program cannot be kept from starting threads")
    def test_reload_without_a_thread(self):
        """It needs no other thread than the first loading."""
        switch = MODELS / "no-threads"
        environment = {**os.environ, "LD_PRELOAD": os.environ["REFUSALS"], "NO_THREADS": str(switch)}
        with Server(models=["qa=qa"], env=environment) as server:
            before = server.json("/", {"inputs": QUESTION})["score"]
            switch.touch()
            server.process.send_signal(signal.SIGHUP)
            server.wait_for("the models were reloaded")
            self.assertEqual(server.json("/", {"inputs": QUESTION})["score"], before)
            switch.unlink()

    def test_name_of_the_hub(self):
        """It is called by its last part, and a reload serves the revision that was fetched last."""
        cache = MODELS / "hub"
        revisions = {"new": "1" * 40, "qa": "2" * 40}
        for model, revision in revisions.items():
            shutil.copytree(MODELS / model, cache / "models--org--tiny.one" / "snapshots" / revision)
        main = cache / "models--org--tiny.one" / "refs" / "main"
        main.parent.mkdir()
        main.write_text(revisions["new"])
        with Server("--model", "org/tiny.one", models=["new", "qa"], env={**os.environ, "HF_HUB_CACHE": str(cache)}) as server:
            def scores():
                return [server.json(f"/models/{name}", {"inputs": QUESTION})["score"] for name in ("tiny.one", "new", "qa")]
            found, new, qa = scores()
            self.assertNotEqual(new, qa)
            self.assertEqual(found, new)
            main.write_text(revisions["qa"])
            server.process.send_signal(signal.SIGHUP)
            server.wait_for("were reloaded")
            self.assertEqual(scores(), [qa, new, qa])

    def test_addresses_of_a_name(self):
        """The server listens on all of them, on one port, and the log names each."""
        with Server("--host", "localhost", models=["qa=qa"]) as server:
            addresses = re.findall(r"listening on http://(\S+):\d+\n", server.messages())
            self.assertTrue(set(addresses) <= {"127.0.0.1", "[::1]"} and addresses, addresses)
            for address in addresses:
                with socket.create_connection((address.strip("[]"), server.port)):
                    pass

    @unittest.skipIf(not os.environ.get("TWO_ADDRESSES"), "the program cannot be given another getaddrinfo")
    def test_two_addresses(self):
        """A name of 127.0.0.1, 127.0.0.2, one that is listed twice, and one of another machine."""
        environment = {**os.environ, "LD_PRELOAD": os.environ["TWO_ADDRESSES"]}
        with Server("--host", "two.example", "--max_connections", "4", models=["qa=qa"], env=environment) as server:
            self.assertEqual(re.findall(r"listening on http://(\S+):(\d+)\n", server.messages()),
                             [("127.0.0.1", str(server.port)), ("127.0.0.2", str(server.port))])
            for address in ("127.0.0.1", "127.0.0.2"):
                with socket.create_connection((address, server.port)) as connection:
                    connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    self.assertIn(b"200 OK", connection.recv(65536))
            self.ask_on_two_connections_each(server)
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(60), 0)
            for address in ("127.0.0.1", "127.0.0.2"):
                with self.assertRaises(ConnectionRefusedError):
                    socket.create_connection((address, server.port))

    def ask_on_two_connections_each(self, server: Server):
        """Each of two addresses has half of 4 connections, and all are answered while the others wait."""
        request = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        connections = [socket.create_connection((address, server.port), timeout=20)
                       for address in ("127.0.0.1", "127.0.0.2") for _ in range(2)]
        for connection in connections:
            connection.sendall(request)
        for connection in connections:
            self.assertIn(b"200 OK", connection.recv(65536))
        for address in ("127.0.0.1", "127.0.0.2"):
            with socket.create_connection((address, server.port), timeout=1) as third:
                third.sendall(request)
                try:
                    self.assertEqual(third.recv(65536), b"")
                except OSError:  # it waits, or is reset
                    pass
        for connection in connections:
            connection.close()

    def test_loading(self):
        """A model whose weights do not come: alive, but not ready."""
        folder = MODELS / "waiting"
        folder.mkdir()
        os.mkfifo(folder / "config.json")
        with Server(models=["waiting"], wait=False) as server:
            self.assertEqual(server.status("/health"), 503)
            self.assertEqual(server.status("/v2/health/live"), 200)
            status, headers, content = server.ask("/", {"inputs": QUESTION})
            self.assertEqual((status, headers["Retry-After"]), (503, "1"))
            self.assertIn("loaded", content["error"]["message"])
            for path, body in (("/embed", {"inputs": "Oslo"}), ("/v1/embeddings", {"input": "Oslo"}),
                               ("/rerank", {"query": "Oslo", "texts": ["Riga"]})):  # it may be a model for them
                status, headers, content = server.ask(path, body)
                self.assertEqual((status, headers["Retry-After"]), (503, "1"), content)
                self.assertIn("loaded", content["error"]["message"])
            server.process.wait(60)
            self.assertNotEqual(server.process.returncode, 0)

    def test_one_is_loaded(self):
        """The description of a server whose second model may be the one that embeds."""
        folder = MODELS / "pending"
        folder.mkdir()
        os.mkfifo(folder / "config.json")
        with Server(models=["qa=qa", "pending"], wait=False) as server:
            while server.status("/v2/models/qa") == 503:
                time.sleep(0.02)
            self.assertEqual(server.status("/info"), 503)
            self.assertEqual(server.status("/", {"inputs": QUESTION, "model": "qa"}), 200)
            server.process.wait(60)
            self.assertNotEqual(server.process.returncode, 0)

    def test_refused_at_the_start(self):
        shutil.copytree(MODELS / "qa", MODELS / "damaged")
        (MODELS / "damaged" / "config.json").write_text('{"architectures": [')
        shutil.copytree(MODELS / "qa", MODELS / "pooling-alone")
        (MODELS / "pooling-alone" / "modules.json").write_text('[{"path": "", "type": "Pooling"}]')
        (MODELS / "no-key").write_bytes(b"\xef\xbb\xbf\n")
        (MODELS / "no-text").write_bytes(b"key\xff\n")
        for words, code, message in [
                (["--model", str(MODELS / "none")], 66, "none"),
                (["--model", str(MODELS / "qa"), "--model", "qa=" + str(MODELS / "new")], 2, "two models"),
                (["--model", str(MODELS / "nothing")], 66, "expected the folder of a model, or its file of weights"),
                (["--model", str(MODELS / "qa" / "config.json")], 65, "config.json"),
                (["--model", "org/none"], 66, "berth fetch org/none"),
                (["--model", str(MODELS / "qa"), "--model", str(MODELS / "damaged")], 65, "damaged/config.json"),
                (["--model", str(MODELS / "pooling-alone")], 78, "supported are a Transformer in the folder itself"),
                (["--model", "."], 2, "write --model NAME=DIR"),
                (["--model", "q" * 256 + "=" + str(MODELS / "qa")], 2, "a NAME of up to 255 letters"),
                (["--model", str(MODELS / "qa"), "--tls_cert", "x"], 2, "--tls_cert needs --tls_key"),
                (["--model", str(MODELS / "qa"), "--max_body_bytes", str(1 << 30)], 2, "536870912"),
                (["--model", str(MODELS / "qa"), "--tls_cert", "/dev/null", "--tls_key", "/dev/null"], 78,
                 "check the certificate and key"),
                (["--model", str(MODELS / "qa"), "--host", "192.0.2.1"], 69, "--host 192.0.2.1: cannot listen on 192.0.2.1 port 0"),
                (["--model", str(MODELS / "qa"), "--api_key_file", "/dev/null"], 78, "key"),
                (["--model", str(MODELS / "qa"), "--api_key_file", str(MODELS / "no-key")], 78, "key"),
                (["--model", str(MODELS / "qa"), "--api_key_file", str(MODELS / "no-text")], 65, "line 1: not UTF-8")]:
            done = subprocess.run([BERTH, "serve", *words, "--port", "0"], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(message, done.stderr)

    @unittest.skipIf(not os.environ.get("REFUSALS"), "libmicrohttpd cannot be kept from TLS")
    def test_libmicrohttpd_without_tls(self):
        done = subprocess.run([BERTH, "serve", "--model", str(MODELS / "qa"), "--port", "0", "--tls_cert", "/dev/null",
                               "--tls_key", "/dev/null"], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "LD_PRELOAD": os.environ["REFUSALS"], "NO_TLS": "1"})
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertIn("this libmicrohttpd was built without TLS", done.stderr)

    def test_manager_of_the_service(self):
        """Its socket, passed as descriptor 3, and what it is told."""
        with socket.socket() as listener, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            manager.bind(str(MODELS / "notify"))
            manager.settimeout(60)
            shutil.copytree(MODELS / "qa", MODELS / "noted")
            words = [BERTH, "serve", "--model", str(MODELS / "noted"), "--port", "1", "--drain_seconds", "0"]
            shell = f'exec 3<&{listener.fileno()}; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'
            with subprocess.Popen(["bash", "-c", shell, "bash", *words], pass_fds=[listener.fileno()],
                                  stderr=subprocess.DEVNULL,
                                  env={**os.environ, "NOTIFY_SOCKET": str(MODELS / "notify")}) as process:
                self.assertEqual(manager.recv(100), b"READY=1")
                with socket.create_connection(listener.getsockname()) as connection:
                    connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    self.assertTrue(connection.recv(100).startswith(b"HTTP/1.1 200"))
                process.send_signal(signal.SIGHUP)
                self.assertIn(b"RELOADING=1", manager.recv(100))
                self.assertEqual(manager.recv(100), b"READY=1")
                config = MODELS / "noted" / "config.json"
                config.rename(config.with_suffix(".away"))
                process.send_signal(signal.SIGHUP)
                self.assertIn(b"RELOADING=1", manager.recv(100))
                self.assertEqual(manager.recv(100), b"READY=1")  # with the old model
                process.terminate()
                self.assertEqual(manager.recv(100), b"STOPPING=1")
                self.assertEqual(process.wait(60), 0)
                with socket.create_connection(listener.getsockname()):  # for the next process that has the socket
                    pass

    @unittest.skipUnless(shutil.which("openssl"), "needs openssl")
    def test_tls(self):
        key, certificate = MODELS / "key.pem", MODELS / "cert.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                        "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
                       check=True, capture_output=True)
        with Server("--tls_cert", str(certificate), "--tls_key", str(key), models=["qa=qa"]) as server:
            context = ssl.create_default_context(cafile=str(certificate))
            with socket.create_connection(("127.0.0.1", server.port)) as plain:
                with context.wrap_socket(plain, server_hostname="localhost") as secure:
                    secure.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    self.assertTrue(secure.recv(100).startswith(b"HTTP/1.1 200"))


if __name__ == "__main__":
    unittest.main()
