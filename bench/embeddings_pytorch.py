#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains sentence embeddings with sentence-transformers as `berth finetune embed` does with its defaults, on
pairs of texts (JSON lines of two columns), and saves the folder: for the comparison in doc/develop/results.md.

    embeddings_pytorch.py MODEL TRAIN OUTPUT --seed N [--batch 32] [--rate 3e-5] [--length 128]
"""
import argparse
import json
import random

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.losses import MultipleNegativesRankingLoss
from transformers import get_linear_schedule_with_warmup

from torch_training import decay_groups, update


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("train")
    parser.add_argument("output")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=3e-5)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    with open(args.train, encoding="utf-8") as file:
        pairs = [list(json.loads(line).values()) for line in file]
    random.Random(args.seed).shuffle(pairs)
    model = SentenceTransformer(args.model, device="cpu")
    model.max_seq_length = args.length
    loss = MultipleNegativesRankingLoss(model)
    steps = (len(pairs) + args.batch - 1) // args.batch
    optimizer = torch.optim.AdamW(decay_groups(model, 0.01), lr=args.rate, eps=1e-8)
    schedule = get_linear_schedule_with_warmup(optimizer, int(0.1 * steps), steps)
    tokenize = getattr(model, "preprocess", None) or model.tokenize
    model.train()
    for step in range(steps):
        batch = pairs[step * args.batch:(step + 1) * args.batch]
        value = loss([tokenize([pair[i] for pair in batch]) for i in range(2)], None)
        value.backward()
        update(model, optimizer)
        schedule.step()
        print(f"step {step + 1}/{steps} loss {value.item():.4f}", flush=True)
    model.save(args.output)


if __name__ == "__main__":
    main()
