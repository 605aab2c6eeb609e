#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Berth with PyTorch + transformers on the same SQuAD features, in one run on one machine.

Each mode is <job>-<precision>-<batches>: train or predict on SQuAD, or classify, which trains a classifier on
the pairs of MRPC (--mrpc); bf16 (autocast) or fp32; padded (every sequence to --max_seq_length, in classify
to 128, as the original scripts do) or sorted (batches of similar lengths, each padded to its longest
sequence). Berth, which pads nothing, is the same in both.

PyTorch runs with the fastest of --settings in each mode: attention sdpa or eager, with or without
torch.compile. Training is forward, loss, backward, global clip and fused AdamW with dropout 0.1; prediction
runs in inference mode. Warm-up and compilation are not measured. `berth bench` and PyTorch alternate for
--rounds rounds; the result is the median of the rounds' ratios of samples per second. A target ratio that
would need an MFU of Berth above 0.80 (classify: 0.75) counts as met at that MFU.

Sorted batches are measured on --strata batches, each representing an equal share of the file's tokens.
PyTorch runs in separate processes, which sleep while Berth is measured.

With --device cuda both compute on the GPU; --tokens 65536 is then a good size for both (--berth_args
"--update_tokens 65536"), and --enough_mfu should be the share of Berth's peak at which a target counts as met.

Leaves out: quality (quality_pytorch.py), several processes.

    compare_pytorch.py --berth build/berth --data train-v1.1.json --vocab vocab.txt
    compare_pytorch.py ... --modes train-bf16-padded,predict-bf16-padded --settings sdpa --rounds 5
