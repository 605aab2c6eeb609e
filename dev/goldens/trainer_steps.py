#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The number of updates and the epoch after each, as transformers' Trainer counts them, as a C header.

    dev/goldens/trainer_steps.py >tests/train/trainer_steps.golden.h

Needs transformers, accelerate and torch. The Trainer trains a single number.
"""
import os
import random
import sys
import tempfile

import torch
import transformers
from transformers import Trainer, TrainerCallback, TrainingArguments

LAST = 8  # epochs that are kept of a case: those of its last updates
# Examples, per_device_train_batch_size, gradient_accumulation_steps, num_train_epochs, max_steps.
CASES = [(10, 1, 1, 1.1, -1), (100, 1, 1, 0.07, -1), (23, 4, 4, 2.0, -1), (7, 2, 3, 1.5, -1), (3, 8, 4, 2.0, -1)]


class Number(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.number = torch.nn.Parameter(torch.zeros(1))

    def forward(self, labels):
        return {"loss": ((self.number - labels) ** 2).mean()}


class Epochs(TrainerCallback):
    def __init__(self):
        self.found = []

    def on_step_end(self, args, state, control, **kwargs):
        self.found.append(state.epoch)


def epochs(examples, micro, accumulation, passes, most, folder):
    """The epoch after each update."""
    args = TrainingArguments(output_dir=folder, report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="no",
                             logging_strategy="no", per_device_train_batch_size=micro, num_train_epochs=passes,
                             gradient_accumulation_steps=accumulation, max_steps=most)
    seen = Epochs()
    data = [{"labels": 1.0}] * examples
    Trainer(model=Number(), args=args, train_dataset=data, callbacks=[seen]).train()
    return seen.found


random.seed(1)
for _ in range(40):
    limit = random.randint(1, 20) if random.random() < 0.3 else -1
    CASES.append((random.randint(1, 60), random.randint(1, 9), random.randint(1, 5),
                  random.choice([0.3, 0.5, 1.0, 1.7, 2.2, 3.0]), limit))
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # the Trainer prints its results
print("// SPDX-License-Identifier: Apache-2.0", file=out)
print("// Made by dev/goldens/trainer_steps.py with transformers %s." % transformers.__version__, file=out)
print("enum { TRAINER_LAST = %d };\n" % LAST, file=out)
print("static const struct {\n    int examples, micro, accumulation;\n    double epochs;\n    int max_steps, steps;", file=out)
print("    double last[TRAINER_LAST]; // the epochs after the last updates\n} trainer_steps[] = {", file=out)
with tempfile.TemporaryDirectory() as folder:
    for case in CASES:
        found = epochs(*case, folder)
        text = ", ".join(map(repr, found[-LAST:]))
        print("    {%d, %d, %d, %r, %d, %d, {%s}}," % (*case, len(found), text), file=out)
print("};", file=out)
sys.stdout = open(os.devnull, "w")
