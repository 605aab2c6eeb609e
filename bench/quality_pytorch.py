#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a BERT on SQuAD v1.1 with PyTorch + transformers: the baseline for Berth's quality.

The recipe is Berth's, so that only the two implementations differ: the features of
squad_features.py, the ones labelled (0,0) included; AdamW with bias correction, decay on everything
but biases and layer norms; linear warm-up, then linear decay to 0; one global clip; dropout from the
model's config; qa_outputs from normal(0, 0.02); no pooler. Batches are grouped by length in
mega-batches of 50 (as `group_by_length` does) and padded to their longest member. Positions that are
padding take no part in the soft-max of the loss (transformers' own loss lets them in), because a
packed batch has none.

Then it predicts --dev by the Google n-best rules and evaluates by the official v1.1 rules, both
written here. One JSON object goes to stdout and to the end of --results.

What it leaves out: SQuAD 2, more than one process, checkpoints on the way.

    quality_pytorch.py --model DIR --train train-v1.1.json --dev dev-v1.1.json --precision bf16 --seed 1
"""
import argparse
import contextlib
import json
import math
import os
import random
import re
import shutil
import string
import sys
import time
from collections import Counter

import torch
from transformers import BertConfig, BertForQuestionAnswering, logging as hf_logging

import squad_features

MEGA = 50


# --- official v1.1 evaluation -------------------------------------------------------------------

def normalize(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def f1_score(prediction, truth):
    p, t = normalize(prediction).split(), normalize(truth).split()
    same = sum((Counter(p) & Counter(t)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(p), same / len(t)
    return 2 * precision * recall / (precision + recall)


def evaluate(examples, predictions):
    em = sum(max(normalize(predictions[e.id]) == normalize(a) for a in e.answers) for e in examples)
    f1 = sum(max(f1_score(predictions[e.id], a) for a in e.answers) for e in examples)
    return 100.0 * em / len(examples), 100.0 * f1 / len(examples)


# --- Google's n-best ----------------------------------------------------------------------------

def strip_blanks(text):
    chars, places = [], {}
    for i, c in enumerate(text):
        if c != " ":
            places[len(chars)] = i
            chars.append(c)
    return "".join(chars), places


def final_text(predicted, original, bert):
    """The part of the original words that the predicted pieces stand for."""
    tokens = " ".join(bert.basic(original))
    at = tokens.find(predicted)
    if at == -1:
        return original
    orig_chars, orig_places = strip_blanks(original)
    tok_chars, tok_places = strip_blanks(tokens)
    if len(orig_chars) != len(tok_chars):
        return original
    places = {i: k for k, i in tok_places.items()}
    first, last = places.get(at), places.get(at + len(predicted) - 1)
    if first is None or last is None:
        return original
    return original[orig_places[first]:orig_places[last] + 1]


def best_indices(logits, n):
    return sorted(range(len(logits)), key=lambda i: -logits[i])[:n]


def nbest(example, features, logits, bert, n_best, max_answer):
    """Up to n_best (text, start logit, end logit), best first; logits: one (start, end) a feature."""
    found = []
    for feature, (starts, ends) in zip(features, logits):
        last = best_indices(ends, n_best)
        for s in best_indices(starts, n_best):
            if feature.token_to_orig[s] < 0 or not feature.is_max_context[s]:
                continue
            for e in last:
                if feature.token_to_orig[e] >= 0 and s <= e < s + max_answer:
                    found.append((starts[s] + ends[e], feature, s, e, starts[s], ends[e]))
    found.sort(key=lambda c: -c[0])
    kept, seen = [], set()
    for _, feature, s, e, start_logit, end_logit in found:
        if len(kept) == n_best:
            break
        pieces = " ".join(feature.tokens[s:e + 1]).replace(" ##", "").replace("##", "")
        words = example.words[feature.token_to_orig[s]:feature.token_to_orig[e] + 1]
        text = final_text(" ".join(pieces.split()), " ".join(words), bert)
        if text not in seen:
            seen.add(text)
            kept.append((text, start_logit, end_logit))
    return kept or [("empty", 0.0, 0.0)]


# --- batches, model, training -------------------------------------------------------------------

def collate(features):
    longest = max(len(f.input_ids) for f in features)
    ids = torch.zeros(len(features), longest, dtype=torch.long)
    types, mask = torch.zeros_like(ids), torch.zeros_like(ids)
    for row, f in enumerate(features):
        n = len(f.input_ids)
        ids[row, :n] = torch.tensor(f.input_ids)
        types[row, :n] = torch.tensor(f.token_type_ids)
        mask[row, :n] = 1
    return {"input_ids": ids, "token_type_ids": types, "attention_mask": mask}


def epoch_batches(features, size, rng):
    order = list(range(len(features)))
    rng.shuffle(order)
    batches = []
    for at in range(0, len(order), MEGA * size):
        group = sorted(order[at:at + MEGA * size], key=lambda i: -len(features[i].input_ids))
        batches += [group[i:i + size] for i in range(0, len(group), size)]
    rng.shuffle(batches)
    return batches


def span_loss(out, batch, starts, ends):
    padding = batch["attention_mask"] == 0
    loss = 0
    for logits, target in ((out.start_logits, starts), (out.end_logits, ends)):
        loss = loss + torch.nn.functional.cross_entropy(
            logits.float().masked_fill(padding, float("-inf")), target)
    return loss / 2


def autocast(precision):
    if precision == "bf16":
        return torch.autocast("cpu", dtype=torch.bfloat16)
    return contextlib.nullcontext()


def make_model(path, attention):
    config = BertConfig.from_pretrained(path)
    config.initializer_range = 0.02
    hf_logging.set_verbosity_error()  # the report of the missing span head
    return BertForQuestionAnswering.from_pretrained(path, config=config, dtype=torch.float32,
                                                    attn_implementation=attention)


def make_optimizer(model, a):
    decay = [p for n, p in model.named_parameters() if "LayerNorm" not in n and not n.endswith("bias")]
    plain = [p for n, p in model.named_parameters() if "LayerNorm" in n or n.endswith("bias")]
    return torch.optim.AdamW([{"params": decay, "weight_decay": a.weight_decay},
                              {"params": plain, "weight_decay": 0.0}],
                             lr=a.learning_rate, betas=(0.9, 0.999), eps=1e-8, fused=True)


def schedule(step, total, warmup):
    if step < warmup:
        return step / warmup
    return max(0.0, (total - step) / max(1, total - warmup))


def backward(model, chosen, a):
    """Adds the gradient of the mean loss of these features, in micro-batches; returns the loss."""
    size = a.per_device_train_batch_size or len(chosen)
    total = 0.0
    for at in range(0, len(chosen), size):
        part = chosen[at:at + size]
        batch = collate(part)
        with autocast(a.precision):
            out = model(**batch)
        loss = span_loss(out, batch, torch.tensor([f.start for f in part]),
                         torch.tensor([f.end for f in part])) * (len(part) / len(chosen))
        loss.backward()
        total += loss.item()
    return total


def train(model, features, a):
    rng = random.Random(a.seed)
    total = math.ceil(len(features) / a.train_batch_size) * a.num_train_epochs
    warmup = math.ceil(a.warmup_proportion * total)
    optimizer = make_optimizer(model, a)
    model.train()
    step, began = 0, time.time()
    shown, shown_steps = 0.0, 0
    for _ in range(a.num_train_epochs):
        for rows in epoch_batches(features, a.train_batch_size, rng):
            shown += backward(model, [features[i] for i in rows], a)
            torch.nn.utils.clip_grad_norm_(model.parameters(), a.max_grad_norm)
            for group in optimizer.param_groups:
                group["lr"] = a.learning_rate * schedule(step, total, warmup)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            step += 1
            shown_steps += 1
            if step % 25 == 0 or step == total:
                print(f"step {step}/{total} loss {shown / shown_steps:.4f} "
                      f"{time.time() - began:.0f} s", file=sys.stderr, flush=True)
                shown, shown_steps = 0.0, 0


def predict(model, features, a):
    """One (start logits, end logits) a feature, in the order of the features."""
    model.eval()
    result = [None] * len(features)
    order = sorted(range(len(features)), key=lambda i: len(features[i].input_ids))
    with torch.inference_mode(), autocast(a.precision):
        for at in range(0, len(order), 32):
            rows = order[at:at + 32]
            out = model(**collate([features[i] for i in rows]))
            for k, i in enumerate(rows):
                n = len(features[i].input_ids)
                result[i] = (out.start_logits[k, :n].float().tolist(),
                             out.end_logits[k, :n].float().tolist())
    return result


def answers(examples, features, logits, bert, a):
    by_example = {}
    for i, f in enumerate(features):
        by_example.setdefault(f.example, []).append(i)
    out = {}
    for number, example in enumerate(examples):
        rows = by_example.get(number, [])
        out[example.id] = nbest(example, [features[i] for i in rows], [logits[i] for i in rows],
                                bert, a.n_best_size, a.max_answer_length)
    return out


def save(model, a, candidates):
    model.save_pretrained(a.output)
    shutil.copy(a.vocab or os.path.join(a.model, "vocab.txt"), os.path.join(a.output, "vocab.txt"))
    with open(os.path.join(a.output, "predictions.json"), "w") as stream:
        json.dump({k: c[0][0] for k, c in candidates.items()}, stream, indent=4)
        stream.write("\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--model", required=True, help="Hugging Face folder of the pre-trained encoder")
    p.add_argument("--vocab", help="vocab.txt, if not the model's")
    p.add_argument("--train", help="training file; without it the model only predicts")
    p.add_argument("--dev", required=True)
    p.add_argument("--results", help="append the JSON line to this file")
    p.add_argument("--output", help="save the model and predictions.json in this folder")
    p.add_argument("--cache", help="folder for cached features")
    p.add_argument("--precision", choices=("bf16", "fp32"), default="bf16")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--max_train_examples", type=int, default=0, help="the first N questions; 0: all")
    p.add_argument("--learning_rate", type=float, default=1e-4)
    p.add_argument("--train_batch_size", type=int, default=16)
    p.add_argument("--per_device_train_batch_size", type=int, default=0,
                   help="micro-batch, to save memory; 0: the whole batch at once")
    p.add_argument("--num_train_epochs", type=int, default=2)
    p.add_argument("--warmup_proportion", type=float, default=0.1)
    p.add_argument("--weight_decay", type=float, default=0.01)
    p.add_argument("--max_grad_norm", type=float, default=1.0)
    p.add_argument("--n_best_size", type=int, default=20)
    p.add_argument("--max_answer_length", type=int, default=30)
    p.add_argument("--attention", choices=("sdpa", "eager"), default="sdpa")
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    vocab = a.vocab or os.path.join(a.model, "vocab.txt")
    model = make_model(a.model, a.attention)
    began = time.time()
    used = 0
    if a.train:
        _, features, _ = squad_features.load(vocab, a.train, True, a.max_train_examples, cache=a.cache)
        used = len(features)
        train(model, features, a)
    trained = time.time() - began
    examples, features, bert = squad_features.load(vocab, a.dev, False, cache=a.cache)
    candidates = answers(examples, features, predict(model, features, a), bert, a)
    em, f1 = evaluate(examples, {k: c[0][0] for k, c in candidates.items()})
    if a.output:
        save(model, a, candidates)
    line = json.dumps({
        "system": "pytorch", "torch": torch.__version__, "seed": a.seed, "precision": a.precision,
        "n": a.max_train_examples or "all", "features": used, "EM": round(em, 4), "F1": round(f1, 4),
        "seconds": round(time.time() - began, 1), "train_seconds": round(trained, 1),
        "learning_rate": a.learning_rate, "train_batch_size": a.train_batch_size,
        "num_train_epochs": a.num_train_epochs, "attention": a.attention, "threads": a.threads})
    print(line, flush=True)
    if a.results:
        with open(a.results, "a") as stream:
            stream.write(line + "\n")


if __name__ == "__main__":
    main()
