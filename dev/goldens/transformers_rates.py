#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The learning rate of every update as transformers' schedules have it, as a C header on standard output.

    dev/goldens/transformers_rates.py >tests/train/transformers_rates.golden.h

Needs transformers and torch.
"""
import torch
import transformers

UPDATES = 16
RATE = 1e-3
# Berth's name, transformers' name, updates of warm-up.
CASES = [
    ("linear", "linear", 5),
    ("cosine", "cosine", 5),
    ("cosine", "cosine_with_restarts", 5),
    ("constant", "constant", 0),
    ("constant_warmup", "constant_with_warmup", 5),
    ("polynomial", "polynomial", 5),
    ("polynomial", "polynomial", 0),
    ("inverse_sqrt", "inverse_sqrt", 5),
    ("inverse_sqrt", "inverse_sqrt", 0),
]


def rates(name: str, warm: int) -> list:
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.AdamW([weight], lr=RATE)
    schedule = transformers.get_scheduler(name, optimizer, num_warmup_steps=warm, num_training_steps=UPDATES)
    found = []
    for _ in range(UPDATES):
        found.append(optimizer.param_groups[0]["lr"])
        weight.grad = torch.zeros(1)
        optimizer.step()
        schedule.step()
    return found


print(f"""// SPDX-License-Identifier: Apache-2.0
// Made by dev/goldens/transformers_rates.py with transformers {transformers.__version__}.
enum {{ TRANSFORMERS_UPDATES = {UPDATES} }};

static const struct {{
    const char *schedule;
    int warmup_steps;
    double rates[TRANSFORMERS_UPDATES];
}} transformers_rates[] = {{""")
for own, theirs, warm in CASES:
    print(f'    {{"{own}", {warm}, {{{", ".join(repr(rate) for rate in rates(theirs, warm))}}}}}, // {theirs}')
print("};")
