# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An environment as trainers see it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from mlbridge import InvalidArgument
from mlbridge.training.environment import AsVector, make


class Given(gymnasium.Env[Any, Any]):
    """Gives what it is told to."""

    action_space = spaces.Discrete(3)
    observation_space = spaces.Dict({"x": spaces.Box(-np.inf, np.inf, (2,), np.float64)})

    def __init__(self, *seen: tuple[float, float]) -> None:
        self.given = list(seen)

    def now(self) -> tuple[dict[str, Any], float]:
        """The next one."""
        x, reward = self.given.pop(0)
        return {"x": np.array([x, 1.0])}, reward

    def reset(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Its reward is not looked at."""
        return self.now()[0], {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Never done."""
        seen, reward = self.now()
        return seen, reward, False, False, {}


@pytest.mark.parametrize(
    ("x", "reward"), [(5, math.nan), (5, -math.inf), (5, 1e300), (math.nan, 2), (1e300, 2)]
)
@pytest.mark.filterwarnings("error")
def test_what_float32_does_not_hold_is_a_fault(x: float, reward: float) -> None:
    env = AsVector(Given((3, 0), (4, 2), (x, reward)))
    assert env.reset()[0].tolist() == [3, 1]
    assert env.step(0)[1:4] == (2, False, False)
    seen, got, terminated, truncated, info = env.step(0)
    assert (seen.tolist(), got, terminated, truncated) == ([4, 1], 0, False, True)
    assert "finite" in info["fault"]
    assert info["totals"] == {"episodes": 1, "rewards": 2, "faults": 1}


def test_a_reset_that_is_not_finite() -> None:
    env = AsVector(Given((math.nan, 0), (4, 2), (3, 0), (4, 2)))
    assert env.reset()[0].tolist() == [0, 0]
    seen, reward, _, truncated, info = env.step(0)
    assert (seen.tolist(), reward, truncated, "fault" in info) == ([0, 0], 0, True, True)
    env.reset()
    assert env.step(0)[1:] == (2, False, False, {})


def test_without_a_mask_everything_is_allowed() -> None:
    assert AsVector(Given()).action_masks().tolist() == [True] * 3


@pytest.mark.parametrize(
    ("environment", "options", "message"),
    [
        ("phase-ordering", {"max_stepz": 3}, "phase-ordering has no 'max_stepz'; it has corpus"),
        ("phase-ordering", {"max_steps": "abc"}, "max_steps of phase-ordering is 'abc'"),
        ("phase-ordering", {"actions": 5}, "actions of phase-ordering is 5; expected str"),
        ("phase-ordering", {"deadline": "abc"}, "deadline of phase-ordering is 'abc'"),
        ("unix:x", {"max_steps": 3}, "unix:x has no 'max_steps'"),
        ("unix:x", {"choices": "3x"}, "choices of unix:x is '3x'"),
    ],
)
def test_options_that_it_does_not_take(
    environment: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make(environment, {"corpus": "x.bc", **options} if environment[0] == "p" else options)


def test_options_that_it_takes(module: Path) -> None:
    options = {"corpus": [str(module)], "deadline": 5, "max_steps": 3, "cache": None}
    env = make("phase-ordering", options)
    assert env.action_space.contains(0)
    env.close()
