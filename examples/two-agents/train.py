# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains both agents of a compiler that waits to be driven, and then serves them to compilers.

python train.py unix:compiler.sock unix:agents.sock
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import mlbridge

FUNCTIONS, ROUNDS, RATE = 8, 60, 0.05
#: The parameters of each agent: the score of a choice is their product with its features.
parameters = {"range": np.zeros(2), "register": np.zeros(2)}


def features(agent: str, observation: Any) -> Any:
    """A row for each choice."""
    if agent == "range":
        weights = observation["weights"]
        degrees = np.bincount(observation["edges"].ravel(), minlength=len(weights))
        return np.stack([weights, degrees / 4], axis=1)
    is_memory = np.arange(len(observation["action_mask"])) == 0
    return np.stack([is_memory, is_memory * observation["weight"]], axis=1)


def probabilities(agent: str, observation: Any) -> Any:
    scores = features(agent, observation) @ parameters[agent]
    allowed = np.where(observation["action_mask"], scores, -np.inf)
    weights = np.exp(allowed - allowed.max())
    return weights / weights.sum()


def episode(driver: mlbridge.Driver, seed: int, chance: np.random.Generator) -> tuple[float, Any]:
    """The cost, and how the parameters change the log-probability of what was chosen."""
    observation: Any = driver.reset(f"function {seed}", seed=seed)
    gradient = {agent: np.zeros(2) for agent in parameters}
    while not driver.done:
        agent = driver.agent
        p = probabilities(agent, observation)
        choice = int(chance.choice(len(p), p=p))
        rows = features(agent, observation)
        gradient[agent] += rows[choice] - p @ rows
        observation, _, _ = driver.step(choice)
    return -driver.rewards["range"], gradient


def train(driver: mlbridge.Driver) -> None:
    """REINFORCE. What a function costs is compared with what it has cost so far."""
    chance = np.random.default_rng(1)
    usual: dict[int, float] = {}
    for number in range(ROUNDS):
        total = 0.0
        for seed in range(1000, 1000 + FUNCTIONS):
            cost, gradient = episode(driver, seed, chance)
            total += cost
            expected = usual.get(seed, cost)
            usual[seed] = 0.9 * expected + 0.1 * cost
            for agent, change in gradient.items():
                parameters[agent] += RATE * (expected - cost) * change / 10
        if number % 10 == 0:
            print(f"round {number}: {FUNCTIONS} functions cost {total:g}", flush=True)


def policy(observation: Any, context: mlbridge.CallContext) -> int:
    return int(probabilities(context.agent, observation).argmax())


if __name__ == "__main__":
    with mlbridge.drive(f"{sys.argv[1]}?wait=30s") as driver:
        agents = dict(driver.agents)
        train(driver)
    mlbridge.serve(policy, sys.argv[2], agents)
