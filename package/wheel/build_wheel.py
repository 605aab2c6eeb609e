#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a Python wheel of an installed Berth: the program, the library, their modules, and the package berth.

usage: build_wheel.py PREFIX OUT

PREFIX is where `cmake --install` put Berth. Prints the wheel's path. The same files give the same bytes. The wheel is
for this kind of machine and needs the libraries that the build was linked with; it does not contain them. Its name is
berth-bert, because the registry of Python has another "berth"; the module is called berth.
"""
import base64
import hashlib
import os
import pathlib
import platform
import re
import subprocess
import sys
import zipfile

OLDEST = (1980, 1, 1, 0, 0, 0)  # of a file in a zip archive
SUMMARY = "BERT training and inference in C, from Python"


def find(prefix: pathlib.Path, pattern: str) -> list:
    return sorted(path for path in prefix.glob(pattern) if path.is_file())


def one(prefix: pathlib.Path, pattern: str) -> pathlib.Path:
    found = find(prefix, pattern)
    if not found:
        sys.exit(f"{prefix}: no {pattern}; expected an installed Berth")
    return found[0]


def contents(prefix: pathlib.Path, name: str) -> list:
    """(name in the wheel, bytes, whether it is a program)"""
    package = pathlib.Path(__file__).parent / "berth"
    source = (package / "__init__.py").read_text()
    soname = re.search(r'^_SONAME = "(.*)"', source, re.M).group(1)
    # The program and the library look for modules beside themselves. So all are in one folder of the package, and a small
    # script runs the program.
    start = "\n".join(["#!python", "import os, sys, berth",
                       "path = os.path.join(os.path.dirname(berth.__file__), 'bin', 'berth')",
                       "os.execv(path, ['berth', *sys.argv[1:]])", ""])
    files = [("berth/__init__.py", source.encode(), False),
             ("berth/py.typed", b"", False),  # the annotations are for type checkers, too (PEP 561)
             (f"berth/bin/{soname}", one(prefix, f"lib*/**/{soname}").resolve().read_bytes(), True),
             ("berth/bin/berth", one(prefix, "bin/berth").read_bytes(), True),
             (f"{name}.data/scripts/berth", start.encode(), True)]
    for module in find(prefix, "lib*/**/berth/berth-*.so"):
        files.append((f"berth/bin/{module.name}", module.read_bytes(), True))
    return files


def digest(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def add(archive: zipfile.ZipFile, name: str, content: bytes, is_program: bool):
    entry = zipfile.ZipInfo(name, OLDEST)
    entry.external_attr = (0o100755 if is_program else 0o100644) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)


def main():
    prefix, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    version = re.search(r"[0-9.]+", subprocess.run([one(prefix, "bin/berth"), "--version"], capture_output=True,
                                                   text=True, check=True).stdout).group()
    name, tag = f"berth_bert-{version}", f"py3-none-linux_{platform.machine()}"
    files = contents(prefix, name)
    metadata = (f"Metadata-Version: 2.1\nName: berth-bert\nVersion: {version}\nSummary: {SUMMARY}\nLicense: Apache-2.0\n"
                f"Requires-Python: >=3.8\nProvides-Extra: numpy\nRequires-Dist: numpy; extra == \"numpy\"\n")
    wheel = f"Wheel-Version: 1.0\nGenerator: build_wheel.py\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files += [(f"{name}.dist-info/METADATA", metadata.encode(), False),
              (f"{name}.dist-info/WHEEL", wheel.encode(), False)]
    record = "".join(f"{path},{digest(content)},{len(content)}\n" for path, content, _ in files)
    files.append((f"{name}.dist-info/RECORD", f"{record}{name}.dist-info/RECORD,,\n".encode(), False))
    path = out / f"{name}-{tag}.whl"
    os.makedirs(out, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for entry in files:
            add(archive, *entry)
    print(path)


if __name__ == "__main__":
    main()
