# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A network that learns to decide as a teacher does."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..errors import InvalidArgument
from ..gym.layout import MASK
from ..recording import Episode, Recording
from .arguments import ACTIVATIONS
from .environment import PHASE_ORDERING, AsVector, VectorTrainer, make
from .folder import write_json
from .settings import Settings

DEFAULTS: dict[str, Any] = {
    "teacher": "greedy",
    "tries": 8,
    "episodes": 8,
    "epochs": 4,
    "batch": 128,
    "lr": 1e-3,
    "hiddens": [128, 128],
    "activation": "relu",
}


def configured(settings: Settings) -> dict[str, Any]:
    """The settings with the defaults. InvalidArgument for unknown names and other types."""
    for name, value in settings.settings.items():
        if name not in DEFAULTS:
            raise InvalidArgument(f"imitation has no '{name}'; it has {', '.join(DEFAULTS)}")
        if type(DEFAULTS[name]) is int and (type(value) is not int or value < 1):
            raise InvalidArgument(f"{name} is {value!r}; expected a number from 1")
    values = DEFAULTS | dict(settings.settings)
    if not isinstance(values["lr"], int | float) or not 0 < values["lr"] < math.inf:
        raise InvalidArgument(f"lr is {values['lr']!r}; expected a number above 0")
    return values


class _Network(nn.Module):
    """Scales the observation as those of the first iteration were, then fully connected layers."""

    mean: Tensor
    scale: Tensor

    def __init__(self, length: int, hiddens: Sequence[int], activation: str, choices: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(length))
        self.register_buffer("scale", torch.ones(length))
        layers: list[Any] = []
        for width in hiddens:
            layers += [nn.Linear(length, width), getattr(nn, ACTIVATIONS[activation])()]
            length = width
        self.layers = nn.Sequential(*layers, nn.Linear(length, choices))

    def forward(self, vector: Tensor) -> Tensor:
        values: Tensor = self.layers((vector - self.mean) * self.scale)
        return values


