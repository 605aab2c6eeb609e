#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares forecasts of `berth bench ranks` with `berth bench train` on hosts made of network namespaces.

Two ranks compute and exchange in earnest, one thread each. More ranks than the machine has cores, and with --sleep
two as well, sleep for the times that were measured (--replay_compute) and exchange in earnest. With --repeats each row
is the pair of forecast and measurement with the median ratio. Prints a table; exits 1 if a forecast is off by more than
10 % (two ranks) or 15 % (more). Needs root, Open MPI or MPICH, and a quiet machine.

    bench/check_ranks_forecast.py --berth build/release/berth --data train-v1.1.json --vocab vocab.txt
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The lab's shaper counts Ethernet's headers, but not the preamble and gap of a real link, for which a forecast allows.
SHAPER = 1538 / 1514
SCRIPT = """
. {root}/tests/lab/hosts.sh
hosts_up {hosts} || exit
trap '[ $BASHPID -ne $$ ] || hosts_down' EXIT
for k in $(seq {hosts}); do hosts_rate $k {kbit}kbit {queue} || exit; done
hosts_{mpi} {hosts} 1 "$@"
"""


def environment(a):
    return dict(os.environ, OMP_WAIT_POLICY="passive", OMP_NUM_THREADS="1", LAB=f"f{os.getpid()}",
                OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                BERTH_MODULE_PATH=str(pathlib.Path(a.berth).parent))


def words(a, kind, sequences):
    return [a.berth, "bench", kind, "--config", a.config, "--data", a.data, "--vocab_file", a.vocab, "--precision",
            a.precision, "--update_sequences", str(sequences), "--steps", str(a.steps), "--threads", "1", "--zero_stage",
            str(a.zero_stage), "--quiet", "--json"]


def lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def forecast(a, hosts, rates, times=None):
    """By rate. Ranks that compute share this machine's memory, so another process computes meanwhile."""
    command = words(a, "ranks", a.sequences * hosts) + ["--hosts", str(hosts), "--link_delay_us", str(a.delay_us),
                                                        "--link_gbit", ",".join(str(r / 1000) for r in rates)]
    saving = ["--save_times", times] if times else []
    beside = [] if times else [subprocess.Popen(command, env=environment(a), stdout=subprocess.PIPE, text=True)]
    result = subprocess.run(command + saving, env=environment(a), stdout=subprocess.PIPE, text=True, check=True).stdout
    return mean([lines(result)] + [lines(p.communicate()[0]) for p in beside])


def mean(rows):
    """Of lists of forecasts, one by one."""
    numbers = [key for key, value in rows[0][0].items() if not isinstance(value, str)]
    return [{key: sum(one[key] for one in same) / len(rows) for key in numbers} for same in zip(*rows)]


def measure(a, hosts, rate, times=None):
    script = SCRIPT.format(root=ROOT, hosts=hosts, mpi=a.mpi, queue=a.queue_ms, kbit=round(rate * 1000 / SHAPER))
    command = words(a, "train", a.sequences * hosts) + (["--replay_compute", times] if times else [])
    run = subprocess.run(["bash", "-c", script, "bash"] + command, env=environment(a), stdout=subprocess.PIPE, text=True,
                         check=True)
    return lines(run.stdout)[-1]


def ratio_of(pair):
    predicted, real = pair
    return predicted["predicted_samples_per_second"] / real["samples_per_second"]


def sleeping_pairs(a, hosts, times):
    """Of all rates, for which one measurement of what ranks compute is enough."""
    return [(predicted, measure(a, hosts, rate, times))
            for rate, predicted in zip(a.rates, forecast(a, hosts, a.rates, times))]


def computing_pair(a, hosts, rate):
    """The machine's speed drifts, so what ranks compute is measured before and after."""
    before, real, after = forecast(a, hosts, [rate]), measure(a, hosts, rate), forecast(a, hosts, [rate])
    return mean([before, after])[0], real


def pairs(a, hosts, times):
    """Forecast and measurement of each rate, those with the median ratio."""
    rounds = [sleeping_pairs(a, hosts, times) if times else [computing_pair(a, hosts, rate) for rate in a.rates]
              for _ in range(a.repeats)]
    return [sorted(each, key=ratio_of)[len(rounds) // 2] for each in zip(*rounds)]


def check(a, hosts):
    """The number of forecasts that are off."""
    limit, wrong = (0.15, 0) if hosts > 2 else (0.10, 0)
    sleeps = a.sleep or hosts > 2
    with tempfile.TemporaryDirectory() as folder:
        found = pairs(a, hosts, os.path.join(folder, "times.json") if sleeps else None)
    for rate, (predicted, real) in zip(a.rates, found):
        ratio, steps = ratio_of((predicted, real)), real["steps"]
        wrong += abs(ratio - 1) > limit
        print(f"{hosts:5} {'sleeps' if sleeps else 'computes':>8} {rate:6g} {real['samples_per_second']:9.2f} "
              f"{predicted['predicted_samples_per_second']:9.2f} {ratio:6.3f} "
              f"{real['comm_exposed_seconds'] / steps:9.3f} {predicted['comm_exposed_seconds'] / steps:9.3f} "
              f"{real['comm_bytes'] / steps / 1e6:8.1f} {predicted['comm_bytes'] / steps / 1e6:8.1f}"
              + (f"  off by more than {limit:.0%}" if abs(ratio - 1) > limit else ""), flush=True)
    return wrong


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--berth", default="berth", help="the program")
    p.add_argument("--data", required=True, help="SQuAD training file")
    p.add_argument("--vocab", required=True, help="vocab.txt")
    p.add_argument("--config", default="minilm")
    p.add_argument("--precision", default="bf16")
    p.add_argument("--zero_stage", type=int, default=0)
    p.add_argument("--hosts", default="2,4,8")
    p.add_argument("--rates", default="1000,300,100", help="Mbit/s")
    p.add_argument("--delay_us", type=float, default=50)
    p.add_argument("--sequences", type=int, default=16, help="of an update, for each rank")
    p.add_argument("--steps", type=int, default=4)
    p.add_argument("--sleep", action="store_true", help="two ranks sleep as well")
    p.add_argument("--repeats", type=int, default=1)
    p.add_argument("--mpi", choices=("openmpi", "mpich"), default="mpich")
    p.add_argument("--queue_ms", type=int, default=200,
                   help="of a link, before packets are lost, of which a forecast knows nothing")
    a = p.parse_args()
    a.rates = [float(rate) for rate in a.rates.split(",")]
    a.berth, a.data, a.vocab = (os.path.abspath(path) for path in (shutil.which(a.berth) or a.berth, a.data, a.vocab))
    print("hosts    ranks Mbit/s samples/s  forecast  ratio exposed s  forecast  sent MB forecast", flush=True)
    wrong = sum(check(a, int(hosts)) for hosts in a.hosts.split(","))
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