"""
import argparse
import functools
import json
import os
import platform
import statistics
import sys
import time

import pair_features
import squad_features
from pytorch_worker import Torch, fastest, run_berth

GEOMETRY = {"minilm": (384, 6, 12, 1536), "base": (768, 12, 12, 3072), "large": (1024, 24, 16, 4096)}
TARGET = {"padded": 2.4, "sorted": 1.2}
ENOUGH_MFU = 0.80
MODES = [f"{job}-{precision}-{batches}" for job in ("train", "predict")
         for precision in ("bf16", "fp32") for batches in ("padded", "sorted")]
MODES += ["classify-bf16-padded", "classify-fp32-padded"]
CLASSIFY_TARGET, CLASSIFY_ENOUGH_MFU, CLASSIFY_LENGTH = 2.2, 0.75, 128


# --- PyTorch's side: a process that answers every line on stdin with one measured round ----------

def strata(lengths, tokens, count):
    """(rows, weight) of `count` length-sorted batches; weight: the number of samples of the file that each
    represents."""
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    share = sum(lengths) / count
    groups, filled = [[]], 0
    for i in order:
        if filled >= share * len(groups) and len(groups) < count:
            groups.append([])
        groups[-1].append(i)
        filled += lengths[i]
    out = []
    for group in groups:
        middle = len(group) // 2
        size = max(1, round(tokens / lengths[group[middle]]))
        first = max(0, min(middle - size // 2, len(group) - size))
        out.append((group[first:first + size], len(group)))
    return out


def batch_of(features, rows, pad_to):
    import torch
    from torch_training import pad
    batch = pad([features[i] for i in rows], pad_to)
    if isinstance(features[0], pair_features.Feature):
        return {**batch, "labels": torch.tensor([features[i].label for i in rows])}
    return {**batch, "start_positions": torch.tensor([features[i].start for i in rows]),
            "end_positions": torch.tensor([features[i].end for i in rows])}


def worker(a):
    import torch
    from torch_training import autocast, update, wait
    from transformers import BertConfig, BertForQuestionAnswering, BertForSequenceClassification
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    job, precision, kind = a.worker.split("-")
    hidden, layers, heads, intermediate = GEOMETRY[a.config]
    config = BertConfig(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
                        intermediate_size=intermediate)
    config._attn_implementation = a.settings.split("-")[-1]
    model = (BertForSequenceClassification if job == "classify" else BertForQuestionAnswering)(config)
    model.to(a.device)
    model.train(job != "predict")
    call = model
    if a.settings.startswith("compile"):
        call = torch.compile(model, dynamic=kind == "sorted")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.01, fused=True)
    if job == "classify":
        width = CLASSIFY_LENGTH
        features = pair_features.load(a.vocab, os.path.join(a.mrpc, "msr_paraphrase_train.txt"), width)
    else:
        width = a.max_seq_length
        _, features, _ = squad_features.load(a.vocab, a.data, True, max_seq=width, cache=a.cache)
    lengths = [len(f.input_ids) for f in features]
    if kind == "sorted":
        parts = strata(lengths, a.tokens, a.strata)
        batches = [(batch_of(features, rows, 0), weight) for rows, weight in parts]
    else:
        size = max(1, a.tokens // width)
        batches = [(batch_of(features, range(size), width), len(features))]

    def run(batch):
        batch = {k: v.to(a.device, non_blocking=True) for k, v in batch.items()}
        if job == "predict":
            with torch.inference_mode(), autocast(precision, a.device):
                call(**{k: v for k, v in batch.items() if not k.endswith("positions")})
            return
        with autocast(precision, a.device):
            loss = call(**batch).loss
        loss.backward()
        update(model, optimizer)

    for batch, _ in batches:
        for _ in range(a.warm_ups):
            run(batch)
    wait(a.device)
    print(json.dumps({"ready": True, "shapes": [list(b["input_ids"].shape) for b, _ in batches],
                      "torch": torch.__version__}), flush=True)
    for _ in sys.stdin:
        total = 0.0
        for batch, weight in batches:
            began = time.perf_counter()
            for _ in range(a.repeats):
                run(batch)
            wait(a.device)
            took = (time.perf_counter() - began) / a.repeats
            total += weight * took / len(batch["input_ids"])
        rate = len(features) / total
        print(json.dumps({"samples_per_second": rate,
                          "tokens_per_second": rate * sum(lengths) / len(lengths)}), flush=True)


# --- Berth's side, the comparison ----------------------------------------------------------------

def berth(mode, a):
    job, precision, _ = mode.split("-")
    data = ["--data", a.data]
    if job == "classify":
        job, data = "train", ["--task_name", "mrpc", "--data_dir", a.mrpc]
    command = [a.berth, "bench", job, "--config", a.config, *data, "--vocab_file", a.vocab,
               "--precision", precision, "--threads", str(a.threads), "--device", a.device, "--json"] + a.berth_args.split()
    return run_berth(command)


WORKER_OPTIONS = ("config", "data", "mrpc", "vocab", "cache", "tokens", "strata", "repeats", "threads",
                  "max_seq_length", "device", "warm_ups")
start = functools.partial(Torch, __file__, WORKER_OPTIONS)


def compare(mode, settings, a):
    setting, tried = fastest(start, mode, settings, a)
    process = start(mode, setting, a)
    rounds = []
    for number in range(a.rounds):
        peer = process.measure()
        ours = berth(mode, a) if a.berth else None
        rounds.append((peer, ours))
        print(f"{mode}: round {number + 1}: pytorch {peer['samples_per_second']:.2f}"
              + (f", berth {ours['samples_per_second']:.2f} samples/s" if ours else " samples/s"),
              file=sys.stderr, flush=True)
    row = {"mode": mode, "setting": setting, "tried": tried, "shapes": process.about["shapes"],
           "torch": process.about["torch"],
           "pytorch": statistics.median(p["samples_per_second"] for p, _ in rounds),
           "pytorch_tokens": statistics.median(p["tokens_per_second"] for p, _ in rounds)}
    process.close()
    if a.berth:
        row["berth"] = statistics.median(b["samples_per_second"] for _, b in rounds)
        row["berth_tokens"] = statistics.median(b["tokens_per_second"] for _, b in rounds)
        row["mfu"] = statistics.median(b["mfu"] for _, b in rounds)
        ratios = [b["samples_per_second"] / p["samples_per_second"] for p, b in rounds]
        row["ratios"] = ratios
        row["ratio"] = statistics.median(ratios)
        row["tokens_ratio"] = statistics.median(
            b["tokens_per_second"] / p["tokens_per_second"] for p, b in rounds)
        classify = mode.startswith("classify")
        row["target"] = CLASSIFY_TARGET if classify else TARGET[mode.split("-")[-1]]
        enough = a.enough_mfu or (CLASSIFY_ENOUGH_MFU if classify else ENOUGH_MFU)
        row["met"] = row["ratio"] >= row["target"] or row["mfu"] >= enough
    return row


def show(rows, a):
    print(f"config {a.config}, {a.threads} threads, {a.rounds} rounds, {a.tokens} tokens a batch, "
          f"padded to {a.max_seq_length}, {platform.processor() or platform.machine()}")
    head = ("mode", "PyTorch", "samples/s", "Berth", "MFU", "ratio", "by tokens", "target", "met")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for r in rows:
        cells = [r["mode"], r["setting"], f"{r['pytorch']:.2f}"]
        if "berth" in r:
            cells += [f"{r['berth']:.2f}", f"{r['mfu']:.3f}", f"{r['ratio']:.2f}",
                      f"{r['tokens_ratio']:.2f}", str(r["target"]), "yes" if r["met"] else "NO"]
        print("| " + " | ".join(cells + [""] * (len(head) - len(cells))) + " |")
    line = json.dumps({"config": a.config, "threads": a.threads, "rounds": a.rounds, "results": rows})
    print(line)
    if a.json:
        with open(a.json, "w") as stream:
            print(line, file=stream)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--berth", help="the program; without it only PyTorch is measured")
    p.add_argument("--berth_args", default="", help="more arguments for `berth bench`, in one string")
    p.add_argument("--config", choices=sorted(GEOMETRY), default="base")
    p.add_argument("--data", help="SQuAD training file")
    p.add_argument("--mrpc", help="folder with MRPC's raw files, for the modes classify-*")
    p.add_argument("--vocab", required=True, help="vocab.txt for PyTorch's features")
    p.add_argument("--cache", help="folder for cached features")
    p.add_argument("--modes", default=",".join(m for m in MODES if not m.startswith("classify")),
                   help="some of: " + " ".join(MODES))
    p.add_argument("--settings", default="sdpa,eager,compile-sdpa",
                   help="what PyTorch may choose from; compile-eager is known too")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--repeats", type=int, default=1, help="steps of each batch in a round")
    p.add_argument("--tokens", type=int, default=6144, help="tokens of PyTorch's batches, padding included")
    p.add_argument("--strata", type=int, default=3, help="batches measured in the sorted modes")
    p.add_argument("--max_seq_length", type=int, default=384)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--warm_ups", type=int, default=1, help="steps of each of PyTorch's batches before it is measured")
    p.add_argument("--enough_mfu", type=float, help=f"at which a target counts as met [{ENOUGH_MFU}, classify: "
                                                    f"{CLASSIFY_ENOUGH_MFU}]")
    p.add_argument("--json", help="write the JSON line to this file too")
    p.add_argument("--verbose", action="store_true", help="let PyTorch's messages through")
    p.add_argument("--worker", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.worker:
        worker(a)
        return
    modes = a.modes.split(",")
    for mode in modes:
        if (a.mrpc if mode.startswith("classify") else a.data) is None:
            sys.exit(f"mode {mode} needs {'--mrpc' if mode.startswith('classify') else '--data'}")
        if mode not in MODES:
            sys.exit(f"unknown mode {mode}; known: {' '.join(MODES)}")
    for setting in a.settings.split(","):
        if setting not in ("sdpa", "eager", "compile-sdpa", "compile-eager"):
            sys.exit(f"unknown setting {setting}")
    rows = [compare(mode, a.settings.split(","), a) for mode in modes]
    show(rows, a)


if __name__ == "__main__":
    main()
