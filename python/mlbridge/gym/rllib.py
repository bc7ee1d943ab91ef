# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Several agents as RLlib's MultiAgentEnv."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray.rllib.env.multi_agent_env import MultiAgentEnv

from .agents import Agents
from .layout import Seen


class CompilerMultiAgent(MultiAgentEnv):
    """The agents of a compiler: only the one that acts next observes; options are those of Agents.

    For `AlgorithmConfig.environment(CompilerMultiAgent, env_config={"uri": …})`, where `uri` may
    hold {} for the number of the worker and environment.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """Connects, to learn which agents there are."""
        super().__init__()
        options = dict(config or {})
        number = getattr(config, "worker_index", 0)
        vector = getattr(config, "vector_index", 0) or 0
        uri = str(options.pop("uri", "")).replace("{}", f"{number}-{vector}")
        self._compiler = Agents(uri, **options)
        self.possible_agents = list(self._compiler.names)
        self.agents = list(self.possible_agents)
        self.observation_spaces = self._compiler.observation_spaces
        self.action_spaces = self._compiler.action_spaces
        self._owed = dict.fromkeys(self.possible_agents, 0.0)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Seen], dict[str, Any]]:
        """Begin an episode."""
        self._compiler.reset(seed, options)
        self._owed = dict.fromkeys(self.possible_agents, 0.0)
        acting = self._compiler.acting
        return {acting: self._compiler.observe(acting)}, {acting: self._compiler.info(acting)}

    def step(
        self, action_dict: dict[str, Any]
    ) -> tuple[dict[str, Seen], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Any]]:
        """Take the action of the agent that acts. An agent gets rewards when it observes again."""
        compiler = self._compiler
        compiler.step(action_dict[compiler.acting])
        for name, reward in compiler.rewards.items():
            self._owed[name] += reward
        shown = self.possible_agents if compiler.done else [compiler.acting]
        rewards = {name: self._owed[name] for name in shown}
        self._owed.update(dict.fromkeys(shown, 0.0))
        terminated = dict.fromkeys([*shown, "__all__"], compiler.done and not compiler.truncated)
        truncated = dict.fromkeys([*shown, "__all__"], compiler.done and compiler.truncated)
        infos = {name: compiler.info(name) for name in shown}
        return (
            {name: compiler.observe(name) for name in shown},
            rewards,
            terminated,
            truncated,
            infos,
        )

    def close(self) -> None:
        """End the compiler, or the connection."""
        self._compiler.session.close()
