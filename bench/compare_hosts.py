#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An update of several hosts beside PyTorch's DistributedDataParallel over gloo, on hosts made of network namespaces.

Each host has one process with one thread. All train the same geometry with a classifier, on the same number of sequences of
the same length, in the same precision, with dropout 0.1, global clipping and AdamW. In turn, for --rounds rounds:

    exact, native    berth bench train --reduce exact | native, under each of --mpis
    exact racks      with --rack_hosts: exact, with --topology; all programs then run on hosts in racks of so many, whose link to
                     each other carries --rack_gbit
    ddp              PyTorch + transformers, gradients in buckets of 25 MB (DDP's default) over gloo; with --precision bf16
                     autocast, and gradients exchanged in bf16 (DDP's own hook), as Berth does

Prints a row for each program, as CSV: seconds of an update in each round, and the megabytes of an update that a host sends to
others, by the network's own counters, mean of the hosts. Berth's are those of the whole run by its updates, with what the
start sends; DDP's are of the measured updates, because it first sends all weights. Needs root, the MPIs, and a machine that
does nothing else.

    compare_hosts.py --berth build/release/berth --data MRPC --vocab vocab.txt --python python-with-torch --hosts 2 --gbit 1,10
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
START = """
. {root}/tests/lab/hosts.sh
hosts_up {hosts} || exit
trap '[ $BASHPID -ne $$ ] || hosts_down' EXIT
for k in $(seq {hosts}); do hosts_rate $k {mbit}mbit {queue} || exit; done
for ((k = 1; {rack} > 0 && k <= {hosts}; k += {rack})); do
    hosts_rack $k {rack_mbit}mbit $(seq $k $((k + {rack} - 1))) || exit
done
for k in $(seq {hosts}); do echo "${{lab}}h$k r$(((k - 1) / ({rack} > 0 ? {rack} : {hosts})))"; done >"$RACKS"
sent() {{ local k; for k in $(seq {hosts}); do hosts_bytes $k; done | paste -sd+ | bc; }}
before=$(sent)
"""
BERTH = START + """
hosts_{mpi} {hosts} 1 "$@" || exit
echo "{{\\"sent\\": $(($(sent) - before))}}"
"""
DDP = START + """
for k in $(seq 2 {hosts}); do hosts_exec $k "$@" --rank $((k - 1)) & done
hosts_exec 1 "$@" --rank 0
wait
"""


# --- a process of PyTorch's -------------------------------------------------------------------------------------------

def counter():
    return int(pathlib.Path("/sys/class/net/eth0/statistics/tx_bytes").read_text(encoding="ascii"))


def worker(a):
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
    from torch.nn.parallel import DistributedDataParallel
    from torch_training import autocast, update
    from transformers import BertConfig, BertForSequenceClassification
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="tcp://10.77.0.1:29400", rank=a.rank, world_size=a.ranks)
    torch.manual_seed(1)
    model = BertForSequenceClassification(BertConfig(**geometry(a))).train()
    call = DistributedDataParallel(model, gradient_as_bucket_view=True)
    if a.precision == "bf16":
        call.register_comm_hook(None, bf16_compress_hook)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.01, fused=True)
    ids = torch.randint(1000, 30000, (a.sequences, a.length))
    labels = torch.randint(0, 2, (a.sequences,))

    def run():
        with autocast(a.precision):
            loss = call(input_ids=ids, labels=labels).loss
        loss.backward()
        update(model, optimizer)

    for _ in range(2):  # after the first update DDP forms its buckets again
        run()
    dist.barrier()
    sent, began = counter(), time.perf_counter()
    for _ in range(a.steps):
        run()
    dist.barrier()
    seconds = (time.perf_counter() - began) / a.steps
    total = torch.tensor([float(counter() - sent)])
    dist.reduce(total, 0)
    if a.rank == 0:
        print(json.dumps({"seconds": seconds, "sent": total.item() / a.steps / a.ranks,
                          "parameters": sum(p.numel() for p in model.parameters())}), flush=True)
    dist.destroy_process_group()


# --- both ---------------------------------------------------------------------------------------------------------------

def geometry(a):
    return {"vocab_size": 30522, "hidden_size": a.hidden, "num_hidden_layers": a.layers, "num_attention_heads": a.hidden // 64,
            "intermediate_size": 4 * a.hidden}


