# SPDX-License-Identifier: Apache-2.0
"""Common parts of the comparisons with PyTorch: worker processes that alternate with `berth bench`."""
import json
import os
import subprocess
import sys
import tempfile

# By default glibc's allocator returns large blocks to the system and pays for new pages at every step;
# PyTorch is faster if it keeps them.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
               "MALLOC_TOP_PAD_": str(1 << 28)}


class Torch:
    """A worker process of `script` (which accepts --worker), warmed up; `options` are the names of the
    options that are passed on to it, `program` that which it measures."""

    def __init__(self, script, options, mode, setting, a, program="PyTorch"):
        command = [sys.executable, "-W", "ignore", os.path.abspath(script), "--worker", mode, "--settings", setting]
        for option in options:
            if getattr(a, option) is not None:
                command += [f"--{option}", str(getattr(a, option))]
        env = {**os.environ, **KEEP_MEMORY, "OMP_NUM_THREADS": str(a.threads)}
        self.program, self.errors = program, None if a.verbose else tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True, env=env)
        self.about = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.program}'s process ended early{self.last_error()}")
        return json.loads(line)

    def last_error(self):
        """Its last line, unless --verbose shows all."""
        if self.errors is None:
            return ""
        self.process.wait()
        self.errors.seek(0)
        return f" (--verbose shows more): {(self.errors.read().strip().splitlines() or ['no message'])[-1]}"

    def measure(self, what="go"):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def run_berth(command):
    """The JSON that a benchmark of Berth's printed as its last line."""
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(command)}: exit code {result.returncode}")
    return json.loads(result.stdout.strip().splitlines()[-1])


def fastest(start, mode, settings, a):
    """The best setting in this mode, and the tokens/s of each (None: it failed). `start` starts a worker. A
    single setting is not tried first."""
    if len(settings) == 1:
        return settings[0], {}
    tried = {}
    for setting in settings:
        try:
            process = start(mode, setting, a)
            tried[setting] = process.measure()["tokens_per_second"]
            process.close()
        except RuntimeError as error:
            print(f"{mode}: {setting}: {error}", file=sys.stderr)
            tried[setting] = None
        print(f"{mode}: {setting}: {tried[setting] or 0:.0f} tokens/s", file=sys.stderr, flush=True)
    good = {k: v for k, v in tried.items() if v}
    if not good:
        sys.exit(f"{mode}: no setting of PyTorch works")
    return max(good, key=good.get), tried
