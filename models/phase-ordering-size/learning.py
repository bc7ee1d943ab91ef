# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fit the policy to what is known: cost-sensitive imitation of the best ends seen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from experience import WORST, Sequence, Tree
from network import Member, Policy
from numpy.typing import NDArray
from torch import Tensor

TEMPERATURE = 0.006  # of the soft target, in log size
COST_WEIGHT = 20.0
BATCH = 64


@dataclass
class Batch:
    """States as rows: inputs, what each action costs beyond the best one, which were tried."""

    inputs: Tensor
    regret: Tensor
    tried: Tensor

    def __len__(self) -> int:
        return len(self.inputs)


def history_of(sequence: Sequence, choices: int) -> NDArray[np.float32]:
    """How often each action was taken, as the plugin tells it."""
    history = np.zeros(choices, np.float32)
    for action in sequence:
        history[action] += 1
    return history


def observation_inputs(
    policy: Policy, observation: NDArray[np.float32] | None, sequence: Sequence
) -> NDArray[np.float32]:
    """The policy's preferences in a state of a tree."""
    assert observation is not None
    mask = np.ones(policy.choices, np.float32)
    if sequence:
        mask[sequence[-1]] = 0.0
    return policy.preferences(
        observation, mask, history_of(sequence, policy.choices), len(sequence)
    )


def rows(policy: Policy, trees: Iterable[Tree], longest: int = 12) -> Batch:
    """All states in which more than one action was tried."""
    features, histories, steps, regrets, tried = [], [], [], [], []
    for tree in trees:
        for sequence, costs in tree.costs(policy.choices - 1).items():
            if len(sequence) > longest:
                continue
            least = min(costs.values())
            regret = np.full(policy.choices, WORST / 2, np.float32)
            known = np.zeros(policy.choices, np.float32)
            for action, cost in costs.items():
                regret[action] = min(cost - least, WORST)
                known[action] = 1.0
            features.append(tree.states[sequence].observation)
            histories.append(history_of(sequence, policy.choices))
            steps.append([len(sequence)])
            regrets.append(regret)
            tried.append(known)
    inputs = policy.encode(
        torch.from_numpy(np.array(features, np.float32)),
        torch.from_numpy(np.array(histories)),
        torch.tensor(steps),
    )
    return Batch(inputs, torch.from_numpy(np.array(regrets)), torch.from_numpy(np.array(tried)))


def fit(
    trees: Mapping[str, Tree],
    stop: int,
    *,
    seed: int,
    members: int = 3,
    width: int = 64,
    dropout: float = 0.2,
    epochs: int = 80,
    rate: float = 2e-3,
    decay: float = 1e-3,
) -> Policy:
    """A new policy for what is known. The same trees and seed give the same policy."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    features = next(
        len(state.observation)
        for tree in trees.values()
        for state in tree.states.values()
        if state.observation is not None
    )
    policy = Policy(features, stop + 1, width, members, dropout)
    data = rows(policy, trees.values())
    for module in policy.members:
        member = cast(Member, module)
        member.mean.copy_(data.inputs.mean(0))
        member.deviation.copy_(data.inputs.std(0).clamp(min=0.05))
        train_member(member, data, epochs, rate, decay)
    return policy.eval()


def refine(
    policy: Policy, trees: Iterable[Tree], *, seed: int, epochs: int, rate: float = 4e-4
) -> None:
    """Fit a policy further to what is known by now."""
    torch.manual_seed(seed)
    data = rows(policy, trees)
    for module in policy.members:
        train_member(cast(Member, module), data, epochs, rate, 1e-3)


def train_member(member: Member, data: Batch, epochs: int, rate: float, decay: float) -> None:
    """Minimise the expected regret and the distance to the soft choice of the best."""
    target = torch.softmax(-data.regret / TEMPERATURE + data.tried.clamp(min=1e-9).log(), 1)
    optimizer = torch.optim.AdamW(member.parameters(), lr=rate, weight_decay=decay)
    total = epochs * math.ceil(len(data) / BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=total)
    member.train()
    for _ in range(epochs):
        order = torch.randperm(len(data))
        for start in range(0, len(data), BATCH):
            rows_now = order[start : start + BATCH]
            votes = torch.log_softmax(member(data.inputs[rows_now]), 1)
            imitation = -(target[rows_now] * votes).sum(1).mean()
            regret = (votes.exp() * data.regret[rows_now]).sum(1).mean()
            loss = 0.5 * imitation + COST_WEIGHT * regret
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call,unused-ignore]
            optimizer.step()
            schedule.step()
    member.eval()


@torch.no_grad()
def mean_regret(policy: Policy, trees: Iterable[Tree]) -> float:
    """What the policy's choice among the actions tried costs on average, in log size."""
    data = rows(policy, trees)
    votes = policy.log_probabilities(data.inputs) - 1e6 * (1 - data.tried)
    return float(data.regret.gather(1, votes.argmax(1, keepdim=True)).mean())
