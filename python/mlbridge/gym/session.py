# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A compiler that is driven, and restarted when it fails; all kinds of environments use it."""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core import Signature
from ..driving import Driver
from ..errors import Cancelled, Error, InvalidArgument, Mismatch, Unsupported
from .worker import FAULTS, Start, Worker, pause

_log = logging.getLogger("mlbridge")

SINGLE = "agent"  # the name of an agent that needs none


class OtherSignature(Mismatch):
    """The compiler that was started is not what the spaces were made for."""


class CompilerBroken(Unsupported):
    """The compiler doesn't work, whatever the module."""


class WrongRenderMode(InvalidArgument, TypeError):
    """A TypeError too, since at one Stable-Baselines3's make_vec_env tries without a mode."""


def checked_render_mode(mode: str | None) -> str | None:
    """The mode, which is None or "ansi"; WrongRenderMode for any other."""
    if mode not in (None, "ansi"):
        raise WrongRenderMode(f"render_mode is {mode!r}; there is only 'ansi'")
    return mode


def unless_said(words: str, fault: Error) -> str:
    """The words of a compiler, unless the fault has them already."""
    return "" if words in str(fault) else words


class Session:
    """Episodes of one compiler. One thread at a time.

    Without `uri` the compiler that `start` starts listens in a folder of this session. `prepare`
    turns a unit into the one that the compiler is told.
    """

    def __init__(
        self,
        uri: str,
        start: Start | None,
        units: Sequence[str],
        *,
        deadline: float | str | timedelta | None,
        wait: float,
        retries: int,
        prepare: Callable[[str], str] = str,
    ) -> None:
        if not units:
            raise InvalidArgument("no unit to reset to")
        if retries < 0:
            raise InvalidArgument(f"retries is {retries}, expected 0 or more")
        self.units = list(units)
        self.unit, self.seed = "", 0
        self.actions: list[Any] = []  #: of the episode, as JSON can hold them
        self.rewards: list[float] = []
        self._uri, self._retries, self._prepare = uri, retries, prepare
        self._worker = Worker(uri, start, deadline, wait)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._bad: dict[str, str] = {}
        self._is_open = False  # the compiler has the episode of `actions`
        self._closed = False

    @property
    def process(self) -> subprocess.Popen[Any] | None:
        """The compiler that was started last."""
        return self._worker.process

    def driver(self) -> Driver:
        """The connection to the compiler, which is started if need be."""
        if not self._worker.address:
            self._folder = tempfile.TemporaryDirectory(prefix="mlbridge-gym-")
            self._worker.address = f"unix:{self._folder.name}/environment"
        return self._worker.driver()

    def begin(
        self,
        random: np.random.Generator,
        options: Mapping[str, Any] | None,
        expected: Mapping[str, Signature],
        begun: Callable[[Mapping[str, NDArray[Any]]], None] = lambda first: None,
    ) -> tuple[Driver, dict[str, NDArray[Any]]]:
        """Reset to the unit in `options`, or to one that is drawn; `begun` is called last.

        A unit that was drawn and has nothing to decide, or cannot be read, or for which
        `begun` raises, is left out from then on.
        """
        options = options or {}
        wanted = options.get("unit")
        self._closed = False
        while True:
            left = [unit for unit in self.units if unit not in self._bad]
            drawn = left[int(random.integers(len(left)))]
            self.seed = int(options.get("seed", random.integers(2**63)))
            self.actions, self.rewards, self._is_open = [], [], False
            try:
                self.unit = self._prepare(str(drawn if wanted is None else wanted))
                driver, observation = self._reset(expected)
                if not driver.done:
                    begun(observation)
                    self._is_open = True
                    return driver, observation
                raise InvalidArgument(f"'{self.unit}': there is nothing to decide")
            except Error as error:
                always = (*FAULTS, OtherSignature, CompilerBroken, Cancelled)
                if isinstance(error, always) or wanted is not None or len(left) == 1:
                    raise
                self._bad[drawn] = str(error)
                _log.warning("left out from now on: %s: %s", drawn, error)

    def _reset(self, expected: Mapping[str, Signature]) -> tuple[Driver, dict[str, NDArray[Any]]]:
        other_target = False
        for attempt in range(self._retries + 1):
            if self._closed:
                raise Cancelled("the environment was closed")
            try:
                driver = self.driver()
                if signatures(driver) != expected:
                    raise OtherSignature(
                        f"{driver.uri} serves {signatures(driver)}, expected {expected}"
                    )
                return driver, driver.reset(self.unit, seed=self.seed)
            except OtherSignature:
                raise
            except Mismatch:  # for the target of another module: start a compiler for this one
                self._drop()
                if other_target or self._uri or attempt == self._retries:
                    raise
                other_target = True
            except FAULTS as fault:
                words = unless_said(self._worker.last_words(), fault)
                self._drop()
                if attempt == self._retries:
                    raise type(fault)(f"{fault}{words}") from fault
                _log.warning("environment at %s, reset: %s%s", self._worker.address, fault, words)
                time.sleep(pause(attempt + 1))
        raise AssertionError("unreachable")

    def resume(self, step: int) -> Mapping[str, Any] | None:
        """The observation after so many steps of the episode, if the compiler kept that state."""
        try:
            driver = self._worker.driver() if self._is_open else None
            if driver is None or "mlbridge.fork" not in driver.metadata:
                return None
            observation = driver.reset(f"fork:{step}", seed=self.seed)
        except FAULTS:
            self._drop()
            return None
        del self.actions[step:], self.rewards[step:]
        return observation

    def step(self, value: Any, action: Any) -> tuple[Driver | None, Mapping[str, Any], str]:
        """Take an action; returns the driver, the observation, and why the episode broke off."""
        self.actions.append(plain(action))
        self.rewards.append(0.0)
        try:
            driver = self._worker.driver()
            observation, self.rewards[-1], _ = driver.step(value)
            return driver, observation, ""
        except Error as fault:
            why = str(fault) or type(fault).__name__
            if isinstance(fault, FAULTS):
                why += unless_said(self._worker.last_words(), fault)
                self._drop()
            _log.warning("environment at %s: %s", self._worker.address, why)
            return None, {}, why

    def _drop(self) -> None:
        self._is_open = False
        self._worker.drop()

    @contextlib.contextmanager
    def closed_on_error(self) -> Iterator[None]:
        """A constructor's work: if it raises, the compiler that it started ends."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the compiler. May be called twice, and while another thread waits for it."""
        self._closed = True
        self._drop()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
            self._worker.address = self._uri

    def shown(self, name_of: Callable[[Any], str]) -> str:
        """The episode so far, a line for each step."""
        lines = [f"{self.unit or 'module'}, seed {self.seed}"]
        for step, (action, reward) in enumerate(zip(self.actions, self.rewards, strict=True)):
            lines.append(f"{step:4}  {name_of(action):32}  {reward:+.6f}")
        return "\n".join(lines)

    def state(self) -> str:
        """The episode as JSON."""
        saved = {"unit": self.unit, "seed": self.seed, "actions": self.actions}
        return json.dumps({"version": 1, **saved})


def signatures(driver: Driver) -> dict[str, Signature]:
    """The signature of each agent; a single agent is called SINGLE."""
    return driver.agents or {SINGLE: driver.signature}


def read_state(state: str) -> tuple[dict[str, Any], list[Any]]:
    """The options of a reset, and the actions, that a saved state holds."""
    try:
        saved = json.loads(state)
        if saved["version"] != 1:
            raise ValueError(f"version {saved['version']}, not 1")
        return {"unit": saved["unit"], "seed": int(saved["seed"])}, list(saved["actions"])
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgument(f"not a saved state: {error!r}") from None


def plain(action: Any) -> Any:
    """An action as JSON can hold it."""
    if isinstance(action, Mapping):
        return {name: plain(value) for name, value in action.items()}
    return np.asarray(action).tolist()
