#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/text/python_tables.h: the Unicode tables of Python's str.lower() and re's \\w.

The official SQuAD scores are defined by Python scripts, so their text rules are those of Python's own tables.
Run with Python 3.11 (Unicode 14):

    dev/make_python_tables.py > src/text/python_tables.h
"""
import sys
import unicodedata

SIGMA = "\u03a3"
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def ranges(test):
    out = []
    for c in ALL:
        if test(chr(c)):
            if out and out[-1][1] == c - 1:
                out[-1][1] = c
            else:
                out.append([c, c])
    return out


def ends_final(text):
    return text.lower()[-1] == "\u03c2"


def is_ignorable(c):  # skipped when a sigma looks for its neighbours
    return not ends_final(c + SIGMA) and ends_final("a" + c + SIGMA)


def is_cased(c):
    return ends_final(c + SIGMA)


def lower_runs():
    """[first, last, step, delta]: characters first, first + step, ..., last become c + delta."""
    runs = []
    for c in ALL:
        low = chr(c).lower()
        if low == chr(c):
            continue
        if len(low) != 1:
            assert c == 0x130 and low == "i\u0307", hex(c)  # the code handles this one itself
            continue
        delta = ord(low) - c
        last = runs[-1] if runs else None
        if last and last[3] == delta and c - last[1] in (1, 2):
            step = c - last[1]
            if last[0] == last[1] or last[2] == step:
                last[1], last[2] = c, step
                continue
        runs.append([c, c, 1, delta])
    return runs


def table(name, kind, rows):
    print(f"static const struct {kind} {name}[] = {{")
    line = "   "
    for row in rows:
        item = " {" + ", ".join(str(v) if i == 3 else f"0x{v:X}" if i < 2 else str(v)
                                for i, v in enumerate(row)) + "},"
        if len(line + item) > 100:
            print(line)
            line = "   "
        line += item
    print(line + "\n};")


print(f"""// SPDX-License-Identifier: Apache-2.0
// Made by dev/make_python_tables.py with Unicode {unicodedata.unidata_version}; do not edit.
//
// Ranges of characters [first, last], ascending. python_lower_runs: the characters first, first +
// step, ..., last become themselves plus delta.
#ifndef BERTH_TEXT_PYTHON_TABLES_H
#define BERTH_TEXT_PYTHON_TABLES_H

#include <stdint.h>

// clang-format off
struct python_range {{
    uint32_t first, last;
}};
struct python_run {{
    uint32_t first, last, step;
    int32_t delta;
}};
""")
table("python_words", "python_range", ranges(lambda c: c.isalnum() or c == "_"))
table("python_cased", "python_range", ranges(is_cased))
table("python_ignorable", "python_range", ranges(is_ignorable))
table("python_lower_runs", "python_run", lower_runs())
print("// clang-format on\n\n#endif")
