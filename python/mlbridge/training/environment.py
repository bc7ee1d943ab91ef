# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An environment whose observation is one vector, and the part that its trainers share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from .. import corpus
from ..errors import Unsupported
from ..gym import CompilerEnv, PhaseOrdering
from ..gym.layout import MASK
from ..gym.phase_ordering import EMBEDDING
from ..trials import Needs
from .arguments import checked
from .settings import Settings

PHASE_ORDERING = "phase-ordering"
LARGEST = float(np.finfo(np.float32).max)


class AsVector(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The inputs but the mask, in alphabetical order, as one vector of float32. With `masked` the
    mask, if there is one, is the end of it; `has_mask` says so.

    `compressed` ones, embeddings by IR2Vec, whose sums grow exponentially along chains of
    instructions, are sign(x) log(1 + |x|); an exported network does the same.

    A reward or observation that float32 cannot hold, such as NaN, is a fault: the episode is
    truncated with `info["fault"]`, the reward 0 and the observation of the step before.

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
        has_modules = isinstance(env.unwrapped, PhaseOrdering)
        self.compressed = {EMBEDDING} & self.parts.keys() if has_modules else set()
        length = sum(math.prod(shape) for shape in self.parts.values())
        self._choices = int(env.action_space.n)
        self._masks = MASK in entries
        self.has_mask = masked and self._masks
        if self.has_mask:
            length += self._choices
        self.observation_space = spaces.Box(-np.inf, np.inf, (length,), np.float32)
        self._reward = 0.0
        self._before, self._sound = np.zeros(length, np.float32), True

    def vector(self, seen: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        """The vector of an observation of the environment."""
        names = [*self.parts, MASK] if self.has_mask else self.parts
        with np.errstate(over="ignore"):
            values = {name: seen[name].ravel().astype(np.float32) for name in names}
        for name in self.compressed:
            values[name] = np.sign(x := values[name]) * np.log1p(np.abs(x))
        return np.concatenate(list(values.values()))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Resets the wrapped environment. If the observation is not finite it is zeros, and the
        first step is the fault."""
        seen, info = self.env.reset(seed=seed, options=options)
        vector = self.vector(seen)
        self._sound = bool(np.isfinite(vector).all())
        self._reward, self._before = 0.0, vector if self._sound else np.zeros_like(vector)
        return self._before, info

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Steps the wrapped environment."""
        seen, reward, terminated, truncated, info = self.env.step(action)
        vector = self.vector(seen)
        if not (self._sound and abs(reward) <= LARGEST and np.isfinite(vector).all()):
            info.setdefault("fault", f"the reward {reward} or the observation is not finite")
            vector, reward, terminated, truncated = self._before, 0.0, False, True
        self._reward, self._before = self._reward + reward, vector
        if terminated or truncated:
            info["totals"] = self.totals(info, self._reward)
        return vector, reward, terminated, truncated, info

    @staticmethod
    def totals(info: Mapping[str, Any], reward: float) -> dict[str, float]:
        """The figures of an episode that ended with `info`."""
        totals = {"episodes": 1.0, "rewards": reward, "faults": float("fault" in info)}
        if {"code_bytes", "oz_code_bytes"} <= info.keys() and "fault" not in info:
            bytes_, oz = (max(1, info[name][0]) for name in ("code_bytes", "oz_code_bytes"))
            totals |= {"sizes": 1.0, "log_over_oz": math.log(bytes_ / oz)}
        return totals

    def action_masks(self) -> NDArray[np.bool_]:
        """The mask of the wrapped environment; without one all actions are allowed."""
        masks: NDArray[np.bool_] = (
            self.env.action_masks() if self._masks else np.ones(self._choices, np.bool_)
        )
        return masks


def make(environment: str, options: Mapping[str, Any], *, masked: bool = False) -> AsVector:
    """One environment: "phase-ordering" with the options of PhaseOrdering, or a URI.

    InvalidArgument if there is no such option, or it is of another type."""
    if environment == PHASE_ORDERING:
        checked(PhaseOrdering.__init__, options, environment)
        return AsVector(PhaseOrdering(**options), masked)
    checked(CompilerEnv.__init__, options, environment)
    return AsVector(CompilerEnv(environment, **options), masked)


def needs_of(settings: Settings) -> Needs:
    """What a node must have for its environments."""
    if settings.environment != PHASE_ORDERING:
        return Needs()
    options = settings.options
    given = [options.get(name) for name in ("corpus", "actions", "vocabulary")]
    paths = [path for one in given for path in (one if isinstance(one, list | tuple) else [one])]
    programs = (str(options.get("opt", "opt-22")), "clang-22")
    return Needs(programs, ("phase-ordering",), [str(place_of(path)) for path in paths if path])


def place_of(path: Any) -> Any:
    """The folder of a corpus that is known by its name, or the path itself."""
    is_name = isinstance(path, str) and not Path(path).exists() and path in corpus.names()
    return corpus.place_of(path) if is_name else path


class VectorTrainer:
    """A trainer on such environments, whose network maps vectors to a value for each choice."""

    def __init__(self, settings: Settings, *, masked: bool = False) -> None:
        self._settings = settings
        #: One of the environments, for its spaces.
        self.example = make(settings.environment, settings.options, masked=masked)

    def network(self) -> Any:
        """The network, a torch.nn.Module."""
        raise NotImplementedError

    def export(self, path: Path, metadata: Mapping[str, str]) -> tuple[Path, list[str]]:
        """Writes policy.onnx, which has the environment's metadata too."""
        from .export import export

        env: Any = self.example.unwrapped
        file = path / "policy.onnx"
        named = {**getattr(env, "model_metadata", {}), **metadata}
        parts, compressed = self.example.parts, self.example.compressed
        export(self.network(), env.layout.signature, parts, named, file, compressed)
        return file, []