def last_line(a, script, words, hosts, gbit, **more):
    """The JSON lines that a run on hosts printed, as one object."""
    text = script.format(root=ROOT, hosts=hosts, mbit=round(gbit * 1000), queue=a.queue_ms, rack=a.rack_hosts,
                         rack_mbit=round(a.rack_gbit * 1000), **more)
    env = dict(os.environ, OMP_WAIT_POLICY="passive", OMP_NUM_THREADS="1", LAB=f"c{os.getpid()}", TMPDIR="/tmp",
               GLOO_SOCKET_IFNAME="eth0", RACKS=a.racks, BERTH_MODULE_PATH=str(pathlib.Path(a.berth).parent))
    done = subprocess.run(["bash", "-c", text, "bash", *words], env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    found = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            found.update(json.loads(line))
    return found


def berth(a, config, mpi, reduce, hosts, gbit):
    form, *racks = reduce.split()
    words = [a.berth, "bench", "train", "--config", config, "--task_name", "mrpc", "--data_dir", a.data, "--vocab_file", a.vocab,
             "--precision", a.precision, "--max_seq_length", str(a.length), "--pad_to", str(a.length), "--update_sequences",
             str(a.sequences * hosts), "--steps", str(a.steps), "--threads", "1", "--reduce", form, "--quiet", "--json",
             *(["--topology", a.racks] if racks else [])]
    found = last_line(a, BERTH, words, hosts, gbit, mpi=mpi)
    return found["seconds"] / found["steps"], found["sent"] / (found["steps"] + 1) / hosts


def ddp(a, hosts, gbit):
    words = [a.python, "-W", "ignore", os.path.abspath(__file__), "--worker", "--ranks", str(hosts)]
    for key in ("precision", "sequences", "length", "steps", "layers", "hidden"):
        words += [f"--{key}", str(getattr(a, key))]
    found = last_line(a, DDP, words, hosts, gbit)
    return found["seconds"], found["sent"]


def compare(a, config, hosts, gbit):
    forms = ("exact", "exact racks", "native") if a.rack_hosts else ("exact", "native")
    sides = {f"{mpi} {reduce}": lambda mpi=mpi, reduce=reduce: berth(a, config, mpi, reduce, hosts, gbit)
             for mpi in a.mpis.split(",") for reduce in forms}
    sides["ddp gloo"] = lambda: ddp(a, hosts, gbit)
    rounds = [{name: run() for name, run in sides.items()} for _ in range(a.rounds)]
    for name in sides:
        seconds = ", ".join(f"{one[name][0]:.3f}" for one in rounds)
        print(f'{hosts},{gbit:g},{name},"{seconds}",{rounds[-1][name][1] / 1e6:.1f}', flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--berth", default="berth", help="the program")
    p.add_argument("--data", help="folder of MRPC, whose sentences Berth trains on")
    p.add_argument("--vocab", help="BERT's vocab.txt")
    p.add_argument("--python", default=sys.executable, help="a Python that has torch and transformers")
    p.add_argument("--mpis", default="openmpi,mpich")
    p.add_argument("--hosts", default="2,4")
    p.add_argument("--gbit", default="1,10", help="rate of a host's link in each direction")
    p.add_argument("--rack_hosts", type=int, default=0, help="hosts of a rack; 0: there are no racks")
    p.add_argument("--rack_gbit", type=float, default=1, help="rate of a rack's link in each direction")
    p.add_argument("--queue_ms", type=int, default=20, help="the longest queue of a link; what is beyond it is lost")
    p.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--length", type=int, default=32, help="tokens of each sequence")
    p.add_argument("--sequences", type=int, default=16, help="of a host in an update")
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--rounds", type=int, default=3)
    for name, kind in (("--rank", int), ("--ranks", int)):
        p.add_argument(name, type=kind, help=argparse.SUPPRESS)
    p.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.worker:
        worker(a)
        return
    a.berth, a.data, a.vocab = (os.path.abspath(path) for path in (shutil.which(a.berth) or a.berth, a.data, a.vocab))
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # the hosts have /dev/shm for themselves
        config = os.path.join(folder, "config.json")
        a.racks = os.path.join(folder, "racks")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({**geometry(a), "max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu",
                       "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "layer_norm_eps": 1e-12,
                       "initializer_range": 0.02, "model_type": "bert"}, file)
        print('hosts,Gbit/s,program,s an update,MB a host sends', flush=True)
        for hosts in map(int, a.hosts.split(",")):
            for gbit in map(float, a.gbit.split(",")):
                compare(a, config, hosts, gbit)


if __name__ == "__main__":
    main()
