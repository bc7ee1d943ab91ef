# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Several agents as PettingZoo's AECEnv and ParallelEnv."""

from __future__ import annotations

from typing import Any

from pettingzoo import AECEnv, ParallelEnv

from .agents import Agents
from .layout import Seen
from .session import checked_render_mode


class _Compiler:
    """What both forms have in common."""

    metadata: dict[str, Any] = {  # noqa: RUF012 - of PettingZoo's interface
        "render_modes": ["ansi"],
        "name": "mlbridge_v0",
        "is_parallelizable": True,
    }

    def __init__(self, uri: str = "", *, render_mode: str | None = None, **options: Any) -> None:
        """Connects, to learn which agents there are."""
        self.render_mode = checked_render_mode(render_mode)
        self._of = Agents(uri, **options)
        self.possible_agents = list(self._of.names)
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Any:
        """Described at Layout."""
        return self._of.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """Described at Layout."""
        return self._of.action_spaces[agent]

    def render(self) -> str | None:
        """The episode so far, with render_mode="ansi"."""
        return None if self.render_mode is None else self._of.session.shown(str)

    def close(self) -> None:
        """End the compiler, or the connection."""
        self._of.session.close()


class CompilerAEC(_Compiler, AECEnv[str, Seen, Any]):
    """The agents of a compiler in the order in which it asks them; options as of Agents."""

    def observe(self, agent: str) -> Seen:
        """What the agent saw last."""
        return self._of.observe(agent)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin an episode."""
        self._of.reset(seed, options)
        self.agents = list(self.possible_agents)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self._tell()

    def _tell(self) -> None:
        of = self._of
        self.agent_selection = of.acting
        self.rewards = dict(of.rewards)
        self.terminations = dict.fromkeys(self.agents, of.done and not of.truncated)
        self.truncations = dict.fromkeys(self.agents, of.done and of.truncated)
        self.infos = {name: of.info(name) for name in self.agents}

    def step(self, action: Any) -> None:
        """An action of `agent_selection`; None once the episode is over."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._of.step(action)
        self._cumulative_rewards[agent] = 0.0
        self._tell()
        self._accumulate_rewards()


class CompilerParallel(_Compiler, ParallelEnv[str, Seen, Any]):
    """The same for trainers that pass an action for every agent: all but one are ignored.

    `infos[AGENT]["acts"]` is whether the agent's next action counts.
    """

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Seen], dict[str, dict[str, Any]]]:
        """Begin an episode."""
        self._of.reset(seed, options)
        self.agents = list(self.possible_agents)
        return self._seen(), self._infos()

    def _seen(self) -> dict[str, Seen]:
        return {name: self._of.observe(name) for name in self.possible_agents}

    def _infos(self) -> dict[str, dict[str, Any]]:
        of = self._of
        return {
            name: {**of.info(name), "acts": name == of.acting and not of.done}
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
        """The action of the agent that acts."""
        of = self._of
        of.step(actions[of.acting])
        if of.done:
            self.agents = []
        terminations = dict.fromkeys(self.possible_agents, of.done and not of.truncated)
        truncations = dict.fromkeys(self.possible_agents, of.done and of.truncated)
        return self._seen(), dict(of.rewards), terminations, truncations, self._infos()
