#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The static program in a folder as its root, with nothing but itself and what is named here: names of hosts, from
/etc/hosts and from a DNS server; certificates where each kind of system keeps them; a server that answers. Needs a
network namespace of its own, as root in it: unshare -rn bare.py PROGRAM MODEL [EMULATOR]
"""
import fcntl
import http.client
import http.server
import json
import os
import pathlib
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from expectations import expect, failures

PROGRAM, MODEL = sys.argv[1:3]
EMULATOR = sys.argv[3:]
FILE = bytes(range(256)) * 1000
BUNDLES = ["etc/ssl/certs/ca-certificates.crt", "etc/pki/tls/certs/ca-bundle.crt", "etc/ssl/ca-bundle.pem", "etc/ssl/cert.pem"]


# --- this namespace's hosts -------------------------------------------------------------------------------------------

def start_loopback():
    request = struct.pack("16sh", b"lo", 0x1 | 0x40)  # IFF_UP, IFF_RUNNING
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, 0x8914, request)  # SIOCSIFFLAGS


def answer_names(questions, asked):
    """127.0.0.1 for dns.example; no other name exists."""
    while True:
        packet, client = questions.recvfrom(512)
        end = packet.index(b"\0", 12) + 5  # the name, its type and class
        name = packet[12:end - 4].lower()
        asked.append(name)
        kind = struct.unpack(">H", packet[end - 4:end - 2])[0]
        known = name == b"\3dns\7example\0"
        records = [b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) + bytes([127, 0, 0, 1])] if known and kind == 1 else []
        head = packet[:2] + struct.pack(">HHHHH", 0x8180 | (0 if known else 3), 1, len(records), 0, 0)
        questions.sendto(head + packet[12:end] + b"".join(records), client)


class Files(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(FILE)))
        self.end_headers()
        self.wfile.write(FILE)

    def log_message(self, *words):
        pass


def make_certificates(folder):
    """An authority, another one, and a server's certificate by the first."""
    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
    for name in "authority", "other":
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2",
                "-subj", f"/CN={name}")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=server")
    (folder / "names").write_text("subjectAltName=DNS:hosts.example,DNS:dns.example,DNS:unknown.example\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial",
            "-out", "server.pem", "-days", "2", "-extfile", "names")


def serve(folder, asked):
    questions = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    questions.bind(("127.0.0.53", 53))
    threading.Thread(target=answer_names, args=(questions, asked), daemon=True).start()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 443), Files)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()


# --- the root ---------------------------------------------------------------------------------------------------------

def make_root(root):
    for folder in "etc", "tmp":
        (root / folder).mkdir(parents=True)
    shutil.copy(PROGRAM, root / "berth")
    shutil.copytree(MODEL, root / "model")
    for emulator in EMULATOR:
        shutil.copy(emulator, root / "emulator")
    (root / "etc/hosts").write_text("127.0.0.1 localhost hosts.example\n")
    (root / "etc/resolv.conf").write_text("nameserver 127.0.0.53\n")


def start(root, *words, **more):
    emulator = ["/emulator"] if EMULATOR else []
    return subprocess.Popen(["chroot", root, *emulator, "/berth", *words], env={"HOME": "/tmp", "PATH": os.environ["PATH"]}, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def run(root, *words, code=0):
    process = start(root, *words)
    output, errors = process.communicate()
    expect(process.returncode == code, f"{' '.join(words)}: exit code {process.returncode}, expected {code}: {errors}")
    return output, errors


def check_fetch(root, folder, asked):
    def fetch(host, code=0):
        shutil.rmtree(root / "tmp/cache", ignore_errors=True)
        output, errors = run(root, "fetch", f"https://{host}/file", "--cache_dir", "/tmp/cache", "--retries", "0", code=code)
        if code == 0:
            path = root / output.strip()[1:]
            expect(path.read_bytes() == FILE, f"{host}: another file")
        return errors

    def trust(bundle, authority="authority.pem"):
        for other in BUNDLES:
            (root / other).unlink(missing_ok=True)
        if bundle is not None:
            (root / bundle).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / authority, root / bundle)

    for bundle in BUNDLES:
        trust(bundle)
        fetch("hosts.example")
    expect(not asked, "a name of /etc/hosts was asked for")
    fetch("dns.example")
    expect(b"\3dns\7example\0" in asked, "the DNS server was not asked")
    expect("resolve" in fetch("unknown.example", code=69), "no word of the unknown name")
    expect("certificate" in fetch("localhost", code=69), "the certificate is for another name")
    trust(BUNDLES[0], "other.pem")
    expect("SSL_CERT_FILE" in fetch("hosts.example", code=69), "the wrong authority: no remedy")
    trust(None)
    expect("SSL_CERT_FILE" in fetch("hosts.example", code=69), "no certificates: no remedy")


def check_serve(root):
    process = start(root, "serve", "--model", "/model", "--host", "localhost", "--port", "8080")
    vector = None
    for _ in range(600):
        time.sleep(0.1)
        if process.poll() is not None:
            break
        try:
            connection = http.client.HTTPConnection("127.0.0.1", 8080)
            connection.request("POST", "/embed", json.dumps({"inputs": "ben has a red ball"}))
            answer = connection.getresponse()
            if answer.status == 200:
                vector = json.loads(answer.read())[0]
                break
        except OSError:
            pass
    process.terminate()
    errors = process.communicate()[1]
    expect(vector is not None and process.returncode in (0, 143), f"serve: {errors}")
    return vector


def check_embed(root, served):
    (root / "texts").write_text("ben has a red ball\n")
    output, _ = run(root, "embed", "--model", "/model", "/texts")
    vector = json.loads(output)["embedding"] if output else []
    expect(len(vector) == len(served or []) > 0 and max(abs(x - y) for x, y in zip(vector, served)) < 1e-5, "other vectors")


def check_launchers(root):
    """A job's processes would each train a model of their own."""
    (root / "table.tsv").write_text("text\tlabel\nred ball\tgood\nblue coat\tbad\n")
    words = ["finetune", "classify", "--model", "/model", "--train", "/table.tsv", "--output", "/tmp/trained", "--do_eval", "false",
             "--max_steps", "1", "--text_column", "text", "--label_column", "label"]
    for variables in ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}, {"PMI_SIZE": "2", "PMI_RANK": "0"},
                      {"WORLD_SIZE": "2", "RANK": "0"}):
        environment = [f"{name}={value}" for name, value in variables.items()]
        emulator = ["/emulator"] if EMULATOR else []
        done = subprocess.run(["env", *environment, "chroot", root, *emulator, "/berth", *words], capture_output=True,
                              text=True, check=False)
        expect(done.returncode == 78, f"{environment}: exit code {done.returncode}: {done.stderr}")
        expect(not (root / "tmp/trained").exists(), f"{environment}: something was written")
    run(root, *words)
    expect((root / "tmp/trained").exists(), "one process does not train")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        root, asked = folder / "root", []
        make_root(root)
        make_certificates(folder)
        start_loopback()
        serve(folder, asked)
        facts, _ = run(root, "doctor")
        expect("without modules (MPI, GPUs)" in facts, f"doctor does not say what is left out: {facts}")
        check_fetch(root, folder, asked)
        check_embed(root, check_serve(root))
        check_launchers(root)
    print(f"{len(failures)} expectations failed" if failures else "all good")
    return 1 if failures else 0


if __name__ == "__main__":
    os.environ.pop("SSL_CERT_FILE", None)
    sys.exit(main())
