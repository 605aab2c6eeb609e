#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a BERT on MRPC with PyTorch + transformers: the baseline for Berth's classification.

The recipe is that of `berth finetune classify`, so that only the two implementations differ: AdamW
with bias correction, decay on everything but biases and layer norms; linear warm-up, then linear decay
to 0; one global clip; dropout from the model's config, on the pooled output too; the classifier from
normal(0, 0.02), the pooler from the checkpoint; batches in a shuffled order, padded to their longest
member. Trained on msr_paraphrase_train.txt, scored on msr_paraphrase_test.txt. One JSON object goes to
stdout and to the end of --results.

    quality_classify_pytorch.py --model DIR --data_dir mrpc --precision bf16 --seed 1
"""
import argparse
import json
import math
import os
import random
import sys
import time

import torch
from transformers import BertConfig, BertForSequenceClassification, logging as hf_logging

import pair_features
from quality_pytorch import make_optimizer, schedule, update_at
from torch_training import autocast, pad


def batch_of(features):
    return {**pad(features), "labels": torch.tensor([f.label for f in features])}


def make_model(path):
    config = BertConfig.from_pretrained(path)
    config.initializer_range = 0.02
    config.num_labels = 2
    hf_logging.set_verbosity_error()  # the report of the missing classifier
    return BertForSequenceClassification.from_pretrained(path, config=config, dtype=torch.float32)


def train(model, features, a):
    rng = random.Random(a.seed)
    updates = math.ceil(len(features) / a.train_batch_size)
    total = updates * a.num_train_epochs
    warmup = int(a.warmup_proportion * total)
    optimizer = make_optimizer(model, a)
    model.train()
    step, shown, began = 0, 0.0, time.time()
    for _ in range(a.num_train_epochs):
        order = list(range(len(features)))
        rng.shuffle(order)
        for at in range(0, len(order), a.train_batch_size):
            batch = batch_of([features[i] for i in order[at:at + a.train_batch_size]])
            with autocast(a.precision):
                loss = model(**batch).loss
            loss.backward()
            update_at(a.learning_rate * schedule(step, total, warmup), model, optimizer, a)
            step += 1
            shown += loss.item()
            if step % 50 == 0:
                print(f"step {step}/{total} loss {shown / 50:.4f} {time.time() - began:.0f} s",
                      file=sys.stderr, flush=True)
                shown = 0.0


def score(model, features, a):
    """Accuracy and F1 of class 1, in shares of one."""
    model.eval()
    right = both = said = true = 0
    with torch.inference_mode(), autocast(a.precision):
        for at in range(0, len(features), 32):
            part = features[at:at + 32]
            batch = batch_of(part)
            labels = batch.pop("labels").tolist()
            for guess, label in zip(model(**batch).logits.argmax(-1).tolist(), labels):
                right += guess == label
                both += guess == label == 1
                said += guess
                true += label
    return right / len(features), 2 * both / max(1, said + true)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--model", required=True, help="Hugging Face folder of the pre-trained encoder")
    p.add_argument("--data_dir", required=True, help="folder with MRPC's raw files")
    p.add_argument("--results", help="append the JSON line to this file")
    p.add_argument("--precision", choices=("bf16", "fp32"), default="bf16")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--learning_rate", type=float, default=1e-4)
    p.add_argument("--train_batch_size", type=int, default=32)
    p.add_argument("--num_train_epochs", type=int, default=3)
    p.add_argument("--warmup_proportion", type=float, default=0.1)
    p.add_argument("--weight_decay", type=float, default=0.01)
    p.add_argument("--max_grad_norm", type=float, default=1.0)
    p.add_argument("--max_seq_length", type=int, default=128)
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    vocab = os.path.join(a.model, "vocab.txt")
    train_set, test_set = (pair_features.load(vocab, os.path.join(a.data_dir, f"msr_paraphrase_{s}.txt"),
                                              a.max_seq_length) for s in ("train", "test"))
    model = make_model(a.model)
    began = time.time()
    train(model, train_set, a)
    trained = time.time() - began
    accuracy, f1 = score(model, test_set, a)
    line = json.dumps({
        "system": "pytorch", "torch": torch.__version__, "task": "mrpc", "seed": a.seed,
        "precision": a.precision, "accuracy": round(accuracy, 6), "f1": round(f1, 6),
        "train_seconds": round(trained, 1), "learning_rate": a.learning_rate,
        "train_batch_size": a.train_batch_size, "num_train_epochs": a.num_train_epochs})
    print(line, flush=True)
    if a.results:
        with open(a.results, "a") as stream:
            stream.write(line + "\n")


if __name__ == "__main__":
    main()
