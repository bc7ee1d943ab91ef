# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An environment, in a compiler or in Python, that a driver resets and steps to train on it."""

from __future__ import annotations

import contextlib
import logging
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from ._core import Event, EventKind, Signature, Statistics, _Driver
from .errors import Cancelled, Closed, InvalidArgument
from .server import Server

if TYPE_CHECKING:
    from numpy.typing import NDArray

_log = logging.getLogger("mlbridge")


class Transition(NamedTuple):
    """The result of a step. Once the episode is done: the last observation, if there is one.

    With several agents: the observation of the one that acts next, and the sum of its rewards since
    its previous action; once the episode is done, those of the one that acted last.
    """

    observation: dict[str, NDArray[Any]]
    reward: float
    done: bool


class Driver(_Driver):
    """Resets and steps an environment that a compiler serves. One thread at a time.

        with mlbridge.drive("unix:/tmp/opt.sock?wait=10s") as driver:
            observation = driver.reset("module.ll", seed=1)
            while not driver.done:
                observation, reward, done = driver.step(choose(observation))

    With several agents, `agent` is the one that acts next; `signature`, observation and action are
    its own. `rewards` has each agent's rewards since it last acted:

            while not driver.done:
                observation, reward, done = driver.step(policies[driver.agent](observation))

    At the end `truncated` says that a limit ended the episode, not a terminal state, and
    `last_observations` what each agent sees then, where the environment says so.

    After an error the episode is over, and the environment may or may not have applied the action;
    the next reset begins a new one, on a new connection if the old one broke. Returned arrays
    belong to the caller.
    """

    def reset(self, unit: str = "", *, seed: int = 0) -> dict[str, NDArray[Any]]:
        """Begin an episode of `unit`, for instance a module; empty: the same as before.

        The first observation; `done` is set if there is nothing to decide. Raises Busy
        if another driver is in the middle of an episode, and what the environment fails with.
        """
        try:
            number = operator.index(seed)
        except TypeError:
            raise TypeError(f"the seed is {seed!r}, expected an integer") from None
        if not 0 <= number < 2**64:
            raise InvalidArgument(f"the seed is {number}, expected 0 to 2**64 - 1")
        return self._reset(unit, number)

    def step(self, action: Any) -> Transition:
        """Apply an action: a mapping of all outputs of the signature, or the only one's value."""
        return Transition(*self._step(action))

    def __repr__(self) -> str:
        return f"<mlbridge.Driver {self.uri}{' (closed)' if self.closed else ''}>"


def drive(
    uri: str, *, deadline: float | str | timedelta | None = None, agent: str = "", episode: str = ""
) -> Driver:
    """Connect to an environment; `?wait=10s` waits for one that is starting.

    `deadline` bounds connecting, each reset and each step: 60 seconds unless given. Raises
    Mismatch where a model is served.
    """
    return Driver(uri, deadline, agent, episode)


class Turn(NamedTuple):
    """The agent that acts next, if there are several, and its observation."""

    agent: str
    observation: Mapping[str, Any]


_Seen = TypeVar("_Seen")
_Given = TypeVar("_Given")
#: The observation, the reward, whether the episode is done, and whether a limit was reached.
Step = tuple[_Seen | None, _Given, bool] | tuple[_Seen | None, _Given, bool, bool]


class Environment(Protocol):
    """An environment for serve_environment: a simulator, or a recording in place of a compiler."""

    def reset(self, unit: str, seed: int) -> Mapping[str, Any]:
        """Begin an episode and give its first observation."""

    def step(self, action: Mapping[str, Any]) -> Step[Mapping[str, Any], float]:
        """Apply the action: the next observation, the reward, and whether done.

        Once done: the last observation, or None. An optional fourth value says that a limit ends
        the episode (truncation); done is then False.
        """


class AgentsEnvironment(Protocol):
    """An environment with several agents. Rewards are those of this step, by agent."""

    def reset(self, unit: str, seed: int) -> Turn:
        """Begin an episode: who acts first, and what it observes."""

    def step(
        self, agent: str, action: Mapping[str, Any]
    ) -> Step[Turn | Sequence[Turn], Mapping[str, float]]:
        """Apply the agent's action: who acts next, the rewards, and whether done.

        Once done: None, or what one agent, or each of several, sees at the end. A fourth value as
        above.
        """


class _Served:
    """An environment between its events: who acts, and each agent's rewards since it last acted."""

    def __init__(self, environment: Any, agents: Iterable[str] | None) -> None:
        self._environment = environment
        self._agents = agents
        self._rewards: dict[str, float] = {}
        self._acting = ""

    def answer(self, event: Event) -> None:
        agent, rewards, done, limit = event.context.agent, None, False, []
        if event.kind is EventKind.RESET:
            self._rewards = dict.fromkeys(self._agents or (), 0.0)
            seen = self._environment.reset(event.context.unit, event.seed)
        elif self._agents is None:
            seen, rewards, done, *limit = self._environment.step(event.inputs)
        else:
            if agent != self._acting:
                raise ValueError(f"it is the turn of agent {self._acting!r}, not of {agent!r}")
            self._rewards[agent] = 0.0
            seen, rewards, done, *limit = self._environment.step(agent, event.inputs)
            for name, reward in rewards.items():
                self._rewards[name] = self._rewards.get(name, 0.0) + reward
        truncated = not done and any(limit)
        if self._agents is None:
            event.reply(seen, reward=rewards or 0.0, done=done or truncated, truncated=truncated)
        elif done or truncated or not isinstance(seen, Turn):
            for name, last in [seen] if isinstance(seen, Turn) else seen or ():
                event.send_last(last, name)
            event.reply(None, rewards=self._rewards, done=True, truncated=truncated)
        else:
            self._acting = seen.agent
            event.reply(seen.observation, agent=seen.agent, rewards=self._rewards)


def serve_environment(
    environment: Environment | AgentsEnvironment,
    uri: str,
    signature: Signature | Mapping[str, Signature],
    metadata: Mapping[str, str] | None = None,
    *,
    ready: Callable[[Server], None] | None = None,
    keep_serving: bool = False,
    **limits: int,
) -> Statistics:
    """Let `environment` be driven at `uri` until the driver leaves, or Ctrl-C.

    The inputs of `signature` are the observation, its outputs the action; a mapping has those of
    each agent by name, and then `environment` is an AgentsEnvironment. One driver at a time. An
    environment that raises fails that episode: the driver gets the text, the traceback goes to the
    logger "mlbridge". With `keep_serving` the next driver is waited for.
    """
    served = _Served(environment, signature if isinstance(signature, Mapping) else None)
    with (
        Server(uri, signature, metadata, environment=True, stateless=False, **limits) as server,
        contextlib.suppress(KeyboardInterrupt, Cancelled),
    ):
        if ready is not None:
            ready(server)
        while (event := server.next()) is not None:
            if event.kind is EventKind.EPISODE_END and not keep_serving:
                break
            if event.kind not in (EventKind.RESET, EventKind.STEP):
                continue
            try:
                served.answer(event)
            except Closed:
                _log.debug("the driver left before it was answered")
            except Exception as error:
                _log.exception("the environment raised")
                with contextlib.suppress(Closed):
                    event.fail(f"{type(error).__name__}: {error}")
    return server.statistics
