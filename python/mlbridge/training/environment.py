# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What trainers learn on: an environment whose observation is one vector."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ..errors import Unsupported
from ..gym import CompilerEnv, PhaseOrdering
from ..gym.layout import MASK
from ..gym.phase_ordering import EMBEDDING

PHASE_ORDERING = "phase-ordering"


class AsVector(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The inputs but the mask, in alphabetical order, as one vector of float32. With `masked` the
    mask, if there is one, is the end of it; `has_mask` says so.

    `compressed` ones, embeddings by IR2Vec, whose sums grow exponentially along chains of
    instructions, are sign(x) log(1 + |x|); an exported network does the same.

    `info["totals"]` of the last step says how the episode went, in figures that add up: `episodes`,
    `rewards`, `faults`, and where bytes are measured `sizes` and `log_over_oz`.
    """

    env: Any

    def __init__(self, env: gymnasium.Env[Any, Any], masked: bool = False) -> None:
        """Unsupported unless the action is one of some choices."""
        super().__init__(env)
        if not isinstance(env.action_space, spaces.Discrete):
            raise Unsupported(f"the actions are {env.action_space}; only Discrete can be trained")
        assert isinstance(env.observation_space, spaces.Dict)
        entries = env.observation_space.spaces
        self.parts = {name: entries[name].shape or () for name in sorted(entries) if name != MASK}
        of_modules = isinstance(env.unwrapped, PhaseOrdering)
        self.compressed = {EMBEDDING} & self.parts.keys() if of_modules else set()
        length = sum(math.prod(shape) for shape in self.parts.values())
        self.has_mask = masked and MASK in entries
        if self.has_mask:
            length += int(env.action_space.n)
        self.observation_space = spaces.Box(-np.inf, np.inf, (length,), np.float32)
        self._reward = 0.0

    def vector(self, seen: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Of an observation of the environment."""
        names = [*self.parts, MASK] if self.has_mask else self.parts
        values = {name: seen[name].ravel().astype(np.float32) for name in names}
        for name in self.compressed:
            values[name] = np.sign(x := values[name]) * np.log1p(np.abs(x))
        return np.concatenate(list(values.values()))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """As of the environment."""
        seen, info = self.env.reset(seed=seed, options=options)
        self._reward = 0.0
        return self.vector(seen), info

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """As of the environment."""
        seen, reward, terminated, truncated, info = self.env.step(action)
        self._reward += reward
        if terminated or truncated:
            info["totals"] = self.totals(info, self._reward)
        return self.vector(seen), reward, terminated, truncated, info

    @staticmethod
    def totals(info: Mapping[str, Any], reward: float) -> dict[str, float]:
        """How an episode went that ended with `info`."""
        totals = {"episodes": 1.0, "rewards": reward, "faults": float("fault" in info)}
        if "oz_code_bytes" in info and "fault" not in info:
            bytes_, oz = (max(1, info[name][0]) for name in ("code_bytes", "oz_code_bytes"))
            totals |= {"sizes": 1.0, "log_over_oz": math.log(bytes_ / oz)}
        return totals

    def action_masks(self) -> NDArray[np.bool_]:
        """As of the environment."""
        masks: NDArray[np.bool_] = self.env.action_masks()
        return masks


def make(environment: str, options: Mapping[str, Any], *, masked: bool = False) -> AsVector:
    """One environment: "phase-ordering" with the options of PhaseOrdering, or a URI."""
    if environment == PHASE_ORDERING:
        return AsVector(PhaseOrdering(**options), masked)
    return AsVector(CompilerEnv(environment, **options), masked)
