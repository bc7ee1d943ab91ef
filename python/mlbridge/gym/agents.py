# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An environment with several agents in a compiler, for PettingZoo's and RLlib's forms of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding

from .layout import Layout, Seen
from .session import SINGLE, Session, signatures
from .worker import Start


class Agents:
    """One compiler whose agents act one at a time; the compiler says who is next.

    Faults, masked actions and `options` are as in CompilerEnv; a fault truncates the episode for
    all agents.
    """

    def __init__(
        self,
        uri: str = "",
        start: Start | None = None,
        *,
        units: Sequence[str] = ("",),
        bounds: Mapping[str, Mapping[str, Sequence[int]]] | None = None,
        choices: Mapping[str, int | Mapping[str, Any]] | None = None,
        deadline: float | str | timedelta | None = None,
        wait: float = 30.0,
        retries: int = 5,
    ) -> None:
        """`bounds` and `choices` have for each agent what Layout takes."""
        self.session = Session(uri, start, units, deadline=deadline, wait=wait, retries=retries)
        with self.session.closed_on_error():
            self._signatures = signatures(self.session.driver())
            self.layouts = {
                name: Layout(signature, (bounds or {}).get(name), (choices or {}).get(name))
                for name, signature in self._signatures.items()
            }
        self.names = list(self.layouts)
        self.observation_spaces: dict[str, spaces.Space[Any]] = {
            name: layout.observation_space for name, layout in self.layouts.items()
        }
        self.action_spaces = {name: layout.action_space for name, layout in self.layouts.items()}
        self.random: np.random.Generator | None = None
        self.acting = ""  #: who acts next; empty before the first reset
        self.done = True
        self.rewards: dict[str, float] = {}  #: of the last step
        self._sums: dict[str, float] = {}

    def reset(self, seed: int | None, options: Mapping[str, Any] | None) -> None:
        """Begin an episode."""
        if seed is not None or self.random is None:
            self.random, _ = seeding.np_random(seed)
        self.done = True
        for layout in self.layouts.values():
            layout.forget()
        driver, observation = self.session.begin(self.random, options, self._signatures)
        self.acting, self.fault = driver.agent or SINGLE, ""
        self.done = self.truncated = self._masked = False
        self.rewards = dict.fromkeys(self.names, 0.0)
        self._sums = dict(self.rewards)
        self.layouts[self.acting].member(observation)

    def step(self, action: Any) -> None:
        """Take an action of the agent that acts next."""
        if self.done:
            raise gymnasium.error.ResetNeeded("no episode is open: call reset first")
        agent, layout = self.acting, self.layouts[self.acting]
        value = layout.value(action)
        self.rewards = dict.fromkeys(self.names, 0.0)
        refusals = layout.refused(action)
        self._masked = refusals is not None
        if refusals is not None:
            self.done = self.truncated = refusals >= layout.patience
            return
        driver, observation, self.fault = self.session.step(value, {agent: action})
        if driver is None:
            self.done = self.truncated = True
            return
        self._sums[agent] = 0.0
        given = {name or SINGLE: reward for name, reward in driver.rewards.items()}
        sums = {name: given.get(name, 0.0) for name in self.names}
        self.rewards = {name: sums[name] - self._sums[name] for name in self.names}
        self._sums = sums
        self.done, self.truncated = driver.done, driver.truncated
        if self.done:
            for name, last in driver.last_observations.items():
                self.layouts[name or SINGLE].member(last)
        else:
            self.acting = driver.agent or SINGLE
            self.layouts[self.acting].member(observation)

    def observe(self, agent: str) -> Seen:
        """The last observation of an agent; zeros if it has seen nothing in this episode."""
        return self.layouts[agent].member({})

    def observers(self) -> list[str]:
        """The agents that observe the end of the episode: all."""
        return self.names

    def info(self, agent: str) -> dict[str, Any]:
        """The unit, the texts, the mask, and the fault if there was one."""
        info = {"unit": self.session.unit, **self.layouts[agent].info()}
        if self.fault:
            info["fault"] = self.fault
        if self._masked and agent == self.acting:
            info["masked"] = True
        return info

    def close(self) -> None:
        """End the compiler, or the connection."""
        self.session.close()
