# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Maskable PPO of Stable-Baselines3: no cluster, masks are obeyed while learning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv
from torch import Tensor, nn

from ..errors import Closed, Error
from .arguments import ACTIVATIONS, checked
from .environment import make

STEPS = 256  # of an environment in an iteration


class _Told(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The error of a reset is in its info; in a worker, an exception would be a traceback."""

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        try:
            return self.env.reset(**options)
        except Error as error:
            space: Any = self.observation_space
            return np.zeros(space.shape, space.dtype), {"error": error}


class _Ended(BaseCallback):
    """Adds up what the episodes of an iteration came to. Raises the error of a reset."""

    def __init__(self) -> None:
        super().__init__()
        self.totals: Counter[Any] = Counter()

    def _on_training_start(self) -> None:
        for info in self.training_env.reset_infos:
            if "error" in info:
                raise info["error"]

    def _on_step(self) -> bool:
        self._on_training_start()
        for info in self.locals["infos"]:
            self.totals.update(info.get("totals", {}))
        return True


@contextmanager
def _workers() -> Iterator[None]:
    """Closed if one of them is gone."""
    try:
        yield
    except Error:
        raise
    except (ConnectionError, EOFError):
        raise Closed("a worker has ended; --resume goes on from the last checkpoint") from None


def configured(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the network and what MaskablePPO gets."""
    given = dict(settings)
    shape: dict[str, Any] = {}
    if "hiddens" in given:
        shape["net_arch"] = given.pop("hiddens")
    if "activation" in given:
        shape["activation_fn"] = getattr(nn, ACTIVATIONS[given.pop("activation")])
    checked(MaskablePPO.__init__, given, "maskable-ppo")
    return shape, given


class _Values(nn.Module):
    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.extractor, self.policy = policy.mlp_extractor, policy.action_net

    def forward(self, vector: Tensor) -> Tensor:
        values: Tensor = self.policy(self.extractor.forward_actor(vector))
        return values


class Trainer:
    """One iteration is STEPS steps of each environment, each in a process of its own."""

    def __init__(
        self,
        environment: str,
        options: Mapping[str, Any],
        *,
        workers: int,
        seed: int,
        settings: Mapping[str, Any],
    ) -> None:
        """`settings`: of MaskablePPO, and `hiddens` and `activation` of its network."""
        shape, given = configured(settings)
        torch.set_num_threads(1)
        self.example = make(environment, options)
        makers = [lambda: _Told(make(environment, options))] * max(1, workers)
        kind = SubprocVecEnv if workers > 1 else DummyVecEnv
        with _workers():
            self._vector = kind(makers)
        self._model = MaskablePPO(
            "MlpPolicy",
            self._vector,
            policy_kwargs=shape,
            **{"n_steps": STEPS, "batch_size": 128, "device": "cpu", "seed": seed, **given},
        )

    def iterate(self) -> tuple[int, Mapping[str, float]]:
        """The steps so far, and the totals of the episodes that ended. Closed if a worker ended."""
        ended = _Ended()
        steps = self._model.n_steps * self._model.n_envs
        with _workers():
            self._model.learn(steps, ended, reset_num_timesteps=False)
        return int(self._model.num_timesteps), ended.totals

    def save(self, folder: Path) -> None:
        """A checkpoint."""
        self._model.save(folder / "model.zip")

    def load(self, folder: Path) -> None:
        """Goes on from a checkpoint."""
        self._model = MaskablePPO.load(folder / "model.zip", env=self._vector)

    def network(self) -> nn.Module:
        """From vectors to a value for each choice."""
        return _Values(self._model.policy)

    def close(self) -> None:
        """Ends the compilers."""
        vector: Any = self._vector
        if not getattr(vector, "waiting", False):  # or it may wait for a worker for ever
            with suppress(ConnectionError, EOFError):
                vector.close()
        for process in getattr(vector, "processes", ()):
            process.terminate()
        self.example.close()
