#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Best models and early stops as transformers' Trainer has them, as a C header on standard output.

    dev/goldens/best_model.py >tests/train/best_model.golden.h

The Trainer's own comparison and its EarlyStoppingCallback see a series of scores, an evaluation each.
"""
import random
from types import SimpleNamespace

import transformers
from transformers import EarlyStoppingCallback, Trainer, TrainerControl, TrainerState

EVALUATIONS = 12


def follow(scores, greater, patience, threshold):
    """(the number of the best evaluation, that of the one after which the run stops, or the last)"""
    args = SimpleNamespace(metric_for_best_model="score", greater_is_better=greater, load_best_model_at_end=True,
                           save_strategy="steps")
    trainer = SimpleNamespace(args=args, state=TrainerState())
    stopping, control = EarlyStoppingCallback(patience, threshold), TrainerControl()
    for number, score in enumerate(scores):
        trainer.state.global_step = number + 1
        metrics = {"eval_score": score}
        stopping.on_evaluate(args, trainer.state, control, metrics)
        Trainer._determine_best_metric(trainer, metrics, None)
        if control.should_training_stop:
            break
    return trainer.state.best_global_step, number + 1


random.seed(1)
print("// SPDX-License-Identifier: Apache-2.0")
print("// Made by dev/goldens/best_model.py with transformers %s." % transformers.__version__)
print("enum { EVALUATIONS = %d };\n" % EVALUATIONS)
print("static const struct {\n    double scores[EVALUATIONS];\n    int greater, patience;\n    double threshold;")
print("    int best, last; // evaluations, from 1\n} series[] = {")
for _ in range(60):
    scores = [round(random.random(), 1) for _ in range(EVALUATIONS)]
    greater, patience = random.random() < 0.5, random.randint(1, 4)
    threshold = random.choice([0.0, 0.0, 0.15, 0.35])
    best, last = follow(scores, greater, patience, threshold)
    print("    {{%s}, %d, %d, %r, %d, %d}," % (", ".join(map(repr, scores)), greater, patience, threshold, best, last))
print("};")
