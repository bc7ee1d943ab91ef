# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The policy's network: observation in, preference for each action out."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

MOST_REPEATS = 2.0
STEP_SCALE = 8.0
MASKED = -1.0e9


class Member(nn.Module):
    """One multilayer perceptron; inputs are normalised inside."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, inputs: int, choices: int, width: int, dropout: float) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("deviation", torch.ones(inputs))
        self.layers = nn.Sequential(
            nn.Linear(inputs, width),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(width, choices),
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """Preferences of shape [..., choices]."""
        scaled = ((inputs - self.mean) / self.deviation).clamp(-4.0, 4.0)
        return cast(Tensor, self.layers(scaled))


class Policy(nn.Module):
    """A few perceptrons that vote with their log-probabilities."""

    def __init__(
        self, features: int, choices: int, width: int = 64, members: int = 3, dropout: float = 0.2
    ) -> None:
        super().__init__()
        self.shape: dict[str, Any] = {
            "features": features,
            "choices": choices,
            "width": width,
            "members": members,
            "dropout": dropout,
        }
        self.choices = choices
        self.members = nn.ModuleList(
            Member(features + choices + 1, choices, width, dropout) for _ in range(members)
        )

    def encode(self, features: Tensor, history: Tensor, step: Tensor) -> Tensor:
        """What the perceptrons see."""
        often = history.clamp(0.0, MOST_REPEATS)
        return torch.cat((features, often, step.to(torch.float32) / STEP_SCALE), dim=-1)

    def preferences(
        self, features: Tensor, action_mask: Tensor, history: Tensor, step: Tensor
    ) -> Tensor:
        """The members' mean vote on one observation of the plugin, as log-probabilities; masked
        actions have -1e9."""
        inputs = self.encode(features, history, step)
        votes = torch.stack([torch.log_softmax(m(inputs), dim=-1) for m in self.members]).mean(0)
        return torch.where(action_mask > 0.5, votes, torch.full_like(votes, MASKED))

    def forward(self, *observation: Tensor, **named: Tensor) -> Tensor:
        """The best allowed action, int64[1], of one observation of the plugin."""
        return torch.argmax(self.preferences(*observation, **named), dim=-1, keepdim=True)
