# SPDX-License-Identifier: Apache-2.0
"""What the tests in Python expect: each failure is printed when it is found, and counted in `failures`."""
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED:", what)
