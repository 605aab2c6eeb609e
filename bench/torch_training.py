# SPDX-License-Identifier: Apache-2.0
"""Common parts of the scripts that train and predict with PyTorch: batches, precision, optimizer, update."""
import contextlib

import torch


def pad(features, width=None):
    """The inputs of a batch, padded to `width` or to the longest sequence."""
    width = width or max(len(f.input_ids) for f in features)
    ids = torch.zeros(len(features), width, dtype=torch.long)
    types, mask = torch.zeros_like(ids), torch.zeros_like(ids)
    for row, f in enumerate(features):
        n = len(f.input_ids)
        ids[row, :n] = torch.tensor(f.input_ids)
        types[row, :n] = torch.tensor(f.token_type_ids)
        mask[row, :n] = 1
    return {"input_ids": ids, "token_type_ids": types, "attention_mask": mask}


def autocast(precision, device="cpu"):
    if precision == "bf16":
        return torch.autocast(device, dtype=torch.bfloat16)
    return contextlib.nullcontext()


def wait(device):
    """Until the device has computed what was started."""
    if device == "cuda":
        torch.cuda.synchronize()


def decay_groups(model, weight_decay):
    """The parameters for an optimizer: biases and LayerNorm weights have no weight decay."""
    named = list(model.named_parameters())
    return [{"params": [p for n, p in named if "LayerNorm" not in n and not n.endswith("bias")],
             "weight_decay": weight_decay},
            {"params": [p for n, p in named if "LayerNorm" in n or n.endswith("bias")], "weight_decay": 0.0}]


def update(model, optimizer, max_grad_norm=1.0):
    """Clips the gradients, updates the weights and clears the gradients."""
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
