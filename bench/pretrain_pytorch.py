#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Berth's pre-training with PyTorch + transformers on the same unpacked HDF5 rows.

Speed: each mode is <precision>-<length>; bf16 (autocast) or fp32. PyTorch trains BertForPreTraining on the
stored rows, padded to their length, with an attention mask, as the reference scripts do; its decoder gets
only the masked tokens. The loss is masked language model plus next sentence, then global clip and fused
AdamW, dropout 0.1. PyTorch runs with the fastest of --settings: attention sdpa or eager, with or without
torch.compile; warm-up and compilation are not measured. `berth bench pretrain` trains with the same optimizer
on the same files without their padding. Both alternate for --rounds rounds; the result is the median of the
rounds' ratios of real tokens per second.

    pretrain_pytorch.py --berth build/release/berth --data_128 DIR --data_512 DIR
    pretrain_pytorch.py ... --modes bf16-512 --settings sdpa --rounds 5

Loss: --curve trains a small model for some updates on the rows of one file in file order, without dropout,
with PyTorch and with Berth (--compare, a build's tests/train/pretraining_curve). Prints the losses and their
differences; exits 1 if an update's losses are more than 0.5 % apart.

    pretrain_pytorch.py --curve FILE.hdf5 --compare build/release/tests/train/pretraining_curve

HDF5 is read by h5py, with --h5_python in another Python. Leaves out: several processes, GPUs, quality.
"""
import argparse
import functools
import io
import json
import platform
import statistics
import subprocess
import sys
import time

from compare_pytorch import GEOMETRY
from pytorch_worker import Torch, fastest, run_berth

TARGET, ENOUGH_MFU = 1.2, 0.80
KEYS = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions", "masked_lm_ids", "next_sentence_labels")
READ = """
import sys, glob, os, h5py, numpy, io
path, most = sys.argv[1], int(sys.argv[2])
files = [path] if os.path.isfile(path) else sorted(glob.glob(os.path.join(path, "**", "*.hdf5"), recursive=True))
files = [f for f in files if len(files) == 1 or "training" in os.path.basename(f)] or files
parts, rows = [], 0
for name in files:
    with h5py.File(name) as f:
        parts.append({k: f[k][:most - rows] for k in %r})
    rows += len(parts[-1]["input_ids"])
    if rows >= most:
        break
out = io.BytesIO()
numpy.savez(out, **{k: numpy.concatenate([p[k] for p in parts]) for k in %r})
sys.stdout.buffer.write(out.getvalue())
""" % (KEYS, KEYS)


def read_rows(python, path, most):
    """The first rows of a shard, or of the training shards of a folder, as arrays."""
    import numpy
    command = [python or sys.executable, "-c", READ, path, str(most)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return dict(numpy.load(io.BytesIO(done.stdout)))


def batch_of(rows, chosen):
    """Padded rows, and the positions of their masked tokens in the flattened batch."""
    import numpy
    import torch
    part = {k: v[chosen] for k, v in rows.items()}
    width = part["input_ids"].shape[1]
    # The first 0 ends the positions: [CLS] is never masked.
    at, words = [], []
    for r, (positions, ids) in enumerate(zip(part["masked_lm_positions"], part["masked_lm_ids"])):
        count = int(numpy.argmin(positions)) if (positions == 0).any() else len(positions)
        at += [r * width + int(p) for p in positions[:count]]
        words += [int(i) for i in ids[:count]]
    return {"input_ids": torch.tensor(part["input_ids"]).long(),
            "token_type_ids": torch.tensor(part["segment_ids"]).long(),
            "attention_mask": torch.tensor(part["input_mask"]).long(),
            "at": torch.tensor(at), "words": torch.tensor(words),
            "next": torch.tensor(part["next_sentence_labels"]).long()}


def pretraining_loss(model, batch):
    import torch
    out = model.bert(**{k: batch[k] for k in ("input_ids", "token_type_ids", "attention_mask")})
    hidden = out.last_hidden_state.flatten(0, 1)[batch["at"]]
    words, following = model.cls(hidden, out.pooler_output)
    ce = torch.nn.functional.cross_entropy
    return ce(words.float(), batch["words"]) + ce(following.float(), batch["next"])


def new_model(hidden, layers, heads, intermediate, setting, dropout):
    from transformers import BertConfig, BertForPreTraining
    config = BertConfig(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
                        intermediate_size=intermediate, hidden_dropout_prob=dropout,
                        attention_probs_dropout_prob=dropout)
    config._attn_implementation = setting.split("-")[-1]
    return BertForPreTraining(config)


# --- speed ---------------------------------------------------------------------------------------

def worker(a):
    import torch
    from torch_training import autocast, update
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    precision, length = a.worker.split("-")
    model = new_model(*GEOMETRY[a.config], a.settings, 0.1).train()
    loss_of = torch.compile(pretraining_loss, dynamic=False) if a.settings.startswith("compile") else pretraining_loss
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.01, fused=True)
    size = max(1, a.tokens // int(length))
    rows = read_rows(a.h5_python, getattr(a, f"data_{length}"), size * a.batches)
    assert rows["input_ids"].shape[1] == int(length), "rows of another length"
    batches = [batch_of(rows, slice(i * size, (i + 1) * size)) for i in range(a.batches)]
    if a.settings.startswith("compile"):  # one shape: the number of masked tokens of the batch with fewest
        least = min(len(b["at"]) for b in batches)
        for b in batches:
            b["at"], b["words"] = b["at"][:least], b["words"][:least]
    tokens = sum(int(b["attention_mask"].sum()) for b in batches)
    print(json.dumps({"ready": True, "fill": tokens / rows["input_ids"].size,
                      "torch": torch.__version__}), flush=True)

    def run(batch):
        with autocast(precision):
            loss = loss_of(model, batch)
        loss.backward()
        update(model, optimizer)

    run(batches[0])
    for _ in sys.stdin:
        began = time.perf_counter()
        for batch in batches:
            run(batch)
        took = time.perf_counter() - began
        print(json.dumps({"tokens_per_second": tokens / took,
                          "samples_per_second": size * a.batches / took}), flush=True)


def berth(mode, a):
    precision, length = mode.split("-")
    command = [a.berth, "bench", "pretrain", "--config", a.config, "--input_dir", getattr(a, f"data_{length}"),
               "--max_seq_length", length, "--precision", precision, "--threads", str(a.threads),
               "--update_tokens", str(a.tokens), "--json", "--quiet"] + a.berth_args.split()
    return run_berth(command)


WORKER_OPTIONS = ("config", "data_128", "data_512", "h5_python", "tokens", "batches", "threads")
start = functools.partial(Torch, __file__, WORKER_OPTIONS)


def compare(mode, a):
    setting, tried = fastest(start, mode, a.settings.split(","), a)
    process = start(mode, setting, a)
    rounds = []
    for number in range(a.rounds):
        peer, ours = process.measure(), berth(mode, a) if a.berth else None
        rounds.append((peer, ours))
        print(f"{mode}: round {number + 1}: pytorch {peer['tokens_per_second']:.0f}"
              + (f", berth {ours['tokens_per_second']:.0f}" if ours else "") + " real tokens/s",
              file=sys.stderr, flush=True)
    row = {"mode": mode, "setting": setting, "tried": tried, **process.about,
           "pytorch": statistics.median(p["tokens_per_second"] for p, _ in rounds)}
    process.close()
    if a.berth:
        ratios = [b["tokens_per_second"] / p["tokens_per_second"] for p, b in rounds]
        row.update(berth=statistics.median(b["tokens_per_second"] for _, b in rounds), ratios=ratios,
                   mfu=statistics.median(b["mfu"] for _, b in rounds), ratio=statistics.median(ratios))
        row["met"] = row["ratio"] >= TARGET or row["mfu"] >= ENOUGH_MFU
    return row


def show(rows, a):
    print(f"config {a.config}, {a.threads} threads, {a.rounds} rounds, {a.tokens} tokens a batch, "
          f"{platform.processor() or platform.machine()}")
    head = ("mode", "PyTorch", "fill", "real tokens/s", "Berth", "MFU", "ratio", "met")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for r in rows:
        cells = [r["mode"], r["setting"], f"{r['fill']:.3f}", f"{r['pytorch']:.0f}"]
        if "berth" in r:
            cells += [f"{r['berth']:.0f}", f"{r['mfu']:.3f}", f"{r['ratio']:.2f}", "yes" if r["met"] else "NO"]
        print("| " + " | ".join(cells + [""] * (len(head) - len(cells))) + " |")
    print(json.dumps({"config": a.config, "threads": a.threads, "rounds": a.rounds, "results": rows}))


# --- the loss curve ------------------------------------------------------------------------------

def curve(a, folder):
    """PyTorch's losses; the weights it began with are left in `folder`."""
    import torch
    from torch_training import decay_groups, update
    torch.set_num_threads(a.threads)
    torch.manual_seed(7)
    model = new_model(256, 4, 4, 1024, "eager", 0.0).train()
    model.save_pretrained(folder)
    optimizer = torch.optim.AdamW(decay_groups(model, 0.01), lr=a.learning_rate, eps=1e-6)
    rows = read_rows(a.h5_python, a.curve, a.steps * a.batch_rows)
    if len(rows["input_ids"]) < a.steps * a.batch_rows:
        sys.exit(f"{a.curve} holds {len(rows['input_ids'])} rows; {a.steps * a.batch_rows} are needed")
    losses = []
    for step in range(a.steps):
        batch = batch_of(rows, slice(step * a.batch_rows, (step + 1) * a.batch_rows))
        loss = pretraining_loss(model, batch)
        loss.backward()
        update(model, optimizer)
        losses.append(loss.item())
    return losses


def compare_curves(a):
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        theirs = curve(a, folder)
        command = [a.compare, folder, a.curve, str(a.steps), str(a.batch_rows), str(a.learning_rate)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    ours = [float(line) for line in done.stdout.split()]
    if len(ours) != a.steps:
        sys.exit(f"{a.compare} printed {len(ours)} losses; {a.steps} are expected")
    apart = [abs(x - y) / y for x, y in zip(ours, theirs)]
    for step in range(0, a.steps, max(1, a.steps // 10)):
        print(f"update {step + 1:4d}  pytorch {theirs[step]:.5f}  berth {ours[step]:.5f}  apart {apart[step]:.1e}")
    worst = max(range(a.steps), key=apart.__getitem__)
    print(f"{a.steps} updates of {a.batch_rows} rows: loss {theirs[0]:.4f} to {theirs[-1]:.4f}, apart by "
          f"{statistics.mean(apart):.1e} in the mean, {apart[worst]:.1e} at most (update {worst + 1})")
    sys.exit(apart[worst] > 0.005)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--berth", help="the program; without it only PyTorch is measured")
    p.add_argument("--berth_args", default="", help="more arguments for `berth bench`, in one string")
    p.add_argument("--config", choices=sorted(GEOMETRY), default="base")
    p.add_argument("--data_128", help="folder of HDF5 shards with rows of 128")
    p.add_argument("--data_512", help="folder of HDF5 shards with rows of 512")
    p.add_argument("--modes", default="bf16-128,bf16-512,fp32-128,fp32-512")
    p.add_argument("--settings", default="sdpa,eager,compile-sdpa")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--tokens", type=int, default=8192, help="tokens of a batch, PyTorch's with padding")
    p.add_argument("--batches", type=int, default=2, help="batches of one round of PyTorch")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--h5_python", help="a Python with h5py")
    p.add_argument("--verbose", action="store_true", help="let PyTorch's messages through")
    p.add_argument("--curve", help="an HDF5 shard: compare losses instead of speeds; needs --compare")
    p.add_argument("--compare", help="Berth's program for --curve")
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--batch_rows", type=int, default=8)
    p.add_argument("--learning_rate", type=float, default=1e-4)
    p.add_argument("--worker", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.worker:
        worker(a)
    elif a.curve:
        if a.compare is None:
            sys.exit("--curve needs --compare, a build's tests/train/pretraining_curve")
        compare_curves(a)
    else:
        for mode in a.modes.split(","):
            if getattr(a, f"data_{mode.split('-')[1]}", None) is None:
                sys.exit(f"mode {mode} needs --data_{mode.split('-')[1]}")
        show([compare(mode, a) for mode in a.modes.split(",")], a)


if __name__ == "__main__":
    main()