class Trainer(VectorTrainer):
    """One iteration is some episodes of the teacher, then some epochs over all seen so far.

    `teacher`: "greedy" tries so many allowed actions at each step (`tries`) and takes the one with
    the best reward, which takes an environment that forks (docs/gymnasium.md); or the file of a
    recording, or a list of such, whose every decision is learned.
    """

    def __init__(self, settings: Settings, address: str = "") -> None:
        """`settings.workers`: compilers at once; there is no cluster at any address."""
        self._own = own = configured(settings)
        torch.set_num_threads(1)
        torch.manual_seed(settings.seed)
        if settings.environment == PHASE_ORDERING and own["teacher"] == "greedy":
            settings = replace(settings, options={"keep_states": True, **settings.options})
        super().__init__(settings)
        others = range(1, settings.workers)
        environment, options = settings.environment, settings.options
        self._envs = [self.example, *(make(environment, options) for _ in others)]
        spaces: Any = self.example
        length = spaces.observation_space.shape[0]
        self._choices = int(spaces.action_space.n)
        self._network = _Network(length, own["hiddens"], own["activation"], self._choices)
        self._optimizer = torch.optim.Adam(self._network.parameters(), lr=own["lr"])
        self._vectors = np.zeros((0, length), np.float32)
        self._allowed = np.zeros((0, self._choices), np.bool_)
        self._actions = np.zeros(0, np.int64)
        self._iteration = 0
        self._recorded = None if own["teacher"] == "greedy" else self._read(own["teacher"])

    def iterate(self) -> tuple[int, Mapping[str, float]]:
        """Trains for an iteration, whose steps are the decisions seen so far."""
        totals: Counter[str] = Counter()
        if self._recorded is not None:
            new, self._recorded = self._recorded, []
        else:
            count = self._own["episodes"]
            with ThreadPoolExecutor(len(self._envs)) as pool:
                parts = [range(i, count, len(self._envs)) for i in range(len(self._envs))]
                played = list(pool.map(self._played, self._envs, parts))
            by_number = sorted((item for part in played for item in part), key=lambda i: i[0])
            new = [decision for _, decisions, _ in by_number for decision in decisions]
            for _, _, total in by_number:
                totals.update(total)
        self._add(new)
        if self._iteration == 0:
            self._rescale()
        self._iteration += 1
        steps = len(self._actions)
        if self._own["teacher"] != "greedy":  # each pass over the recordings counts
            steps *= self._iteration
        return steps, {**totals, "agreement": self._learn()}

    def _add(self, decisions: Sequence[tuple[Any, Any, int]]) -> None:
        if decisions:
            vectors, masks, actions = zip(*decisions, strict=True)
            self._vectors = np.concatenate([self._vectors, np.array(vectors, np.float32)])
            self._allowed = np.concatenate([self._allowed, np.array(masks, np.bool_)])
            self._actions = np.concatenate([self._actions, np.array(actions, np.int64)])
        if not len(self._actions):
            raise InvalidArgument(f"{self._own['teacher']}: there is no decision to learn")

    def _rescale(self) -> None:
        self._network.mean.copy_(torch.from_numpy(self._vectors.mean(0)))
        spread = np.maximum(self._vectors.std(0), 1e-3).astype(np.float32)
        self._network.scale.copy_(torch.from_numpy(1 / spread))

    def _learn(self) -> float:
        """Trains the network; the share of decisions that it then makes as the teacher does."""
        vectors, allowed, actions = map(
            torch.from_numpy, (self._vectors, self._allowed, self._actions)
        )
        order = np.random.default_rng((self._settings.seed, self._iteration))
        for _ in range(self._own["epochs"]):
            for part in np.array_split(
                order.permutation(len(actions)), math.ceil(len(actions) / self._own["batch"])
            ):
                logits = self._network(vectors[part]).masked_fill(~allowed[part], -1e9)
                self._optimizer.zero_grad()
                loss: Any = nn.functional.cross_entropy(logits, actions[part])
                loss.backward()
                self._optimizer.step()
        with torch.no_grad():
            chosen = self._network(vectors).masked_fill(~allowed, -1e9).argmax(-1)
        return float((chosen == actions).float().mean())

    def _played(self, env: AsVector, numbers: Sequence[int]) -> list[tuple[int, Any, Any]]:
        return [(number, *self._greedy(env, number)) for number in numbers]

    def _greedy(self, env: AsVector, number: int) -> tuple[list[Any], dict[str, float]]:
        """The decisions of an episode, and its totals."""
        random = np.random.default_rng((self._settings.seed, self._iteration, number))
        inner: Any = env.unwrapped
        vector, info = env.reset(seed=int(random.integers(2**31)))
        decisions: list[Any] = []
        total, over = 0.0, False
        while not over:
            mask, step = env.action_masks(), len(decisions)
            candidates = random.permutation(np.flatnonzero(mask))[: self._own["tries"]]
            tried = {}
            for action in map(int, candidates):
                _, reward, _, _, info = env.step(action)
                tried[action] = -math.inf if "fault" in info else float(reward)
                if "fault" in inner.fork(step)[4]:
                    return decisions, {"episodes": 1.0, "rewards": total, "faults": 1.0}
            best = max(tried, key=lambda action: tried[action])
            decisions.append((vector, mask, best))
            vector, reward, terminated, truncated, info = env.step(best)
            total += float(reward)
            over = terminated or truncated
        return decisions, env.totals(info, total)

    def _read(self, files: str | Sequence[str]) -> list[Any]:
        decisions = []
        for file in [files] if isinstance(files, str) else files:
            recording = Recording(file)
            for episode in recording.episodes():
                decisions += [self._decision(episode, k) for k in range(len(episode))]
        return decisions

    def _decision(self, episode: Episode, k: int) -> tuple[NDArray[Any], NDArray[Any], int]:
        observation, actions = episode.observations[k], list(episode.actions[k].values())
        if len(actions) != 1 or actions[0].size != 1 or actions[0].dtype.kind not in "iub":
            raise InvalidArgument("the recording has an answer that is no action")
        action = actions[0]
        missing = self.example.parts.keys() - observation.keys()
        if missing:
            raise InvalidArgument(f"the recording has no {', '.join(sorted(missing))}")
        mask = observation.get(MASK, np.ones(self._choices)).ravel() > 0
        chosen = int(action.ravel()[0])
        if mask.size != self._choices or not 0 <= chosen < self._choices:
            raise InvalidArgument(
                f"the recording has action {chosen} of {mask.size}; here are {self._choices}"
            )
        return self.example.vector(observation), mask, chosen

    def save(self, folder: Path) -> None:
        """Writes a checkpoint."""
        state = {"network": self._network.state_dict(), "optimizer": self._optimizer.state_dict()}
        torch.save(state, folder / "network.pt")
        np.savez(folder / "seen.npz", v=self._vectors, m=self._allowed, a=self._actions)
        write_json(folder / "state.json", {"iteration": self._iteration})

    def load(self, folder: Path) -> None:
        """Goes on from a checkpoint."""
        state = torch.load(folder / "network.pt", weights_only=True)
        self._network.load_state_dict(state["network"])
        self._optimizer.load_state_dict(state["optimizer"])
        with np.load(folder / "seen.npz") as seen:
            self._vectors, self._allowed, self._actions = seen["v"], seen["m"], seen["a"]
        self._iteration = json.loads((folder / "state.json").read_text())["iteration"]
        if self._recorded is not None:
            self._recorded = []

    def network(self) -> nn.Module:
        """The network that learns."""
        return self._network

    def close(self) -> None:
        """Ends the compilers."""
        for env in self._envs:
            env.close()
