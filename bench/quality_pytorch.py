#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a BERT on SQuAD with PyTorch + transformers: the baseline for Berth's quality.

The recipe is Berth's, so only the two implementations differ: the features of squad_features.py, including
those labelled (0,0); AdamW with bias correction, decay on everything except biases and layer norms; linear
warm-up, then linear decay to 0; one global clip; dropout from the model's config; qa_outputs from normal(0,
0.02); no pooler. Batches are grouped by length in mega-batches of 50 (as `group_by_length` does) and padded
to their longest sequence. Padding is excluded from the softmax of the loss (transformers' own loss includes
it), because a packed batch has none.

Then it predicts --dev by the Google n-best rules (those of compute_predictions_logits of transformers 4,
except for answers that begin inside a word, where Google removes the ##) and evaluates by the official v1.1
or v2.0 rules, all implemented here. Prints one JSON object and appends it to --results.

Leaves out: several processes, intermediate checkpoints.

    quality_pytorch.py --model DIR --train train-v1.1.json --dev dev-v1.1.json --precision bf16 --seed 1
    quality_pytorch.py --model DIR --train train-v2.0.json --dev dev-v2.0.json --version_2_with_negative
"""
import argparse
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
from torch_training import autocast, decay_groups, pad, update

MEGA = 50


# --- official evaluation ------------------------------------------------------------------------

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
    return {"EM": 100.0 * em / len(examples), "F1": 100.0 * f1 / len(examples)}


def f1_v2(prediction, truth):
    """As f1_score, but texts without words are right only for one another."""
    if not normalize(prediction) or not normalize(truth):
        return float(normalize(prediction) == normalize(truth))
    return f1_score(prediction, truth)


def best_threshold(examples, predictions, scores, odds):
    current = best = sum(not e.answers for e in examples)
    threshold = 0.0
    for e in sorted(examples, key=lambda e: odds[e.id]):
        current += scores[e.id] if e.answers else (-1 if predictions[e.id] else 0)
        if current > best:
            best, threshold = current, odds[e.id]
    return 100.0 * best / len(examples), threshold


def evaluate_v2(examples, predictions, odds):
    """The keys of evaluate-v2.0.py."""
    em, f1 = {}, {}
    for e in examples:
        truths = [t for t in e.answers if normalize(t)] or [""]
        em[e.id] = max(float(normalize(predictions[e.id]) == normalize(t)) for t in truths)
        f1[e.id] = max(f1_v2(predictions[e.id], t) for t in truths)
    out = {}
    for prefix, part in (("", examples), ("HasAns_", [e for e in examples if e.answers]),
                         ("NoAns_", [e for e in examples if not e.answers])):
        if part:
            out[prefix + "exact"] = 100.0 * sum(em[e.id] for e in part) / len(part)
            out[prefix + "f1"] = 100.0 * sum(f1[e.id] for e in part) / len(part)
    for name, scores in (("exact", em), ("f1", f1)):
        out["best_" + name], out[f"best_{name}_thresh"] = best_threshold(examples, predictions, scores,
                                                                         odds)
    return {"EM": out.pop("exact"), "F1": out.pop("f1"), **out}


# --- Google's n-best ----------------------------------------------------------------------------

def strip_blanks(text):
    chars, places = [], {}
    for i, c in enumerate(text):
        if c != " ":
            places[len(chars)] = i
            chars.append(c)
    return "".join(chars), places


def final_text(predicted, original, bert):
    """The part of the original words that the predicted pieces correspond to."""
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


def nbest(example, features, logits, bert, n_best, max_answer, version_2):
    """Up to n_best (text, start logit, end logit), best first, and the null score; logits: one (start, end)
    per feature. In version 2 the empty text is one of them."""
    found = []
    null = (1000000.0, 0.0, 0.0)
    for feature, (starts, ends) in zip(features, logits):
        null = min(null, (starts[0] + ends[0], starts[0], ends[0]), key=lambda x: x[0])
        last = best_indices(ends, n_best)
        for s in best_indices(starts, n_best):
            if feature.token_to_orig[s] < 0 or not feature.is_max_context[s]:
                continue
            for e in last:
                if feature.token_to_orig[e] >= 0 and s <= e < s + max_answer:
                    found.append((starts[s] + ends[e], feature, s, e, starts[s], ends[e]))
    if version_2:
        found.append((null[1] + null[2], None, 0, 0, null[1], null[2]))
    found.sort(key=lambda c: -c[0])
    kept, seen = [], set()
    for _, feature, s, e, start_logit, end_logit in found:
        if len(kept) == n_best:
            break
        if feature is None:
            seen.add("")
            kept.append(("", start_logit, end_logit))
            continue
        pieces = " ".join(feature.tokens[s:e + 1]).replace(" ##", "").replace("##", "")
        words = example.words[feature.token_to_orig[s]:feature.token_to_orig[e] + 1]
        text = final_text(" ".join(pieces.split()), " ".join(words), bert)
        if text not in seen:
            seen.add(text)
            kept.append((text, start_logit, end_logit))
    if version_2 and "" not in seen:
        kept.append(("", null[1], null[2]))
    if version_2 and len(kept) == 1:
        kept.insert(0, ("empty", 0.0, 0.0))
    return kept or [("empty", 0.0, 0.0)], null[0]


def decide(kept, null_score, threshold):
    """Version 2: the answer, "" if the null score is better by more than the threshold, and the null odds."""
    text, start_logit, end_logit = next(k for k in kept if k[0])
    odds = null_score - start_logit - end_logit
    return "" if odds > threshold else text, odds


# --- batches, model, training -------------------------------------------------------------------

def epoch_batches(lengths, size, rng):
    order = list(range(len(lengths)))
    rng.shuffle(order)
    batches = []
    for at in range(0, len(order), MEGA * size):
        group = sorted(order[at:at + MEGA * size], key=lambda i: -lengths[i])
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


def make_model(path, attention):
    config = BertConfig.from_pretrained(path)
    config.initializer_range = 0.02
    hf_logging.set_verbosity_error()  # the report of the missing span head
    return BertForQuestionAnswering.from_pretrained(path, config=config, dtype=torch.float32,
                                                    attn_implementation=attention)


def make_optimizer(model, a):
    return torch.optim.AdamW(decay_groups(model, a.weight_decay), lr=a.learning_rate,
                             betas=(0.9, 0.999), eps=1e-8, fused=True)


def schedule(step, total, warmup):
    if step < warmup:
        return step / warmup
    return max(0.0, (total - step) / max(1, total - warmup))


def update_at(learning_rate, model, optimizer, a):
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    update(model, optimizer, a.max_grad_norm)


def backward(model, chosen, a):
    """Adds the gradient of the mean loss of these features, in micro-batches; returns the loss."""
    size = a.per_device_train_batch_size or len(chosen)
    total = 0.0
    for at in range(0, len(chosen), size):
        part = chosen[at:at + size]
        batch = pad(part)
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
        for rows in epoch_batches([len(f.input_ids) for f in features], a.train_batch_size, rng):
            shown += backward(model, [features[i] for i in rows], a)
            update_at(a.learning_rate * schedule(step, total, warmup), model, optimizer, a)
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
            out = model(**pad([features[i] for i in rows]))
            for k, i in enumerate(rows):
                n = len(features[i].input_ids)
                result[i] = (out.start_logits[k, :n].float().tolist(),
                             out.end_logits[k, :n].float().tolist())
    return result


def answers(examples, features, logits, bert, a):
    """Text and null odds by question id; the odds are 0 in version 1."""
    by_example = {}
    for i, f in enumerate(features):
        by_example.setdefault(f.example, []).append(i)
    out = {}
    for number, example in enumerate(examples):
        rows = by_example.get(number, [])
        kept, null = nbest(example, [features[i] for i in rows], [logits[i] for i in rows], bert,
                           a.n_best_size, a.max_answer_length, a.version_2_with_negative)
        out[example.id] = (decide(kept, null, a.null_score_diff_threshold)
                           if a.version_2_with_negative else (kept[0][0], 0.0))
    return out


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w") as stream:
        json.dump(value, stream, indent=4)
        stream.write("\n")


def save(model, a, found):
    model.save_pretrained(a.output)
    shutil.copy(a.vocab or os.path.join(a.model, "vocab.txt"), os.path.join(a.output, "vocab.txt"))
    write_json(a.output, "predictions.json", {k: text for k, (text, _) in found.items()})
    if a.version_2_with_negative:
        write_json(a.output, "null_odds.json", {k: odds for k, (_, odds) in found.items()})


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
    p.add_argument("--max_eval_examples", type=int, default=0, help="the same of --dev")
    p.add_argument("--learning_rate", type=float, default=1e-4)
    p.add_argument("--train_batch_size", type=int, default=16)
    p.add_argument("--per_device_train_batch_size", type=int, default=0,
                   help="micro-batch, to save memory; 0: the whole batch at once")
    p.add_argument("--num_train_epochs", type=int, default=2)
    p.add_argument("--warmup_proportion", type=float, default=0.1)
    p.add_argument("--weight_decay", type=float, default=0.01)
    p.add_argument("--max_grad_norm", type=float, default=1.0)
    p.add_argument("--version_2_with_negative", action="store_true",
                   help="questions may have no answer (SQuAD 2.0)")
    p.add_argument("--null_score_diff_threshold", type=float, default=0.0)
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
    examples, features, bert = squad_features.load(vocab, a.dev, False, a.max_eval_examples, cache=a.cache)
    found = answers(examples, features, predict(model, features, a), bert, a)
    texts = {k: text for k, (text, _) in found.items()}
    if a.version_2_with_negative:
        scores = evaluate_v2(examples, texts, {k: odds for k, (_, odds) in found.items()})
    else:
        scores = evaluate(examples, texts)
    if a.output:
        save(model, a, found)
    line = json.dumps({
        "system": "pytorch", "torch": torch.__version__, "seed": a.seed, "precision": a.precision,
        "n": a.max_train_examples or "all", "features": used, **{k: round(v, 4) for k, v in scores.items()},
        "seconds": round(time.time() - began, 1), "train_seconds": round(trained, 1),
        "learning_rate": a.learning_rate, "train_batch_size": a.train_batch_size,
        "num_train_epochs": a.num_train_epochs, "attention": a.attention, "threads": a.threads})
    print(line, flush=True)
    if a.results:
        with open(a.results, "a") as stream:
            stream.write(line + "\n")


if __name__ == "__main__":
    main()
