# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Learning from comparisons: what a deviation in one step did to the size of the object."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import torch
from bridge import Episode
from network import Member, Policy
from numpy.typing import NDArray
from torch import Tensor

GROUP_COST = 0.001  # in log size: what a group must gain to be worth its compile time
LARGEST = 0.06  # gains and losses beyond this count as this much
OWN_SHARE = 0.5  # how sure the demonstrated policy is of its own action
NOISE = 0.15  # of the inputs, in standard deviations, while fitting
BATCH = 128


def history_of(actions: list[int], choices: int) -> NDArray[np.float32]:
    """How often each action was taken, as the plugin tells it."""
    return np.bincount(actions, minlength=choices).astype(np.float32)


def score(episode: Episode, stop: int) -> float:
    """Log size over -Oz plus the cost of the groups; less is better."""
    assert episode.size is not None
    groups = sum(action != stop for action in episode.actions)
    return math.log(max(episode.size, 1) / episode.file.oz_text) + GROUP_COST * groups


@dataclass
class Memory:
    """States with the action to keep to, and states with a deviation and what it gained or lost."""

    policy: Policy
    margin: float = 0.002  # a deviation takes over if it gains more than this on average
    kept_inputs: list[NDArray[np.float32]] = field(default_factory=list)
    kept_actions: list[int] = field(default_factory=list)
    inputs: list[NDArray[np.float32]] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    changes: list[float] = field(default_factory=list)

    def _encode(self, episode: Episode, step: int) -> NDArray[np.float32]:
        history = history_of(episode.actions[:step], self.policy.choices)
        return self.policy.encode(
            torch.from_numpy(episode.observations[step]),
            torch.from_numpy(history),
            torch.tensor([step]),
        ).numpy()

    def keep_to(self, episode: Episode) -> None:
        """Remember a demonstration."""
        for step, action in enumerate(episode.actions):
            self.kept_inputs.append(self._encode(episode, step))
            self.kept_actions.append(action)

    def compare(self, own: Episode, deviating: Episode) -> float | None:
        """Remember the first step in which two episodes of a file differ, and what it changed."""
        steps = range(min(len(own.actions), len(deviating.actions)))
        step = next((k for k in steps if own.actions[k] != deviating.actions[k]), None)
        if step is None:
            return None
        stop = self.policy.choices - 1
        change = score(deviating, stop) - score(own, stop)
        self.inputs.append(self._encode(deviating, step))
        self.actions.append(deviating.actions[step])
        self.changes.append(max(-LARGEST, min(LARGEST, change)))
        return change

    def normalise(self) -> None:
        """Set the policy's input scaling from the demonstrations."""
        inputs = torch.from_numpy(np.array(self.kept_inputs))
        for module in self.policy.members:
            member = cast(Member, module)
            member.mean.copy_(inputs.mean(0))
            member.deviation.copy_(inputs.std(0).clamp(min=0.1))

    def fit(self, *, seed: int, epochs: int, rate: float = 1e-3) -> None:
        """Fit each member: imitate what is kept to, prefer what gained more than the margin.

        Minimises the cross-entropy with a soft copy of the demonstrated action plus the expected
        change of size over the margin; where a deviation gains more than that on average, its
        probability passes that of the demonstrated action.
        """
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        kept = torch.from_numpy(np.array(self.kept_inputs))
        target = torch.full((len(kept), self.policy.choices), (1 - OWN_SHARE) / self.policy.choices)
        target[torch.arange(len(kept)), torch.tensor(self.kept_actions)] += OWN_SHARE
        for module in self.policy.members:
            self._fit_member(cast(Member, module), kept, target, epochs, rate)

    def _fit_member(
        self, member: Member, kept: Tensor, target: Tensor, epochs: int, rate: float
    ) -> None:
        tried = torch.from_numpy(np.array(self.inputs)) if self.inputs else None
        actions = torch.tensor(self.actions)
        changes = torch.tensor(self.changes, dtype=torch.float32)
        optimizer = torch.optim.AdamW(member.parameters(), lr=rate, weight_decay=0.02)
        member.train()
        for _ in range(epochs):
            order = torch.randperm(len(kept))
            for start in range(0, len(kept), BATCH):
                rows = order[start : start + BATCH]
                noisy = kept[rows] + NOISE * member.deviation * torch.randn_like(kept[rows])
                votes = torch.log_softmax(member(noisy), 1)
                loss = -(target[rows] * votes).sum(1).mean()
                if tried is not None:
                    some = torch.randint(len(tried), (BATCH,))
                    probability = torch.softmax(member(tried[some]), 1)
                    chosen = probability.gather(1, actions[some, None]).squeeze(1)
                    # Deviations are spread over the actions, so each stands for a few.
                    loss = loss + (chosen * changes[some]).mean() / self.margin * 8
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call,unused-ignore]
                optimizer.step()
        member.eval()
