#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a BERT on masked words with PyTorch + transformers: the baseline for `berth pretrain --objective mlm`.

Blocks of text are made as run_mlm makes them, and masked by transformers' DataCollatorForLanguageModeling.
The recipe is Berth's, so that only the two implementations differ: AdamW with bias correction, decay on
everything but biases and layer norms; linear warm-up, then linear decay to 0; one global clip; dropout from
the model's config. The model is written to --output, so that `berth evaluate pretrain --objective mlm` scores
both models on the same masks; this script scores with masks of its own. One JSON object goes to stdout.

    quality_mlm_pytorch.py --model DIR --train valid.txt --dev test.txt --output DIR --seed 1
"""
import argparse
import json
import math
import random
import time

import torch
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, DataCollatorForLanguageModeling, logging as hf_logging

from quality_pytorch import make_optimizer, schedule, update_at
from torch_training import autocast

GROUP = 1000  # the lines that datasets.map passes to run_mlm's functions at once


def blocks(path, tokenizer, length, most):
    lines = open(path).read().splitlines()
    found = []
    for first in range(0, len(lines), GROUP):
        ids = sum(tokenizer(lines[first:first + GROUP])["input_ids"], [])
        special = {tokenizer.cls_token_id, tokenizer.sep_token_id}
        found += [{"input_ids": ids[i:i + length], "special_tokens_mask": [t in special for t in ids[i:i + length]]}
                  for i in range(0, len(ids) // length * length, length)]
    return found[:most]


def train(model, data, collate, a):
    rng = random.Random(a.seed)
    total = math.ceil(len(data) / a.train_batch_size) * a.num_train_epochs
    warmup = int(a.warmup_proportion * total)
    optimizer = make_optimizer(model, a)
    model.train()
    step = 0
    for _ in range(a.num_train_epochs):
        order = list(range(len(data)))
        rng.shuffle(order)
        for at in range(0, len(order), a.train_batch_size):
            batch = collate([data[i] for i in order[at:at + a.train_batch_size]])
            with autocast(a.precision):
                loss = model(**batch).loss
            loss.backward()
            update_at(a.learning_rate * schedule(step, total, warmup), model, optimizer, a)
            step += 1


def score(model, data, collate, a):
    model.eval()
    torch.manual_seed(42)
    loss, hits, masked = 0.0, 0, 0
    with torch.inference_mode(), autocast(a.precision):
        for at in range(0, len(data), 32):
            batch = collate(data[at:at + 32])
            labels = batch.pop("labels")
            logits = model(**batch).logits.float()
            chosen = labels != -100
            loss += torch.nn.functional.cross_entropy(logits[chosen], labels[chosen], reduction="sum").item()
            hits += (logits[chosen].argmax(-1) == labels[chosen]).sum().item()
            masked += chosen.sum().item()
    return hits / masked, loss / masked


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--model", required=True, help="Hugging Face folder of the pre-trained encoder")
    p.add_argument("--from_scratch", action="store_true", help="only config.json and vocab.txt of that folder")
    p.add_argument("--train", required=True)
    p.add_argument("--dev", required=True)
    p.add_argument("--output", required=True, help="folder for the model")
    p.add_argument("--precision", choices=("bf16", "fp32"), default="fp32")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--learning_rate", type=float, default=5e-4)
    p.add_argument("--train_batch_size", type=int, default=32)
    p.add_argument("--num_train_epochs", type=int, default=3)
    p.add_argument("--warmup_proportion", type=float, default=0.1)
    p.add_argument("--weight_decay", type=float, default=0.01)
    p.add_argument("--max_grad_norm", type=float, default=1.0)
    p.add_argument("--max_seq_length", type=int, default=64)
    p.add_argument("--max_train_samples", type=int)
    p.add_argument("--max_eval_samples", type=int)
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    hf_logging.set_verbosity_error()  # lengths of lines, the report of the missing head
    tokenizer = AutoTokenizer.from_pretrained(a.model)
    collate = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    train_set = blocks(a.train, tokenizer, a.max_seq_length, a.max_train_samples)
    dev_set = blocks(a.dev, tokenizer, a.max_seq_length, a.max_eval_samples)
    model = (BertForMaskedLM(BertConfig.from_pretrained(a.model)) if a.from_scratch
             else BertForMaskedLM.from_pretrained(a.model, dtype=torch.float32))
    began = time.time()
    train(model, train_set, collate, a)
    trained = time.time() - began
    accuracy, loss = score(model, dev_set, collate, a)
    model.save_pretrained(a.output)
    tokenizer.save_pretrained(a.output)
    print(json.dumps({
        "system": "pytorch", "torch": torch.__version__, "seed": a.seed, "precision": a.precision,
        "accuracy": round(accuracy, 6), "eval_loss": round(loss, 5), "perplexity": round(math.exp(loss), 3),
        "train_seconds": round(trained, 1), "sequences": len(train_set), "learning_rate": a.learning_rate}))


if __name__ == "__main__":
    main()
