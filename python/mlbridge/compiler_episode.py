# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A compiler that asks agents, as an environment that a trainer drives: an episode is a compile."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ._core import Event, EventKind, Signature
from .driving import Turn
from .errors import DeadlineExceeded, InvalidArgument, PolicyFailed
from .processes import ended_with_this
from .server import Server

#: Gives the command for a unit, the URI to ask, and an empty folder to work in.
Command = Callable[[str, str, Path], Sequence[str]]
#: Gives the reward of all agents from the unit and that folder, after the compiler.
Measure = Callable[[str, Path], float]
_TURN = 0.05  # seconds between two looks at a compiler that doesn't ask
OUTPUT = "output"


class CompilerEpisode:
    """An environment for serve_environment, each reset of which compiles its unit.

        serve_environment(CompilerEpisode(command, AGENTS, measure), uri, AGENTS, keep_serving=True)

    Agents get the rewards that the compiler itself sends, and at the end that of `measure` for
    the finished compile. A compiler that fails, or doesn't ask or end within `deadline` seconds of
    its last answer, fails the episode and is ended; `measure` has no deadline of its own. One
    thread at a time.
    """

    def __init__(
        self,
        command: Command,
        agents: Mapping[str, Signature],
        measure: Measure | None = None,
        *,
        deadline: float = 60.0,
    ) -> None:
        """Starts nothing. The compiler must be told to fail, not to go on, if an agent fails."""
        self._command, self._agents, self._measure = command, agents, measure
        self._deadline = deadline
        self._process: subprocess.Popen[bytes] | None = None
        self._server: Server | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._event: Event | None = None
        self._rewards: defaultdict[str, float] = defaultdict(float)

    def reset(self, unit: str, seed: int) -> Turn:
        """Start a compiler, until it asks; InvalidArgument if it asks nothing."""
        self.close()
        self._unit = unit
        self._folder = tempfile.TemporaryDirectory(prefix="mlbridge-compiling-")
        folder = Path(self._folder.name)
        uri = f"unix:{folder}/agents.sock"
        work = folder / "work"
        work.mkdir()
        try:
            self._server = Server(uri, self._agents)
            with (folder / OUTPUT).open("wb") as output:
                self._process = subprocess.Popen(
                    ended_with_this(self._command(unit, uri, work)),
                    cwd=work, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                )  # fmt: skip
            self._rewards.clear()
            turn = self._next_turn()
            if turn is None:
                raise InvalidArgument(f"'{unit}': the compiler has asked nothing")
            return turn
        except BaseException:
            self.close()
            raise

    def step(self, agent: str, action: Mapping[str, Any]) -> tuple[Any, dict[str, float], bool]:
        """Answer the compiler, and wait for its next question or its end."""
        if self._event is None or self._process is None:
            raise PolicyFailed("no compiler is waiting for an answer")
        try:
            self._rewards.clear()
            event, self._event = self._event, None
            event.reply(action)
            turn = self._next_turn()
            if turn is None and self._measure is not None:
                assert self._folder is not None
                reward = self._measure(self._unit, Path(self._folder.name) / "work")
                for name in self._agents:
                    self._rewards[name] += reward
        except BaseException:
            self.close()
            raise
        if turn is None:
            self.close()
        return turn, dict(self._rewards), turn is None

    def _next_turn(self) -> Turn | None:
        """The next question; None if the compiler has succeeded."""
        assert self._server is not None and self._process is not None
        end = time.monotonic() + self._deadline
        while True:
            ended = self._process.poll() is not None
            event = self._server.next(0.0 if ended else _TURN)
            if event is None and ended:
                if self._process.returncode:
                    raise PolicyFailed(
                        f"the compiler ended with {self._process.returncode}{self._last_line()}"
                    )
                return None
            if event is not None and event.kind is EventKind.REWARD:
                self._rewards[event.context.agent] += event.reward
            elif event is not None and event.kind is EventKind.REQUEST and not ended:
                self._event = event
                return Turn(event.context.agent, event.inputs)
            if time.monotonic() > end:
                raise DeadlineExceeded(f"the compiler did nothing for {self._deadline:g} s")

    def _last_line(self) -> str:
        assert self._folder is not None
        text = (Path(self._folder.name) / OUTPUT).read_bytes()[-4000:].decode(errors="replace")
        return f": {text.splitlines()[-1][:500]}" if text.strip() else ""

    def close(self) -> None:
        """End the compiler. May be called twice."""
        self._event = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def __enter__(self) -> Self:
        """The environment, closed at the end of `with`."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Ends the compiler."""
        self.close()
