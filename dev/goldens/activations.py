#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/golden/activations.safetensors: every function of one variable that transformers names for
hidden_act, and its derivative, computed in float64 at points over its whole range. Leaves out those with
parameters of their own, and sqrtsoftplus, which no feed-forward network uses.

    activations.py tests/golden
"""
import os
import sys

import numpy as np
import torch
from safetensors.numpy import save_file
from transformers.activations import ACT2CLS, ACT2FN

LEFT_OUT = ("prelu", "xielu", "sqrtsoftplus")

grid = np.concatenate([np.linspace(-14, 14, 225), [-90.0, -40.0, -1e-4, 1e-4, 40.0, 90.0]])
grid = grid.astype(np.float32)
for kink in (-10, -3, 0, 3, 6, 10):  # where the derivative is a convention
    grid = grid[np.abs(grid - kink) > 1e-6]
tensors = {"x": grid}
for name in sorted(set(ACT2CLS) - set(LEFT_OUT)):
    x = torch.from_numpy(grid).double().requires_grad_()
    y = ACT2FN[name](x)
    y.sum().backward()
    tensors[f"{name}.y"] = y.detach().float().numpy()
    tensors[f"{name}.dx"] = x.grad.float().numpy()
path = os.path.join(sys.argv[1], "activations.safetensors")
save_file(tensors, path)
print(len(tensors) // 2, "functions,", os.path.getsize(path) // 1024, "KiB")
