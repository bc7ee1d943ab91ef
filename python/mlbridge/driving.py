# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The direction for training: an environment waits, in a compiler or in Python, and is driven."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ._core import EventKind, Signature, Statistics, _Driver
from .errors import Cancelled, Closed
from .server import Server

if TYPE_CHECKING:
    from numpy.typing import NDArray

_log = logging.getLogger("mlbridge")


class Transition(NamedTuple):
    """What a step led to. The observation is empty once the episode is done."""

    observation: dict[str, NDArray[Any]]
    reward: float
    done: bool


class Driver(_Driver):
    """Resets and steps an environment that a compiler serves. One thread at a time.

        with mlbridge.drive("unix:/tmp/opt.sock?wait=10s") as driver:
            observation = driver.reset("module.ll", seed=1)
            while not driver.done:
                observation, reward, done = driver.step(choose(observation))

    After an error the episode is over, and the environment may or may not have applied the action;
    the next reset begins anew, on a new connection if the old one broke. Arrays are the caller's.
    """

    def reset(self, context: str = "", *, seed: int = 0) -> dict[str, NDArray[Any]]:
        """Begin an episode of `context`, a module for instance; empty: the same again.

        The first observation; nothing, and `done` set, if there is nothing to decide. Raises Busy
        if another driver is in the middle of an episode, and what the environment fails with.
        """
        return self._reset(context, seed)

    def step(self, action: Any) -> Transition:
        """Apply an action: a mapping of all outputs of the signature, or the only one's value."""
        return Transition(*self._step(action))

    def __enter__(self) -> Driver:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<mlbridge.Driver {self.uri}{' (closed)' if self.closed else ''}>"


def drive(
    uri: str,
    *,
    deadline: float | str | timedelta | None = None,
    agent: str = "",
    episode: str = "",
) -> Driver:
    """Connect to an environment; `?wait=10s` waits for one that is starting.

    `deadline` bounds connecting, each reset and each step: 60 seconds unless given. Raises
    Mismatch where a model is served.
    """
    return Driver(uri, deadline, agent, episode)


class Environment(Protocol):
    """What serve_environment serves: a stand-in for a compiler, a simulator, a recorded one."""

    def reset(self, context: str, seed: int) -> Mapping[str, Any]:
        """Begin an episode and give its first observation."""

    def step(self, action: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, float, bool]:
        """Apply the action: the next observation (None if done), the reward, and whether done."""


def serve_environment(
    environment: Environment,
    uri: str,
    signature: Signature,
    metadata: Mapping[str, str] | None = None,
    *,
    ready: Callable[[Server], None] | None = None,
    keep_serving: bool = False,
    **limits: int,
) -> Statistics:
    """Let `environment` be driven at `uri` until the driver leaves, or Ctrl-C.

    The inputs of `signature` are the observation, its outputs the action. One driver at a time. An
    environment that raises fails that episode: the driver gets the text, the traceback goes to the
    logger "mlbridge". With `keep_serving` the next driver is waited for.
    """
    with (
        Server(uri, signature, metadata, environment=True, **limits) as server,
        contextlib.suppress(KeyboardInterrupt, Cancelled),
    ):
        if ready is not None:
            ready(server)
        while (event := server.next()) is not None:
            if event.kind is EventKind.EPISODE_END and not keep_serving:
                break
            if event.kind not in (EventKind.RESET, EventKind.STEP):
                continue
            observation: Mapping[str, Any] | None
            reward, done = 0.0, False
            try:
                if event.kind is EventKind.RESET:
                    observation = environment.reset(event.context.context, event.seed)
                else:
                    observation, reward, done = environment.step(event.inputs)
                event.reply(observation, reward=reward, done=done)
            except Closed:
                _log.debug("the driver left before it was answered")
            except Exception as error:
                _log.exception("the environment raised")
                with contextlib.suppress(Closed):
                    event.fail(f"{type(error).__name__}: {error}")
    return server.statistics
