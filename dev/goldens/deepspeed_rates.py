#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The learning rate of every update as DeepSpeed's own engine has it, as a C header on standard output.

    dev/goldens/deepspeed_rates.py >tests/train/deepspeed_rates.golden.h

Needs deepspeed and torch. One process, gloo, a model of three numbers.
"""
import os
import sys

os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1",
                  MASTER_PORT=os.environ.get("MASTER_PORT", "29511"), DS_ACCELERATOR="cpu")
out = os.dup(1)
os.dup2(2, 1)  # DeepSpeed prints on standard output

import deepspeed  # noqa: E402
import torch  # noqa: E402

UPDATES = 16
RATE = 1e-3
WARM = {"warmup_min_lr": 1e-5, "warmup_max_lr": RATE, "warmup_num_steps": 5}
DECAY = dict(WARM, total_num_steps=UPDATES)
COSINE = {"warmup_min_ratio": 0.01, "warmup_num_steps": 5, "cos_min_ratio": 0.05, "total_num_steps": UPDATES}
CASES = {
    "constant": None,
    "warmup_log": ("WarmupLR", WARM),
    "warmup_linear": ("WarmupLR", dict(WARM, warmup_type="linear")),
    "warmup_decay_log": ("WarmupDecayLR", DECAY),
    "warmup_decay_linear": ("WarmupDecayLR", dict(DECAY, warmup_type="linear")),
    "warmup_cosine_log": ("WarmupCosineLR", COSINE),
    "warmup_cosine_linear": ("WarmupCosineLR", dict(COSINE, warmup_type="linear")),
}


def rates(scheduler):
    model = torch.nn.Linear(2, 1)
    config = {"train_batch_size": 1, "zero_allow_untested_optimizer": True,
              "optimizer": {"type": "Adam", "params": {"lr": RATE, "torch_adam": True}}}
    if scheduler is not None:
        config["scheduler"] = {"type": scheduler[0], "params": scheduler[1]}
    engine = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)[0]
    found = []
    for _ in range(UPDATES):
        engine.backward(engine(torch.ones(1, 2)).sum())
        found.append(engine.optimizer.param_groups[0]["lr"])
        engine.step()
    return found


text = "// SPDX-License-Identifier: Apache-2.0\n// Made by dev/goldens/deepspeed_rates.py with deepspeed %s.\n" \
    % deepspeed.__version__
text += "enum { DEEPSPEED_UPDATES = %d };\n\n" % UPDATES
text += "static const struct {\n    const char *schedule;\n    double rates[DEEPSPEED_UPDATES];\n} deepspeed_rates[] = {\n"
for name, scheduler in CASES.items():
    text += "    {\"%s\",\n     {%s}},\n" % (name, ", ".join(repr(float(rate)) for rate in rates(scheduler)))
os.write(out, (text + "};\n").encode())
sys.stdout = open(os.devnull, "w")
