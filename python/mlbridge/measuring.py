# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Processes that are timed and cannot outlive their deadline, and ratios with their intervals."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import re
import select
import selectors
import signal
import subprocess
import threading
import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import mean, stdev
from typing import Any

from .errors import Cancelled, DeadlineExceeded, NotFound

#: Of what a process writes, so many bytes of its beginning and of its end are kept.
KEPT = 1 << 16
_PIPE = 1 << 20  # what a pipe holds at most
_GRACE, _AWAKE = 5.0, 0.5  # seconds
CONFIDENCE = 0.95


class Output:
    """What a process wrote, of any length: equal if all bytes are."""

    def __init__(self) -> None:
        self.size = 0
        self.head = self.tail = b""
        self._hash = hashlib.blake2b()

    def add(self, data: bytes) -> None:
        """More bytes."""
        self.size += len(data)
        self._hash.update(data)
        self.head += data[: max(0, KEPT - len(self.head))]
        self.tail = (self.tail + data)[-KEPT:]

    @property
    def text(self) -> str:
        """The end, as text."""
        return self.tail.decode(errors="replace")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Output) and self._hash.digest() == other._hash.digest()

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Ran:
    """A finished process: exit code (negative: the signal), what it wrote, wall seconds."""

    code: int
    stdout: Output
    stderr: Output
    seconds: float

    @property
    def reason(self) -> str:
        """The line that says why it failed."""
        said = [
            line.strip()
            for output in (self.stdout, self.stderr)
            for line in output.text.splitlines()
            if line.strip()
        ]
        found = (line for line in said if re.search("error:|not found|undefined reference", line))
        return next(found, said[-1] if said else "it said nothing")


def run(
    command: str | Sequence[str],
    cwd: str | os.PathLike[str] | None = None,
    *,
    env: Mapping[str, str] | None = None,
    timeout: float,
) -> Ran:
    """Run a command, a text by the shell, with empty input; what it leaves running is killed.

    Raises DeadlineExceeded after `timeout` seconds, and NotFound if it can't be started.
    """
    # In a thread, as Ctrl-C may come between the start of a process and the next line. Waiting on
    # a descriptor leaves no lock behind when it is interrupted.
    stop, done = os.eventfd(0), os.eventfd(0)
    outcome: list[Ran | BaseException] = []

    def work() -> None:
        try:
            outcome.append(_run(command, cwd, env, timeout, stop))
        except BaseException as error:
            outcome.append(error)
        os.eventfd_write(done, 1)

    try:
        threading.Thread(target=work).start()
        # Awake now and then, as a signal that comes just before this waits does not end it.
        while not select.select([done], [], [], _AWAKE)[0]:
            pass
    finally:
        os.eventfd_write(stop, 1)
        if select.select([done], [], [], _GRACE)[0]:
            os.close(stop)
            os.close(done)
    (result,) = outcome
    if isinstance(result, BaseException):
        raise result
    return result


def _run(
    command: str | Sequence[str],
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
    timeout: float,
    stop: int,
) -> Ran:
    shown = command if isinstance(command, str) else " ".join(command)
    start = time.perf_counter()
    try:
        process = subprocess.Popen(
            command,
            shell=isinstance(command, str),
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise NotFound(f"`{shown}` can't be started: {why}") from None
    output, errors = Output(), Output()
    written = {process.stdout: output, process.stderr: errors}
    try:
        ended = os.pidfd_open(process.pid)
        try:
            with selectors.DefaultSelector() as waiting:
                waiting.register(ended, selectors.EVENT_READ)
                waiting.register(stop, selectors.EVENT_READ)
                for pipe in written:
                    os.set_blocking(pipe.fileno(), False)  # type: ignore[union-attr]
                    waiting.register(pipe, selectors.EVENT_READ)  # type: ignore[arg-type]
                running = True
                while running:
                    left = start + timeout - time.perf_counter()
                    if left <= 0:
                        raise DeadlineExceeded(f"`{shown}` did not end within {timeout:g} s")
                    for key, _ in waiting.select(left):
                        if key.fileobj == stop:
                            raise Cancelled(f"`{shown}` was interrupted")
                        if key.fileobj == ended:
                            running = False
                        elif _read(key.fileobj, written) == b"":
                            waiting.unregister(key.fileobj)
                seconds = time.perf_counter() - start
                for pipe in written:
                    # No more than fits: what was left running may write without end.
                    for _ in range(_PIPE // KEPT):
                        if not _read(pipe, written):
                            break
        finally:
            os.close(ended)
    finally:
        # Not yet waited for, so its group's number is nobody else's.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in written:
            pipe.close()  # type: ignore[union-attr]
    return Ran(process.returncode, output, errors, seconds)


def _read(pipe: Any, written: Mapping[Any, Output]) -> bytes | None:
    """What there is: b"" at the end, None if nothing for now."""
    data: bytes | None = pipe.read(KEPT)
    written[pipe].add(data or b"")
    return data


def student(freedom: int, confidence: float = CONFIDENCE) -> float:
    """The two-sided quantile of Student's t distribution with these degrees of freedom."""
    # With t = sqrt(freedom) tan(angle) the density is a power of the cosine.
    steps = 1 << 14
    step = math.pi / 2 / steps
    shares = list(accumulate(math.cos((i + 0.5) * step) ** (freedom - 1) for i in range(steps)))
    wanted = confidence * shares[-1]
    index = bisect_left(shares, wanted)
    below = shares[index - 1] if index else 0.0
    part = (wanted - below) / (shares[index] - below)
    return math.sqrt(freedom) * math.tan((index + part) * step)


@dataclass(frozen=True)
class Ratio:
    """A geometric mean of ratios and its 95 % confidence interval, by Student's t of their logs.

    The interval of fewer than two ratios is (0, inf): nothing is known.
    """

    mean: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, ratios: Iterable[float]) -> Ratio | None:
        """Of positive numbers; None of none."""
        logs = [math.log(ratio) for ratio in ratios]
        if not logs:
            return None
        middle, half = mean(logs), math.inf
        if len(logs) > 1:
            half = student(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
        return cls(math.exp(middle), math.exp(middle - half), math.exp(middle + half), len(logs))

    def as_json(self) -> dict[str, float | None]:
        """An unknown interval is null."""
        known = self.count > 1
        low, high = (self.low, self.high) if known else (None, None)
        return {"mean": self.mean, "low": low, "high": high, "count": self.count}

    def __str__(self) -> str:
        interval = f" [{self.low:.3f}, {self.high:.3f}]" if self.count > 1 else ""
        return f"{self.mean:.3f}{interval}"
