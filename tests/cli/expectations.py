# SPDX-License-Identifier: Apache-2.0
"""What the tests in Python share: expectations, of which each failure is printed when it is found and counted in
`failures`, and runs of the program."""
import os
import subprocess

failures = []
# An MPI does not free all of its memory.
WITHOUT_LEAKS = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
ENVIRONMENT = dict(os.environ, OMP_WAIT_POLICY="passive", OMPI_ALLOW_RUN_AS_ROOT="1",
                   OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED:", what)


def run_program(program, *words, code=0, launcher=()):
    """Expects the exit code; returns what subprocess.run does, with the output as text."""
    done = subprocess.run([*launcher, program, *map(str, words)], capture_output=True, text=True, check=False,
                          env=dict(ENVIRONMENT, ASAN_OPTIONS=WITHOUT_LEAKS) if launcher else ENVIRONMENT)
    expect(done.returncode == code, f"{' '.join(map(str, words))}: exit code {done.returncode}, expected {code}: {done.stderr}")
    return done
