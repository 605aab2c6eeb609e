# SPDX-License-Identifier: Apache-2.0
"""Compares the learning rates of a run with those of the original program: rates.py LOG PROGRAM UPDATES.
Each function has the program's own code for a schedule, with its numbers of the lines in rates.sh."""
import json
import math
import sys

RATE = 3e-5


def linear_warm_up_scheduler(step, total, warmup):
    """schedulers.py of NVIDIA and Habana; step() comes before the update, so the first has 1."""
    progress = (step + 1) / total
    if progress < warmup:
        return RATE * progress / warmup
    return RATE * max((progress - 1.0) / (warmup - 1.0), 0.0)


def their_bertadam(step, total, warmup):
    """optimization.py of NVIDIA and Habana."""
    x = step / total
    return RATE * (x / warmup if x < warmup else max((x - 1.0) / (warmup - 1.0), 0.0))


def bing_bertadam(step, total, warmup):
    """BingBertSquad: warmup_linear of its two programs."""
    x = step / total
    return RATE * (x / warmup if x < warmup else 1.0 - x)


def estimator(step, total, warmup):
    """create_optimizer of Google and Intel."""
    warm = int(total * warmup)
    return RATE * step / warm if step < warm else RATE * (1.0 - step / total)


def trainer(step, total, warmup):
    """get_linear_schedule_with_warmup, and TrainingArguments.get_warmup_steps."""
    warm = math.ceil(total * warmup)
    return RATE * step / max(1, warm) if step < warm else RATE * (total - step) / max(1, total - warm)


def bing_le(step, rate, total, warmup, decay_rate, decay_step):
    """warmup_linear_decay_exp of BingBert."""
    x = step / total
    return rate * (x / warmup if x < warmup else decay_rate ** ((step - warmup * total) / decay_step))


def warmup_lr(step, low, high, steps):
    """DeepSpeed's WarmupLR, stepped after the update."""
    steps = max(2, steps)
    done = step - 1
    gamma = 1.0 if done >= steps else math.log(done + 1) / math.log(steps) if step > 0 else 0.0
    return low + (high - low) * gamma


PROGRAMS = {
    "habana": lambda s: linear_warm_up_scheduler(s, 20, 0.1),
    "nvidia": lambda s: linear_warm_up_scheduler(s, 20, 0.33),
    "bertadam": lambda s: their_bertadam(s, 20, 0.33),
    "bing-squad": lambda s: bing_bertadam(s, 20, 0.33),
    "google": lambda s: estimator(s, int(8 / 3 * 4), 0.25),
    "trainer": lambda s: trainer(s, 20, 0.13),
    "trainer-default": lambda s: trainer(s, 20, 0),
    "no-warm-up": lambda s: RATE * (20 - s) / 20,
    "bing": lambda s: bing_le(s, 1e-3, 40, 0.02, 0.99, 1000),
    "warmup-lr": lambda s: warmup_lr(s, 0, RATE, 0),
}


def main(log, program, updates):
    records = [json.loads(line) for line in open(log, encoding="utf-8")]
    found = {record["step"]: record["learning_rate"] for record in records
             if record["kind"] == "step" and "learning_rate" in record}
    if sorted(found) != list(range(1, updates + 1)):
        sys.exit(f"{program}: updates {sorted(found)}, expected 1 to {updates}")
    for step in range(updates):
        expected = PROGRAMS[program](step)
        if not math.isclose(found[step + 1], expected, rel_tol=1e-9, abs_tol=1e-18):
            sys.exit(f"{program}: update {step + 1}: rate {found[step + 1]}, expected {expected}")


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
