#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a large dump from a small one for measurements, by repeating its pages with new ids and titles.

    python3 bench/wikipedia_dump.py enwiki-sample.xml.bz2 BYTES big.xml[.bz2]
"""
import bz2
import re
import sys

PAGE = re.compile(rb"<page>.*?</page>\s*", re.S)
TITLE = re.compile(rb"<title>(.*?)</title>")
ID = re.compile(rb"<id>(\d+)</id>")


def main():
    source, size, target = sys.argv[1], float(sys.argv[2]), sys.argv[3]
    dump = bz2.open(source).read()
    pages = PAGE.findall(dump)
    head = dump[:dump.index(b"<page>")]
    written = len(head)
    number = 0
    with (bz2.open if target.endswith(".bz2") else open)(target, "wb") as out:
        out.write(head)
        while written < size:
            for page in pages:
                number += 1
                new = TITLE.sub(lambda found: b"<title>%s (%d)</title>" % (found[1], number), page, count=1)
                new = ID.sub(b"<id>%d</id>" % number, new, count=1)
                out.write(new)
                written += len(new)
        out.write(b"</mediawiki>\n")
    print(f"{number} pages, {written} bytes of XML")


main()
