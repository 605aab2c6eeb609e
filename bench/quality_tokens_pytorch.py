#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a BERT that tags words with PyTorch + transformers, scored by seqeval: the baseline for
`berth finetune tokens`, with its recipe, so that only the two implementations differ.

Words and tags are the first and the last column of CoNLL's files. As in run_ner, words are tokenized by
transformers, the first piece of a word has its label, other pieces none, and sentences end after
max_seq_length tokens. Batches, the optimizer, the schedule and the clipping are those of quality_pytorch.py; the
classifier starts from normal(0, 0.02). One JSON object goes to stdout and to the end of --results.

    quality_tokens_pytorch.py --model DIR --train train.txt --test test.txt --seed 1
"""
import argparse
import json
import math
import random
import sys
import time

import torch
from seqeval.metrics import accuracy_score, f1_score, precision_score, recall_score
from transformers import AutoTokenizer, BertConfig, BertForTokenClassification, logging as hf_logging

from quality_pytorch import epoch_batches, make_optimizer, schedule, update_at
from torch_training import autocast


def read(path, most):
    sentences, words = [], []
    with open(path, encoding="utf-8") as file:
        for line in [*file, "\n"]:
            fields = line.split()
            if fields and fields[0] != "-DOCSTART-":
                words.append((fields[0], fields[-1]))
            elif words:
                sentences.append(words)
                words = []
    return sentences[:most] if most else sentences


def encode(tokenizer, sentence, numbers, longest):
    """Ids, and the label of each token: -100 but for the first piece of a word."""
    encoding = tokenizer([word for word, _ in sentence], is_split_into_words=True, truncation=True,
                         max_length=longest)
    labels, before = [], None
    for word in encoding.word_ids():
        labels.append(numbers[sentence[word][1]] if word is not None and word != before else -100)
        before = word
    return encoding["input_ids"], labels


def collate(features):
    longest = max(len(ids) for ids, _ in features)
    ids = torch.zeros(len(features), longest, dtype=torch.long)
    mask, labels = torch.zeros_like(ids), torch.full_like(ids, -100)
    for row, (own, tags) in enumerate(features):
        ids[row, :len(own)] = torch.tensor(own)
        mask[row, :len(own)] = 1
        labels[row, :len(own)] = torch.tensor(tags)
    return {"input_ids": ids, "attention_mask": mask}, labels


def loss_of(a, logits, labels, weights):
    return torch.nn.functional.cross_entropy(
        logits.float().flatten(0, 1), labels.flatten(), weight=weights, ignore_index=-100,
        label_smoothing=a.label_smoothing_factor)


def freeze(model, a):
    parts = [model.bert.embeddings] if a.freeze_embeddings else []
    for part in [*parts, *model.bert.encoder.layer[:a.freeze_layers]]:
        part.requires_grad_(False)


def balanced(features, count):
    found = [sum(tags.count(label) for _, tags in features) for label in range(count)]
    return torch.tensor([sum(found) / (count * n) for n in found])


def train(model, features, weights, a):
    rng = random.Random(a.seed)
    total = math.ceil(len(features) / a.train_batch_size) * a.num_train_epochs
    warmup = int(a.warmup_proportion * total)
    optimizer = make_optimizer(model, a)
    model.train()
    step = 0
    for _ in range(a.num_train_epochs):
        for rows in epoch_batches([len(ids) for ids, _ in features], a.train_batch_size, rng):
            batch, labels = collate([features[i] for i in rows])
            with autocast(a.precision):
                logits = model(**batch).logits
            loss_of(a, logits, labels, weights).backward()
            update_at(a.learning_rate * schedule(step, total, warmup), model, optimizer, a)
            step += 1
            if step % 50 == 0:
                print(f"step {step}/{total}", file=sys.stderr, flush=True)


def predict(model, sentences, features, names, a):
    """The tags of each sentence; of words without a labelled token O, as Berth has it."""
    model.eval()
    out = []
    with torch.inference_mode(), autocast(a.precision):
        for at in range(0, len(features), 32):
            batch, labels = collate(features[at:at + 32])
            for row, kept in zip(model(**batch).logits.argmax(-1), labels):
                out.append([names[k] for k in row[kept != -100].tolist()])
    return [tags + ["O"] * (len(words) - len(tags)) for tags, words in zip(out, sentences)]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--model", required=True, help="Hugging Face folder of the pre-trained encoder")
    p.add_argument("--train", required=True)
    p.add_argument("--test", required=True)
    p.add_argument("--results", help="append the JSON line to this file")
    p.add_argument("--precision", choices=("bf16", "fp32"), default="bf16")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--max_train_samples", type=int, default=0, help="the first N sentences; 0: all")
    p.add_argument("--learning_rate", type=float, default=3e-4)
    p.add_argument("--train_batch_size", type=int, default=32)
    p.add_argument("--num_train_epochs", type=int, default=2)
    p.add_argument("--warmup_proportion", type=float, default=0.1)
    p.add_argument("--weight_decay", type=float, default=0.01)
    p.add_argument("--max_grad_norm", type=float, default=1.0)
    p.add_argument("--max_seq_length", type=int, default=512)
    p.add_argument("--label_smoothing_factor", type=float, default=0)
    p.add_argument("--class_weights", choices=("balanced",))
    p.add_argument("--freeze_layers", type=int, default=0)
    p.add_argument("--freeze_embeddings", action="store_true")
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    hf_logging.set_verbosity_error()  # the report of the missing classifier
    tokenizer = AutoTokenizer.from_pretrained(a.model)
    train_set, test_set = read(a.train, a.max_train_samples), read(a.test, 0)
    names = sorted({tag for sentence in train_set for _, tag in sentence})
    numbers = {name: i for i, name in enumerate(names)}
    train_features, test_features = ([encode(tokenizer, s, numbers, a.max_seq_length) for s in sentences]
                                     for sentences in (train_set, test_set))
    config = BertConfig.from_pretrained(a.model)
    config.initializer_range, config.num_labels = 0.02, len(names)
    model = BertForTokenClassification.from_pretrained(a.model, config=config, dtype=torch.float32)
    freeze(model, a)
    weights = balanced(train_features, len(names)) if a.class_weights else None
    began = time.time()
    train(model, train_features, weights, a)
    trained = time.time() - began
    truth = [[tag for _, tag in sentence] for sentence in test_set]
    guess = predict(model, test_set, test_features, names, a)
    line = json.dumps({
        "system": "pytorch", "torch": torch.__version__, "seed": a.seed, "precision": a.precision,
        **{name: round(float(score(truth, guess)), 6) for name, score in
           (("precision_score", precision_score), ("recall", recall_score), ("f1", f1_score),
            ("accuracy", accuracy_score))},
        "train_seconds": round(trained, 1), "label_smoothing_factor": a.label_smoothing_factor,
        "class_weights": a.class_weights, "freeze_layers": a.freeze_layers,
        "freeze_embeddings": a.freeze_embeddings})
    print(line, flush=True)
    if a.results:
        with open(a.results, "a") as stream:
            stream.write(line + "\n")


if __name__ == "__main__":
    main()
