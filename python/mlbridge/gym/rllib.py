# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Several agents as RLlib's MultiAgentEnv."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from ray.rllib.env.multi_agent_env import MultiAgentEnv

from .agents import Agents
from .layout import Seen


class TakingTurns(Protocol):
    """An episode whose agents act one at a time, such as Agents."""

    names: list[str]
    observation_spaces: dict[str, Any]
    action_spaces: dict[str, Any]
    acting: str
    done: bool
    truncated: bool
    rewards: dict[str, float]

    def reset(self, seed: int | None, options: Mapping[str, Any] | None) -> None: ...
    def step(self, action: Any) -> None: ...
    def observe(self, agent: str) -> Any: ...
    def observers(self) -> Collection[str]: ...
    def info(self, agent: str) -> dict[str, Any]: ...
    def close(self) -> None: ...


class TurnsEnv(MultiAgentEnv):
    """Turns as an environment of RLlib: the agent that acts next observes, and gets its rewards
    since it last observed; the others get nothing."""

    def __init__(self, turns: TakingTurns) -> None:
        super().__init__()
        self.turns = turns
        self.possible_agents = list(turns.names)
        self.agents = list(turns.names)
        self.observation_spaces = turns.observation_spaces
        self.action_spaces = turns.action_spaces

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Seen], dict[str, Any]]:
        """Begin an episode."""
        turns = self.turns
        turns.reset(seed, options)
        self._owed = dict.fromkeys(self.possible_agents, 0.0)
        return {turns.acting: turns.observe(turns.acting)}, {turns.acting: turns.info(turns.acting)}

    def step(
        self, action_dict: dict[str, Any]
    ) -> tuple[dict[str, Seen], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Any]]:
        """Take the action of the agent that acts."""
        turns = self.turns
        turns.step(action_dict[turns.acting])
        for name, reward in turns.rewards.items():
            self._owed[name] += reward
        shown = list(turns.observers()) if turns.done else [turns.acting]
        rewards = {name: self._owed[name] for name in shown}
        self._owed.update(dict.fromkeys(shown, 0.0))
        terminated = dict.fromkeys([*shown, "__all__"], turns.done and not turns.truncated)
        truncated = dict.fromkeys([*shown, "__all__"], turns.done and turns.truncated)
        infos = {name: turns.info(name) for name in shown}
        return {n: turns.observe(n) for n in shown}, rewards, terminated, truncated, infos

    def close(self) -> None:
        """End the compiler, or the connection."""
        self.turns.close()


class CompilerMultiAgent(TurnsEnv):
    """The agents of a compiler; options are those of Agents.

    For `AlgorithmConfig.environment(CompilerMultiAgent, env_config={"uri": …})`, where `uri` may
    hold {} for the number of the worker and environment.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """Connects, to learn which agents there are."""
        options = dict(config or {})
        number = getattr(config, "worker_index", 0)
        vector = getattr(config, "vector_index", 0) or 0
        uri = str(options.pop("uri", "")).replace("{}", f"{number}-{vector}")
        super().__init__(Agents(uri, **options))
