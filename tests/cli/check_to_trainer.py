#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks optimizer.pt and scheduler.pt of a converted checkpoint: torch reads them, its AdamW takes each moment for the
parameter of its name, numbered as the Trainer numbers those of transformers' module, and has the settings and keys that
the Trainer's own file has. Exits 77 without torch.

    check_to_trainer.py LIST

Each line of LIST is TASK CHECKPOINT FOLDER FROZEN_LAYERS. CHECKPOINT is that of Berth's run, which ended beside it and
logged every update; FOLDER is what it was converted to.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tensor_file

try:
    import torch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
PREDICTIONS = ["cls.predictions.bias", *(f"cls.predictions.transform.{part}.{kind}"
                                         for part in ("dense", "LayerNorm") for kind in ("weight", "bias"))]
POOLER = ["bert.pooler.dense.weight", "bert.pooler.dense.bias"]
CLASSIFIER = ["classifier.weight", "classifier.bias"]
HEADS = {"squad": ["qa_outputs.weight", "qa_outputs.bias"], "classify": [*POOLER, *CLASSIFIER], "tokens": CLASSIFIER,
         "embed": POOLER, "mlm": PREDICTIONS,
         "pretrain": [*POOLER, *PREDICTIONS, "cls.seq_relationship.weight", "cls.seq_relationship.bias"]}
PARTS = ["attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
         "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm"]


def names_of(task, layers, frozen):
    """Those of transformers' module, in the order in which it registers them."""
    yield from (f"bert.embeddings.{name}_embeddings.weight" for name in ("word", "position", "token_type"))
    yield from (f"bert.embeddings.LayerNorm.{kind}" for kind in ("weight", "bias"))
    yield from (f"bert.encoder.layer.{layer}.{part}.{kind}" for layer in range(frozen, layers) for part in PARTS
                for kind in ("weight", "bias"))
    yield from HEADS[task]


def read(path):
    return torch.load(path, weights_only=True) if int(torch.__version__.split(".")[0]) >= 2 else torch.load(path)


def check(task, checkpoint, folder, frozen):
    state = json.loads((checkpoint / "trainer_state.json").read_text())
    own = state["stateful_callbacks"]["Berth"]["attributes"]
    settings = {key: own["settings"][key] for key in ("weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon", "learning_rate")}
    decay, beta1, beta2, epsilon, peak = map(float, settings.values())
    steps = state["global_step"]
    log = json.loads((checkpoint.parent / "trainer_state.json").read_text())["log_history"]
    rate = next(entry["learning_rate"] for entry in log if entry["step"] == steps + 1 and "learning_rate" in entry)

    names = list(names_of(task, json.loads((folder / "config.json").read_text())["num_hidden_layers"], frozen))
    plain = [name for name in names if name.endswith("bias") or "LayerNorm" in name]
    decaying = [name for name in names if name not in plain]
    stored = (checkpoint / "optimizer.safetensors").read_bytes()
    entries = tensor_file.entries(checkpoint / "optimizer.safetensors")

    def moment(which, name):
        _, shape, place = entries[f"{which}.{name}"]
        return torch.frombuffer(bytearray(stored[place]), dtype=torch.float32).reshape(shape)

    hidden = json.loads((folder / "config.json").read_text())["hidden_size"]
    idle = POOLER if task == "embed" else []  # transformers' module has it, the task does not use it
    parameters = {name: torch.nn.Parameter(torch.zeros([hidden] * (2 if name.endswith("weight") else 1))
                                           if name in idle else torch.zeros_like(moment("exp_avg", name))) for name in names}
    optimizer = torch.optim.AdamW([{"params": [parameters[name] for name in group], "weight_decay": 1.0}
                                   for group in (decaying, plain)], lr=1.0)
    loaded = read(folder / "optimizer.pt")
    optimizer.load_state_dict(loaded)
    for name in names:
        found = optimizer.state[parameters[name]]
        if name in idle:
            assert not found, name
            continue
        assert found["step"] == steps - own["skipped_steps"], (name, found["step"])
        assert all(torch.equal(found[which], moment(which, name)) for which in ("exp_avg", "exp_avg_sq")), name
    for group, weight_decay in zip(optimizer.param_groups, (decay, 0.0), strict=True):
        found = [group["weight_decay"], group["lr"], group["initial_lr"], group["eps"], *group["betas"]]
        assert found == [weight_decay, rate, peak, epsilon, beta1, beta2], found
    theirs = read(HERE / "data/trainer/checkpoint-3/optimizer.pt")["param_groups"][0]
    assert all(set(group) == set(theirs) for group in loaded["param_groups"]), set(loaded["param_groups"][0]) ^ set(theirs)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    scheduler.load_state_dict(read(folder / "scheduler.pt"))
    assert scheduler.base_lrs == [peak] * 2 and scheduler.get_last_lr() == [rate] * 2, (scheduler.base_lrs, scheduler.get_last_lr())
    assert scheduler.last_epoch == steps - own["skipped_steps"] and scheduler._step_count == scheduler.last_epoch + 1
    for parameter in parameters.values():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    scheduler.step()
    print(f"{task}: torch {torch.__version__} takes the moments of {len(names) - len(idle)} parameters")


for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
    print(f"{line}:")
    words = line.split()
    check(words[0], pathlib.Path(words[1]), pathlib.Path(words[2]), int(words[3]))
