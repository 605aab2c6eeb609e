# SPDX-License-Identifier: Apache-2.0
"""The program `berth serve` as a process, and requests to it. BERTH names the program, MODELS the folder with
the models that test_serve.sh makes: qa, other (an encoder), new (qa with other weights), ..."""
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time

BERTH = os.environ["BERTH"]
MODELS = pathlib.Path(os.environ["MODELS"])
# With sanitizers the server takes ten times as long, so floods are smaller. All limits are the same.
IS_SLOW = bool(os.environ.get("SANITIZE"))
PATIENCE = 600
CONTEXT = "Ada lived in Oslo. Hugo lived in Riga."
QUESTION = {"question": "Where did Ada live?", "context": CONTEXT}


def berth(*words: str, given: str = "") -> str:
    """Standard output of the program."""
    return subprocess.run([BERTH, *words], input=given, capture_output=True, text=True, check=True).stdout


class Server:
    """One server on a free port; `with` ends it, and checks that it was running and ends without an error."""

    def __init__(self, *options: str, models=("qa=qa", "similar=other"), wait=True, **popen):
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        words = [word for model in models for word in ("--model", self.model_word(model))]
        self.process = subprocess.Popen(
            [BERTH, "serve", *words, "--port", "0", "--threads", "2", "--drain_seconds", "0", *options],
            stdout=subprocess.DEVNULL, stderr=self.log, **popen)
        try:
            self.port = int(self.wait_for(r"listening on \S+:(\d+)\n")[1])
            if wait:
                self.wait_for("note: ready")
        except BaseException:
            self.process.kill()
            raise

    @staticmethod
    def model_word(model: str) -> str:
        name, equals, folder = model.rpartition("=")
        return name + equals + str(MODELS / folder)

    def messages(self) -> str:
        return pathlib.Path(self.log.name).read_text(encoding="utf-8")

    def wait_for(self, pattern: str, seconds: float = 60) -> re.Match:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = re.search(pattern, self.messages())
            if found:
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"no {pattern!r} in: {self.messages()}")

    def connect(self, seconds: float = PATIENCE) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)

    def ask(self, path: str, body=None, method=None, headers=None, **more):
        """Status, headers and body of one request; a body that is not bytes is sent as JSON."""
        connection = self.connect(**more)
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        connection.request(method or ("GET" if body is None else "POST"), path, body, headers or {})
        reply = connection.getresponse()
        content = reply.read()
        connection.close()
        is_json = (reply.getheader("Content-Type") or "").startswith("application/json")
        return reply.status, reply.headers, json.loads(content) if is_json and content else content

    def status(self, *args, **named) -> int:
        return self.ask(*args, **named)[0]

    def json(self, *args, **named):
        status, _, content = self.ask(*args, **named)
        assert status == 200, (status, content)
        return content

    def raw(self, request: bytes, seconds: float = 20) -> bytes:
        """All that the server sends after these bytes, to the end of the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            connection.sendall(request)
            received = b""
            while True:
                try:
                    piece = connection.recv(65536)
                except ConnectionResetError:
                    return received
                if not piece:
                    return received
                received += piece

    def metric(self, name: str) -> float:
        text = self.ask("/metrics")[2].decode()
        return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)[1])

    def wait_for_descriptors(self, most: int, seconds: float = 10) -> int:
        """How many the process has, as soon as they are not more than `most`, or at the end of the time."""
        end = time.monotonic() + seconds
        while (count := len(os.listdir(f"/proc/{self.process.pid}/fd"))) > most and time.monotonic() < end:
            time.sleep(0.02)
        return count

    def stop(self, number=signal.SIGTERM, seconds: float = 60) -> int:
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if self.process.returncode is None:  # the test has not waited for its end
            runs = self.process.poll() is None
            code = self.stop() if runs else self.process.returncode
            assert kind is not None or (runs and code == 0), (code, self.messages())
        self.log.close()
