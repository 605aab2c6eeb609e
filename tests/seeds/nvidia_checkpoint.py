#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a ckpt_<step>.pt that Berth wrote as NVIDIA's and Habana's run_pretraining does, checks it, and writes files as
they do to FOLDER/<kind>/: with torch's newer and older layouts, with the step where torch's own optimizers have it, with
other numbers of parameters, and without an optimizer.

Usage: nvidia_checkpoint.py FILE FOLDER
"""
import json
import os
import sys

import torch

path, folder = sys.argv[1:]
name = os.path.basename(path)
step = int(name[len("ckpt_"):-len(".pt")])
# The restricted reader of torch 1 refuses floating-point numbers.
checkpoint = torch.load(path, weights_only=not torch.__version__.startswith("1."))
assert sorted(checkpoint) == ["berth", "data_loader", "epoch", "files", "model", "optimizer"]
model = checkpoint["model"]
words = "bert.embeddings.word_embeddings.weight"
assert model[words].shape[0] == 96 and not model[words][91:].any()
assert model["cls.predictions.decoder.weight"].data_ptr() == model[words].data_ptr()
assert "bert.encoder.layer.1.intermediate.dense_act.weight" in model
current, files = checkpoint["files"][0], checkpoint["files"][1:]
data = json.loads(bytes(checkpoint["berth"]["trainer_state"]))["stateful_callbacks"]["Berth"]["attributes"]["data"]
assert os.path.basename(files[current]) == data["next_file"] and checkpoint["epoch"] == data["next_epoch"]
assert sorted(os.path.basename(file) for file in files) == [file["name"] for file in data["files"]]

# The order of the module is that of transformers, whose names differ in "dense_act" only.
try:
    import transformers

    config = transformers.BertConfig(vocab_size=model[words].shape[0], hidden_size=32, num_hidden_layers=2,
                                     num_attention_heads=2, intermediate_size=64)
    theirs = [key for key, _ in transformers.BertForPreTraining(config).named_parameters()]
    ours = [key.replace("dense_act", "dense") for key in model if key != "cls.predictions.decoder.weight"]
    assert theirs == ours, list(zip(theirs, ours))
except ImportError:
    pass

# NVIDIA's groups, of parameters without second names; the moments are those of Berth's checkpoint.
parameters = [key for key in model if key != "cls.predictions.decoder.weight"]
undecayed = ["bias", "gamma", "beta", "LayerNorm"]
groups = [[key for key in parameters if any(part in key for part in undecayed) == bool(group)] for group in range(2)]
optimizer = checkpoint["optimizer"]
assert [len(group["params"]) for group in optimizer["param_groups"]] == [len(group) for group in groups]
assert [group["weight_decay"] for group in optimizer["param_groups"]] == [0.01, 0.0]
assert all(group["step"] == step for group in optimizer["param_groups"])
numbered = torch.optim.SGD([{"params": [torch.nn.Parameter(model[key].clone()) for key in group]} for group in groups], lr=1)
numbered.load_state_dict({"state": optimizer["state"],
                          "param_groups": [{**old, "params": new["params"]} for old, new in
                                           zip(numbered.state_dict()["param_groups"], optimizer["param_groups"])]})
for key, parameter in zip(groups[0] + groups[1], [p for group in numbered.param_groups for p in group["params"]]):
    assert numbered.state[parameter]["exp_avg"].shape == model[key].shape, key
try:
    from safetensors.torch import load_file

    own = load_file(os.path.join(os.path.dirname(path), f"checkpoint-{step}", "optimizer.safetensors"))
    for number, key in enumerate(groups[0] + groups[1]):
        for moment in "exp_avg", "exp_avg_sq":
            expected = own[f"{moment}.{key.replace('dense_act', 'dense')}"]
            found = optimizer["state"][number][moment]
            assert torch.equal(found[:len(expected)], expected) and not found[len(expected):].any(), key
except ImportError:
    pass


def save(kind, content, **how):
    os.makedirs(os.path.join(folder, kind))
    torch.save(content, os.path.join(folder, kind, name), **how)


del checkpoint["berth"]
save("new", checkpoint)
save("old", checkpoint, _use_new_zipfile_serialization=False)
single = {"state": {number: {"step": torch.tensor(float(step)), **state} for number, state in optimizer["state"].items()},
          "param_groups": [{key: value for key, value in group.items() if key != "step"}
                           for group in optimizer["param_groups"]]}
save("single", {**checkpoint, "optimizer": single})
states = list(optimizer["state"].values())
other = {"state": dict(enumerate(states[::-1])), "param_groups": optimizer["param_groups"]}
save("other", {**checkpoint, "optimizer": other})
save("none", {"model": model})
