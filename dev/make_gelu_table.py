#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/device/cpu/kernels/gelu_table.h: GELU and its slope as pieces of polynomials.

    dev/make_gelu_table.py > src/device/cpu/kernels/gelu_table.h

x Phi(x) = max(x, 0) - t(|x|) with t(a) = a (1 - Phi(a)), and the slope of GELU is s(a) at -a and 1 - s(a) at a,
with s(a) = 1 - Phi(a) - a phi(a). Piece i of t and of s is a polynomial of r on [-1/2, 1/2], exact at the Chebyshev
points, where a = (i + r) LIMIT / (PIECES - 1). Needs mpmath.
"""
import textwrap

from mpmath import cos, erfc, exp, lu_solve, matrix, mp, mpf, nstr, pi, sqrt

mp.dps = 40
PIECES = 8
DEGREE = 7
LIMIT = mpf("5.75")


def rest(a):
    return erfc(a / sqrt(2)) / 2


def tail(a):
    return a * rest(a)


def slope(a):
    return rest(a) - a * exp(-a * a / 2) / sqrt(2 * pi)


def chebyshev(count):
    return [cos((2 * k + 1) * pi / (2 * count)) / 2 for k in range(count)]


def coefficients(function, i):
    # The first piece has no negative r, and is exact at 0, so that zeros stay zeros.
    points = chebyshev(DEGREE + 1) if i > 0 else [mpf(0)] + [(r + mpf("0.5")) / 2 for r in chebyshev(DEGREE)]
    powers = matrix([[r**k for k in range(DEGREE + 1)] for r in points])
    return lu_solve(powers, matrix([function((i + r) * LIMIT / (PIECES - 1)) for r in points]))


def array(name, function):
    pieces = [coefficients(function, i) for i in range(PIECES)]
    rows = [", ".join(nstr(p[k], 9, min_fixed=1, max_fixed=0) + "f" for p in pieces) for k in range(DEGREE + 1)]
    text = ",\n".join(textwrap.fill("{" + row + "}", 100, initial_indent=" " * 4, subsequent_indent=" " * 5) for row in rows)
    return f"static const float {name}[GELU_DEGREE + 1][GELU_PIECES] = {{\n{text}}};"


print(f"""// SPDX-License-Identifier: Apache-2.0
// Polynomials that approximate GELU on eight intervals: as many that one instruction looks up the
// coefficients for a whole register (kernels/activations.h). Made by dev/make_gelu_table.py, which
// has the formulas; do not edit.
#ifndef BERTH_CPU_KERNELS_GELU_TABLE_H
#define BERTH_CPU_KERNELS_GELU_TABLE_H

#define GELU_PIECES {PIECES}
#define GELU_DEGREE {DEGREE}
#define GELU_LIMIT {nstr(LIMIT, 5)}f

// The coefficients of r^0, r^1, ... of all pieces.
// clang-format off
{array("gelu_tail", tail)}
{array("gelu_slope", slope)}
// clang-format on

#endif""")
