# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An environment with one agent, in a compiler, as a Gymnasium environment."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from .._core import Signature
from ..errors import Error, InvalidArgument, Unsupported
from .layout import MASK, Layout, Seen
from .session import SINGLE, Session, checked_render_mode, read_state, signatures
from .worker import Start


class CompilerEnv(gymnasium.Env[Seen, Any]):
    """An environment in a compiler, for one agent. One thread at a time.

    `reset` takes `options={"unit": MODULE}`; otherwise one of `units` is drawn by the seed.
    If the compiler dies, hangs past `deadline` or breaks the protocol, the episode is truncated and
    `info["fault"]` says why. The next reset has another one: `start(address)` starts it, or
    one that was started elsewhere is connected to again. Only a reset that failed `retries` times
    raises.

    An action that `action_mask` forbids is not taken: nothing changes, `info["masked"]` is set, and
    as many in a row as there are choices truncate the episode. `info["action_mask"]` is what
    `action_space.sample(mask)` takes, `action_masks()` what MaskablePPO asks for.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - Gymnasium's interface

    def __init__(
        self,
        uri: str = "",
        start: Start | None = None,
        *,
        units: Sequence[str] = ("",),
        signature: Signature | None = None,
        bounds: Mapping[str, Sequence[int]] | None = None,
        choices: int | Mapping[str, Any] | None = None,
        aside: Sequence[str] = (),
        deadline: float | str | timedelta | None = None,
        wait: float = 30.0,
        retries: int = 5,
        render_mode: str | None = None,
        prepare: Callable[[str], str] = str,
    ) -> None:
        """The environment is asked for its signature now, or at the first reset, given `signature`.

        Without `uri` the compiler listens in a folder of this environment. `bounds`, `choices` and
        `aside` are described at Layout. `prepare` is called with a unit before each reset, and
        gives what the compiler is told.
        """
        self.render_mode = checked_render_mode(render_mode)
        waiting: dict[str, Any] = {"deadline": deadline, "wait": wait, "retries": retries}
        self._session = Session(uri, start, units, prepare=prepare, **waiting)
        with self._session.closed_on_error():
            if signature is None:
                agents = signatures(self._session.driver())
                if len(agents) > 1:
                    raise Unsupported(
                        f"{uri} has the agents {', '.join(agents)}: use aec, parallel or rllib"
                    )
                [signature] = agents.values()
            self.layout = Layout(signature, bounds, choices, aside)
        self.observation_space = self.layout.observation_space
        self.action_space = self.layout.action_space
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        """Begin an episode. `options`: the `unit`, and the `seed` that the environment gets."""
        super().reset(seed=seed)
        self._over = True
        self.layout.forget()
        expected = {SINGLE: self.layout.signature}
        seen: Seen = {}
        info: dict[str, Any] = {}

        def begun(observation: Mapping[str, NDArray[Any]]) -> None:
            nonlocal seen, info
            seen, info = self.layout.member(observation), self._info()
            self._begun(info)

        self._session.begin(self.np_random, options, expected, begun)
        self._over = False
        return seen, info

    _resumes = True  # if the compiler can

    def _begun(self, info: dict[str, Any]) -> None:
        """An episode begins; derived classes may add to its info."""

    def _reward(self, given: float, info: dict[str, Any]) -> float:
        """The reward of a step for which the compiler gave `given`; derived classes may differ."""
        return given

    def _info(self, **more: Any) -> dict[str, Any]:
        return {"unit": self._session.unit, **self.layout.info(), **more}

    def step(self, action: Any) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Take an action. InvalidArgument if there is no such action; the episode then goes on."""
        if self._over:
            raise gymnasium.error.ResetNeeded("no episode is open: call reset first")
        value = self.layout.value(action)
        if (refusals := self.layout.refused(action)) is not None:
            self._over = refusals >= self.layout.patience
            return self.layout.member({}), 0.0, False, self._over, self._info(masked=True)
        driver, observation, fault = self._session.step(value, action)
        seen = self.layout.member(observation)
        info = self._info()
        if not fault:
            try:
                self._session.rewards[-1] = self._reward(self._session.rewards[-1], info)
            except Error as error:
                fault = str(error)
                self._session.rewards[-1] = 0.0
        if fault:
            info["fault"] = fault
        truncated = bool(fault) or driver is None or driver.truncated
        terminated = driver is not None and driver.done and not truncated
        self._over = terminated or truncated
        return seen, self._session.rewards[-1], terminated, truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """The actions that are allowed now, in the form that sb3-contrib's MaskablePPO asks for."""
        mask = self.layout.info().get(MASK)
        if mask is None:
            raise Unsupported(f"the environment has no '{MASK}'")
        return np.asarray(mask, np.bool_)

    def render(self) -> str | None:
        """The episode so far, a line for each step, if the render mode is "ansi"."""
        return None if self.render_mode is None else self._session.shown(self.name_of)

    @property
    def process(self) -> subprocess.Popen[Any] | None:
        """The compiler that `start` started last."""
        return self._session.process

    def name_of(self, action: Any) -> str:
        """The name of an action, for people."""
        return str(action)

    def close(self) -> None:
        """End the compiler, if it is ours, or the connection. May be called twice."""
        self._over = True
        self._session.close()

    def state(self) -> str:
        """The episode so far as JSON, from which `restore` makes it again."""
        return self._session.state()

    def fork(self, step: int) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Go back to where this episode was after `step` steps, and begin another one there.

        If the compiler keeps its states (metadata "mlbridge.fork"), it resumes there; otherwise, or
        if it has died since, the steps are taken again. Returns the results of the last of them,
        but a resumed state has no reward.
        """
        if not self._session.unit and not self._session.rewards:
            raise InvalidArgument("there is no episode to fork: call reset first")
        if not 0 <= step <= len(self._session.actions):
            raise InvalidArgument(f"step {step} of {len(self._session.actions)}")
        options, actions = read_state(self.state())
        resumed = self._session.resume(step) if self._resumes else None
        if resumed is None:
            return self._replayed(options, actions[:step])
        self._over = False
        return self.layout.member(resumed), 0.0, False, False, self._info()

    def restore(self, state: str) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Reset and take the actions of a saved state. Returns the results of the last one."""
        return self._replayed(*read_state(state))

    def _replayed(
        self, options: dict[str, Any], actions: Sequence[Any]
    ) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        observation, info = self.reset(options=options)
        last = (observation, 0.0, False, False, info)
        for number, action in enumerate(actions):
            if last[2] or last[3]:
                why = info.get("fault", "the episode was over")
                raise InvalidArgument(f"{len(actions)} actions, but after {number}: {why}")
            last = self.step(self.layout.action(action))
            info = last[4]
        return last


def make(uri: str, **options: Any) -> CompilerEnv:
    """The environment with one agent that is served at `uri`, with the options of CompilerEnv."""
    return CompilerEnv(uri, **options)
