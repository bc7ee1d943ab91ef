# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Environments with several agents: PettingZoo's own checks, rewards, masks and faults."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
import pytest
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test
from served import starter

from mlbridge.gym.pettingzoo import CompilerAEC, CompilerParallel

OPTIONS: dict[str, Any] = {"start": starter("unroller"), "choices": {"select": 3, "unroll": 2}}
ONE: dict[str, Any] = {"start": starter("countdown"), "choices": {"agent": 3}}


@pytest.mark.filterwarnings("ignore::UserWarning")  # of Dict observations, and of names
@pytest.mark.parametrize("options", [OPTIONS, ONE], ids=["several", "one"])
def test_pettingzoos_own_checks(options: dict[str, Any]) -> None:
    env = CompilerAEC(**options)
    api_test(env, num_cycles=40)
    env.close()
    parallel = CompilerParallel(**options)
    parallel_api_test(parallel, num_cycles=40)
    parallel.close()
    seed_test(lambda: CompilerAEC(**options), num_cycles=20)
    parallel_seed_test(lambda: CompilerParallel(**options), num_cycles=20)


def test_turns_and_rewards() -> None:
    env = CompilerAEC(**OPTIONS)
    env.reset(seed=1, options={"seed": 5})
    turns, totals = [], dict.fromkeys(env.possible_agents, 0.0)
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, info = env.last()
        assert observation is not None
        totals[agent] += reward
        if terminated or truncated:
            env.step(None)
            continue
        turns.append(agent)
        env.step(int(observation["action_mask"][1]) if agent == "unroll" else 0)
        if agent == "unroll":
            assert info["action_mask"].dtype == np.int8
    assert turns == ["select", "unroll"] * 3
    assert totals == {"select": -3.0, "unroll": 2.0}, "trips of 8, 6 and 3"
    env.close()


def test_a_forbidden_action_is_not_taken() -> None:
    env = CompilerAEC(**OPTIONS)
    env.reset(seed=1, options={"seed": 0})
    env.step(2)  # a loop of three iterations
    assert not env.last()[4]["action_mask"][1]
    env.step(1)
    assert env.agent_selection == "unroll" and env.infos["unroll"]["masked"]
    env.step(0)
    assert env.agent_selection == "select" and env.rewards == {"select": -1.0, "unroll": 0.0}
    env.close()


def test_a_fault_truncates_for_all() -> None:
    env = CompilerParallel(**OPTIONS)
    _, infos = env.reset(seed=1)
    assert infos["select"]["acts"] and not infos["unroll"]["acts"]
    process = env._compiler.session.process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    _, _, terminated, truncated, infos = env.step({"select": 0, "unroll": 0})
    assert all(truncated.values()) and not any(terminated.values()) and not env.agents
    assert infos["unroll"]["fault"]
    env.reset(seed=1)
    assert env.agents == ["select", "unroll"]
    env.close()
    env.close()
