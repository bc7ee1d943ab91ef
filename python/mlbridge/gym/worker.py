# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A driven compiler in a process of its own, so that its faults affect no other."""

from __future__ import annotations

import contextlib
import os
import random
import re
import subprocess
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from ..driving import Driver, drive
from ..errors import Busy, Closed, DeadlineExceeded, Error, ProtocolError, Unavailable

#: Errors that a worker's fault leads to; all others are the episode's.
FAULTS = (Busy, Closed, DeadlineExceeded, ProtocolError, Unavailable)
#: Starts a compiler, which listens at the given address; its process.
Start = Callable[[str], "subprocess.Popen[Any]"]
#: A line of a compiler that says why it ended.
_TELLING = re.compile(r"\berror\b|assertion|terminate called|out of memory", re.IGNORECASE)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0


def pause(attempt: int) -> float:
    """Seconds before retry `attempt`, from 1: exponential back-off with full jitter and a cap."""
    return random.uniform(0, min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(attempt, 20)))


def error_line(process: subprocess.Popen[Any] | None) -> str:
    """The line of standard error, if that is a file, in which an ended process says why it ended;
    ": LINE" or ""."""
    stream = None if process is None else process.stderr
    if stream is None or not stream.seekable():
        return ""
    stream.seek(max(0, stream.seek(0, os.SEEK_END) - 4000))
    text = stream.read()
    lines = (text if isinstance(text, str) else text.decode(errors="replace")).splitlines()
    # A compiler that crashes writes a trace after it, whose end says nothing.
    telling = [line for line in lines if _TELLING.search(line)] or lines[-1:]
    return f": {telling[0].strip()[:500]}" if telling else ""


class Worker:
    """One environment, its process if `start` made it, and the connection to it."""

    def __init__(
        self,
        address: str,
        start: Start | None,
        deadline: float | str | timedelta | None,
        wait: float,
    ) -> None:
        """`wait`: seconds for a process to start."""
        self.address = address
        self._start, self._deadline, self._wait = start, deadline, wait
        self.process: subprocess.Popen[Any] | None = None
        self._driver: Driver | None = None

    def driver(self) -> Driver:
        """The connection; the process is started if need be."""
        if self._driver is None:
            has_ended = self.process is None or self.process.poll() is not None
            if self._start is not None and has_ended:
                self.process = self._start(self.address)
            self._driver = self._connected()
        return self._driver

    def _connected(self) -> Driver:
        """Connects to a process that is starting, but doesn't wait for one that has ended."""
        if "wait=" in self.address:
            return drive(self.address, deadline=self._deadline)
        end = time.monotonic() + self._wait
        joint = "&" if "?" in self.address else "?"
        while True:
            left = max(0.0, min(end - time.monotonic(), 1e9))
            turn = left if self.process is None else min(left, 0.5)
            try:
                return drive(f"{self.address}{joint}wait={turn:.3f}s", deadline=self._deadline)
            except Unavailable as error:
                code = None if self.process is None else self.process.poll()
                if code is not None:
                    raise Unavailable(
                        f"{self.address}: its process ended with {code} before it listened"
                        f"{error_line(self.process)}"
                    ) from error
                if turn >= left:
                    raise

    def last_words(self) -> str:
        """`error_line` of a process that has failed; one that goes on is waited for, not long."""
        if self.process is None:
            return ""
        try:
            self.process.wait(1.0)
        except subprocess.TimeoutExpired:
            return ""
        return error_line(self.process)

    def drop(self) -> None:
        """Ends connection and process; the next call of `driver` makes new ones."""
        if self._driver is not None:
            with contextlib.suppress(Error):
                self._driver.close()
            self._driver = None
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
                if stream is not None:
                    stream.close()
            self.process = None
