#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several processes on one host beside one process, and beside PyTorch's DistributedDataParallel over gloo.

In turn, for --rounds rounds, each with --sequences sequences an update on the same SQuAD features:

    one     berth, one process with --ranks threads
    ranks   berth, --ranks processes with one thread each, started by --launcher
    ddp     PyTorch + transformers, --ranks processes with one thread each: forward, loss, backward, global clip
            and fused AdamW with dropout 0.1; batches of sequences of similar lengths, each padded to its longest,
            from --strata strata of the file's lengths (as in compare_pytorch.py)

Samples per second are tokens per second divided by the file's mean length, so that the samples of a round do not
matter. The result is the median of the rounds' ratios.

    compare_ranks.py --berth build/release/berth --data train-v1.1.json --vocab vocab.txt
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import squad_features
from compare_pytorch import GEOMETRY, batch_of, strata
from pytorch_worker import Torch, run_berth

WORKER_OPTIONS = ("config", "data", "vocab", "cache", "sequences", "strata", "ranks", "threads", "max_seq_length")


# --- PyTorch's side: rank 0 answers every line on stdin with one measured round, the others follow ------------

def others(a, path):
    command = [sys.executable, "-W", "ignore", os.path.abspath(__file__), "--worker", a.worker,
               "--settings", a.settings, "--file", path]
    for key in WORKER_OPTIONS:
        if getattr(a, key) is not None:
            command += [f"--{key}", str(getattr(a, key))]
    return [subprocess.Popen(command + ["--rank", str(rank)], stdin=subprocess.DEVNULL)
            for rank in range(1, a.ranks)]


def worker(a):
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch_training import autocast, update
    from transformers import BertConfig, BertForQuestionAnswering
    torch.set_num_threads(1)
    path = a.file or os.path.join(tempfile.mkdtemp(), "meeting")
    _, features, _ = squad_features.load(a.vocab, a.data, True, max_seq=a.max_seq_length, cache=a.cache)
    started = others(a, path) if a.rank == 0 else []
    dist.init_process_group("gloo", init_method="file://" + path, rank=a.rank, world_size=a.ranks)
    torch.manual_seed(1)
    hidden, layers, heads, intermediate = GEOMETRY[a.config]
    config = BertConfig(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
                        intermediate_size=intermediate)
    config._attn_implementation = a.settings
    model = BertForQuestionAnswering(config).train()
    call = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.01, fused=True)
    lengths = [len(f.input_ids) for f in features]
    own = a.sequences // a.ranks
    batches = []
    for rows, weight in strata(lengths, 1, a.strata):
        middle = sorted(range(len(lengths)), key=lambda i: lengths[i])
        at = middle.index(rows[0])
        first = max(0, min(at - a.sequences // 2, len(lengths) - a.sequences))
        # In turn, so that all ranks have as much to do.
        mine = middle[first:first + a.sequences][a.rank::a.ranks]
        batches.append((batch_of(features, mine, 0), weight))
    assert all(len(batch["input_ids"]) == own for batch, _ in batches)

    def run(batch):
        with autocast(a.worker):
            loss = call(**batch).loss
        loss.backward()
        update(model, optimizer)

    def round_of_all():
        total = 0.0
        for batch, weight in batches:
            dist.barrier()
            began = time.perf_counter()
            run(batch)
            dist.barrier()
            total += weight * (time.perf_counter() - began) / a.sequences
        return len(features) / total

    go = torch.ones(1)
    round_of_all()
    if a.rank == 0:
        print(json.dumps({"ready": True, "torch": torch.__version__, "mean": sum(lengths) / len(lengths),
                          "shapes": [list(b["input_ids"].shape) for b, _ in batches]}), flush=True)
        for _ in sys.stdin:
            dist.broadcast(go, 0)
            print(json.dumps({"samples_per_second": round_of_all()}), flush=True)
        dist.broadcast(torch.zeros(1), 0)
        for process in started:
            process.wait()
        return
    while True:
        dist.broadcast(go, 0)
        if go.item() == 0:
            return
        round_of_all()


# --- Berth's side, the comparison -----------------------------------------------------------------------------

def berth(a, precision, ranks):
    command = [a.berth, "bench", "train", "--config", a.config, "--data", a.data, "--vocab_file", a.vocab,
               "--precision", precision, "--update_sequences", str(a.sequences), "--steps", str(a.steps),
               "--threads", str(a.ranks // ranks), "--quiet", "--json"] + a.berth_args.split()
    return run_berth((a.launcher.format(ranks=ranks).split() if ranks > 1 else []) + command)


def compare(a, precision):
    process = Torch(__file__, WORKER_OPTIONS, precision, a.settings, a) if a.settings != "none" else None
    rounds = []
    for number in range(a.rounds):
        one, ranks = berth(a, precision, 1), berth(a, precision, a.ranks)
        row = {"one": one["tokens_per_second"], "ranks": ranks["tokens_per_second"], "mfu": ranks["mfu"],
               "exposed": ranks["comm_exposed_seconds"] / ranks["seconds"], "imbalance": ranks["imbalance"]}
        if process is not None:
            row["ddp"] = process.measure()["samples_per_second"] * process.about["mean"]
        rounds.append(row)
        print(f"{precision}: round {number + 1}: "
              + ", ".join(f"{key} {value:.3f}" for key, value in row.items()), file=sys.stderr, flush=True)
    if process is not None:
        process.close()
    result = {"precision": precision, "rounds": rounds}
    for peer in ("one", "ddp"):
        if peer in rounds[0]:
            result["ranks_by_" + peer] = statistics.median(r["ranks"] / r[peer] for r in rounds)
    return result


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--berth", default="berth", help="the program")
    p.add_argument("--berth_args", default="", help="more arguments for `berth bench`, in one string")
    p.add_argument("--launcher", default="mpirun --oversubscribe --bind-to none -np {ranks}")
    p.add_argument("--config", choices=sorted(GEOMETRY), default="base")
    p.add_argument("--data", required=True, help="SQuAD training file")
    p.add_argument("--vocab", required=True, help="vocab.txt")
    p.add_argument("--cache", help="folder for cached features")
    p.add_argument("--precisions", default="bf16,fp32")
    p.add_argument("--settings", default="sdpa", help="PyTorch's attention, sdpa or eager; none: leave PyTorch out")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--sequences", type=int, default=32, help="in an update of all ranks")
    p.add_argument("--steps", type=int, default=5, help="measured updates of Berth's in a round")
    p.add_argument("--strata", type=int, default=5)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    p.add_argument("--max_seq_length", type=int, default=384)
    p.add_argument("--verbose", action="store_true", help="let PyTorch's messages through")
    for name, kind, value in (("--worker", str, None), ("--rank", int, 0), ("--file", str, None)):
        p.add_argument(name, type=kind, default=value, help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.worker:
        worker(a)
        return
    results = [compare(a, precision) for precision in a.precisions.split(",")]
    for result in results:
        print(f"{result['precision']}: {a.ranks} ranks of one thread reach {result['ranks_by_one']:.3f} of one process"
              + (f", {result['ranks_by_ddp']:.2f} times DDP" if "ranks_by_ddp" in result else ""))
    print(json.dumps({"config": a.config, "sequences": a.sequences, "machine": platform.machine(),
                      "results": results}))


if __name__ == "__main__":
    main()
