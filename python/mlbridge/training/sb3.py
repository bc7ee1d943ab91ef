# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Maskable PPO of Stable-Baselines3, which needs no cluster and obeys masks while it learns."""

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
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv
from torch import Tensor, nn

from ..errors import Closed, Error
from .arguments import ACTIVATIONS, checked
from .environment import VectorTrainer, make
from .settings import Settings

STEPS = 256  # of an environment in an iteration


class _ErrorsInInfo(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Puts the error of a reset into its info; in a worker, an exception would be a traceback."""

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        try:
            return self.env.reset(**options)
        except Error as error:
            space: Any = self.observation_space
            return np.zeros(space.shape, space.dtype), {"error": error}


class _Ended(BaseCallback):
    """Adds up the totals of an iteration's episodes. Raises the error of a reset."""

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
    """Raises Closed if a worker is gone."""
    try:
        yield
    except Error:
        raise
    except (ConnectionError, EOFError):
        raise Closed("a worker has ended; --resume goes on from the last checkpoint") from None


def configured(settings: Settings) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of the network, and those of MaskablePPO."""
    given = dict(settings.settings)
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


class Trainer(VectorTrainer):
    """One iteration is STEPS steps of each environment, each in a process of its own.

    `settings` are those of MaskablePPO, and `hiddens` and `activation` of its network.
    """

    def __init__(self, settings: Settings, address: str = "") -> None:
        """Starts the workers; there is no cluster at any address."""
        shape, given = configured(settings)
        torch.set_num_threads(1)
        super().__init__(settings)

        def worker() -> _ErrorsInInfo:
            return _ErrorsInInfo(make(settings.environment, settings.options))

        kind = SubprocVecEnv if settings.workers > 1 else DummyVecEnv
        with _workers():
            self._vector = kind([worker] * max(1, settings.workers))
        defaults = {"n_steps": STEPS, "batch_size": 128, "device": "cpu", "seed": settings.seed}
        self._use(
            MaskablePPO("MlpPolicy", self._vector, policy_kwargs=shape, **{**defaults, **given})
        )

    def _use(self, model: MaskablePPO) -> None:
        self._model = model
        # The default logger makes a folder in the temporary one, and leaves it there.
        model.set_logger(Logger(folder=None, output_formats=[]))

    def iterate(self) -> tuple[int, Mapping[str, float]]:
        """Trains for an iteration. Raises Closed if a worker ended."""
        ended = _Ended()
        steps = self._model.n_steps * self._model.n_envs
        with _workers():
            self._model.learn(steps, ended, reset_num_timesteps=False)
        return int(self._model.num_timesteps), ended.totals

    def save(self, folder: Path) -> None:
        """Writes a checkpoint."""
        self._model.save(folder / "model.zip")

    def load(self, folder: Path) -> None:
        """Goes on from a checkpoint."""
        self._use(MaskablePPO.load(folder / "model.zip", env=self._vector))

    def network(self) -> nn.Module:
        """The layers of the policy."""
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
