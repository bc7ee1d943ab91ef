# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A process that outlives a host of LLVM's channel, and ends the compilers that wait for it.

Starts neither NumPy nor the extension.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable

from ..processes import Process
from .pair import ChannelPair, File, uses

#: The signals that a user or a build system ends a command with.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
#: Seconds that a host or compiler may take to end once it should.
ENDING = 2.0


class Guardian:
    """A process that outlives this one, to end the compilers that it leaves and their channels.

    Without a host a compiler would wait for ever. (The kernel's own signal at a parent's death does
    not reach the compilers that a driver starts.)
    """

    def __init__(self, bases: list[str], folder: str | None = None) -> None:
        """Fork, before there is any thread. `folder` is removed with what is in it."""
        read, self._write = os.pipe()
        if os.fork() == 0:
            try:
                self._watch(read, bases, folder)
            finally:
                os._exit(0)
        os.close(read)

    def _watch(self, read: int, bases: list[str], folder: str | None) -> None:
        os.setsid()
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        # A build's pipes must not stay open, for whose end others wait.
        os.dup2(read, 0)
        os.closerange(1, 1 << 16)
        lines = b""
        while data := os.read(0, 100):
            lines += data
            if lines.endswith(b"done\n"):
                return
        end_processes(lines)
        for base in bases:
            _close(base)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def group(self, leader: Process) -> None:
        """Guard this process group, too."""
        os.write(self._write, line_for("group", leader))

    def compiler(self, process: Process, channel: tuple[File, File]) -> None:
        """Guard this process, too, as long as it has the channel open."""
        with contextlib.suppress(OSError):
            os.write(self._write, line_for("process", process, *channel[0], *channel[1]))

    def done(self) -> None:
        """End the guardian: all is well."""
        with contextlib.suppress(OSError):
            os.write(self._write, b"done\n")
        os.close(self._write)


def line_for(kind: str, process: Process, *more: int) -> bytes:
    """The line that end_processes() understands."""
    return " ".join(map(str, (kind, *process, *more))).encode() + b"\n"


def end_processes(lines: bytes) -> None:
    """End these groups and processes, a line each. They may first remove what they have written."""
    ends: list[Callable[[int], bool]] = []
    for line in lines.splitlines():
        with contextlib.suppress(ValueError):  # a policy has the pipe open, too
            kind, *numbers = line.split()
            number, began, *channel = map(int, numbers)
            process = Process(number, began)
            if kind == b"group":
                ends.append(process.signal_group)
            elif uses(process, *zip(channel[::2], channel[1::2], strict=True)):
                ends.append(process.signal)

    def send(number: int) -> bool:
        return sum(end(number) for end in ends) > 0

    send(signal.SIGTERM)
    until = time.monotonic() + ENDING
    while send(0) and time.monotonic() < until:
        time.sleep(0.01)
    send(signal.SIGKILL)


def _close(base: str) -> None:
    """Remove the channel of a process that is being killed, unless it has another host."""
    until = time.monotonic() + ENDING
    while time.monotonic() < until:
        with contextlib.suppress(Exception):  # it still has its lock
            ChannelPair(base).close()
            return
        time.sleep(0.01)
