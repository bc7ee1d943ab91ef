# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Several agents as PettingZoo's AECEnv and ParallelEnv."""

from __future__ import annotations

from typing import Any

from pettingzoo import AECEnv, ParallelEnv

from .agents import Agents
from .layout import Seen
from .session import checked_render_mode


class _Compiler:
    """The common part of both forms."""

    metadata: dict[str, Any] = {  # noqa: RUF012 - PettingZoo's interface
        "render_modes": ["ansi"],
        "name": "mlbridge_v0",
        "is_parallelizable": True,
    }

    def __init__(self, uri: str = "", *, render_mode: str | None = None, **options: Any) -> None:
        """Connects, to learn which agents there are."""
        self.render_mode = checked_render_mode(render_mode)
        self._compiler = Agents(uri, **options)
        self.possible_agents = list(self._compiler.names)
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Any:
        """The space of an agent; Layout describes it."""
        return self._compiler.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """The space of an agent; Layout describes it."""
        return self._compiler.action_spaces[agent]

    def render(self) -> str | None:
        """The episode so far, with render_mode="ansi"."""
        return None if self.render_mode is None else self._compiler.session.shown(str)

    def close(self) -> None:
        """End the compiler, or the connection."""
        self._compiler.close()


class CompilerAEC(_Compiler, AECEnv[str, Seen, Any]):
    """The agents of a compiler in the order in which it asks them; options are those of Agents."""

    def observe(self, agent: str) -> Seen:
        """The last observation of the agent."""
        return self._compiler.observe(agent)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin an episode."""
        self._compiler.reset(seed, options)
        self.agents = list(self.possible_agents)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self._tell()

    def _tell(self) -> None:
        compiler = self._compiler
        self.agent_selection = compiler.acting
        self.rewards = dict(compiler.rewards)
        self.terminations = dict.fromkeys(self.agents, compiler.done and not compiler.truncated)
        self.truncations = dict.fromkeys(self.agents, compiler.done and compiler.truncated)
        self.infos = {name: compiler.info(name) for name in self.agents}

    def step(self, action: Any) -> None:
        """Take an action of `agent_selection`; None once the episode is over."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._compiler.step(action)
        self._cumulative_rewards[agent] = 0.0
        self._tell()
        self._accumulate_rewards()


class CompilerParallel(_Compiler, ParallelEnv[str, Seen, Any]):
    """The agents for trainers that pass an action for each of them: all but one are ignored.

    `infos[AGENT]["acts"]` is whether the agent's next action counts.
    """

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Seen], dict[str, dict[str, Any]]]:
        """Begin an episode."""
        self._compiler.reset(seed, options)
        self.agents = list(self.possible_agents)
        return self._seen(), self._infos()

    def _seen(self) -> dict[str, Seen]:
        return {name: self._compiler.observe(name) for name in self.possible_agents}

    def _infos(self) -> dict[str, dict[str, Any]]:
        compiler = self._compiler
        return {
            name: {**compiler.info(name), "acts": name == compiler.acting and not compiler.done}
            for name in self.possible_agents
        }

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[
        dict[str, Seen],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Take the action of the agent that acts."""
        compiler = self._compiler
        compiler.step(actions[compiler.acting])
        if compiler.done:
            self.agents = []
        terminations = dict.fromkeys(self.possible_agents, compiler.done and not compiler.truncated)
        truncations = dict.fromkeys(self.possible_agents, compiler.done and compiler.truncated)
        return self._seen(), dict(compiler.rewards), terminations, truncations, self._infos()
