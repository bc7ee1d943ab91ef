# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The network of the batching benchmark, in PyTorch on one thread: 300-256-128-15."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

INPUTS, OUTPUTS = 300, 15


def network() -> Callable[[Tensor], Tensor]:
    """Always the same weights; no gradients."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    layers = nn.Sequential(
        nn.Linear(INPUTS, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, OUTPUTS)
    )
    evaluated: Callable[[Tensor], Tensor] = layers.eval()
    return evaluated
