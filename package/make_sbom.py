#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the bill of materials of a release as SPDX 2.3 (JSON): its files with their hashes, and the libraries that
the build was linked with, with their versions.

usage: make_sbom.py BUILD VERSION EPOCH FILE...
"""
import datetime
import hashlib
import json
import pathlib
import re
import sys

LIBRARIES = {  # name: its licence, and the entry of CMakeCache.txt that has its version
    "jansson": ("MIT", "JANSSON_VERSION"),
    "openssl": ("Apache-2.0", "LIBCRYPTO_VERSION"),
    "zlib": ("Zlib", "ZLIB_VERSION"),
    "libcurl": ("curl", "LIBCURL_VERSION"),
    "expat": ("MIT", "EXPAT_VERSION"),
    "bzip2": ("bzip2-1.0.6", None),
    "libmicrohttpd": ("LGPL-2.1-or-later", "MICROHTTPD_VERSION"),
    # Of the static program alone, whose libraries are Debian's source packages (package/static/libraries).
    "curl": ("curl", None),
    "musl": ("MIT", None),
    "gcc-12": ("GPL-3.0-or-later WITH GCC-exception-3.1", None),
}


def cache_of(build: pathlib.Path) -> dict:
    return dict(re.findall(r"^([A-Za-z0-9_]+):\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.M))


def versions(cache: dict) -> dict:
    """Those of the libraries that the build found, or that the static program is linked with."""
    if cache.get("BERTH_STATIC_LIBRARIES"):
        path = pathlib.Path(cache["BERTH_STATIC_LIBRARIES"]) / cache["BERTH_STATIC_PROCESSOR"] / "versions"
        return dict(line.split() for line in path.read_text().splitlines())
    found = {name: cache[key] for name, (_, key) in LIBRARIES.items() if key is not None and cache.get(key)}
    if cache.get("BZIP2_INCLUDE_DIR"):
        found["bzip2"] = "1.0"
    return found


def package(name: str, version: str, licence: str) -> dict:
    return {"SPDXID": f"SPDXRef-{name}", "name": name, "versionInfo": version, "licenseConcluded": licence,
            "licenseDeclared": licence, "downloadLocation": "NOASSERTION", "copyrightText": "NOASSERTION",
            "filesAnalyzed": False}


def file_entry(path: pathlib.Path) -> dict:
    content = path.read_bytes()
    identity = re.sub(r"[^A-Za-z0-9.]", "-", path.name)
    return {"SPDXID": f"SPDXRef-File-{identity}", "fileName": f"./{path.name}",
            "checksums": [{"algorithm": "SHA1", "checksumValue": hashlib.sha1(content).hexdigest()},
                          {"algorithm": "SHA256", "checksumValue": hashlib.sha256(content).hexdigest()}],
            "licenseConcluded": "Apache-2.0", "copyrightText": "NOASSERTION"}


def main():
    build, version, epoch, *paths = sys.argv[1:]
    libraries = [package(name, number, LIBRARIES[name][0])
                 for name, number in sorted(versions(cache_of(pathlib.Path(build))).items())]
    files = [file_entry(pathlib.Path(path)) for path in paths]
    digest = hashlib.sha256("".join(entry["checksums"][1]["checksumValue"] for entry in files).encode()).hexdigest()
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-berth")]
    relations += [("SPDXRef-berth", "DEPENDS_ON", library["SPDXID"]) for library in libraries]
    relations += [("SPDXRef-berth", "CONTAINS", entry["SPDXID"]) for entry in files]
    created = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc)
    json.dump({"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
               "name": f"berth-{version}", "documentNamespace": f"https://spdx.org/spdxdocs/berth-{version}-{digest}",
               "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: make_sbom.py"]},
               "packages": [package("berth", version, "Apache-2.0")] + libraries, "files": files,
               "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}
                                 for a, kind, b in relations]}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
