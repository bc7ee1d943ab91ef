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
from .pair import ChannelPair, File, open_channel, uses

#: The signals that a user or a build system ends a command with.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
#: Seconds that a host or compiler may take to end once it should.
ENDING = 2.0


class Guardian:
    """A process that outlives this one, to end the compilers that it leaves and their channels.

    Without a host a compiler would wait for ever. (The kernel's own signal at a parent's death does
    not reach the compilers that a driver starts.) Once the host is gone nothing else may end them:
    a compiler removes what it has half written at its first signal, and a second one kills it while
    it does. Any thread may call hold(), process() and compiler(), which don't wait.
    """

    def __init__(self, bases: list[str], folder: str | None = None) -> None:
        """Fork, before there is any thread. `folder` is removed with what is in it."""
        read, self._write = os.pipe()
        self._process = os.fork()
        if self._process == 0:
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
        told: list[bytes] = []
        held: list[int] = []
        with open(0, "rb") as lines:
            for line in lines:
                if line == b"done\n":
                    return
                if line == b"end\n":
                    break
                if line == b"hold\n":
                    held += [opened for base in bases for opened in open_channel(base)]
                else:
                    told.append(line)
        _end_processes(told)
        for opened in held:
            os.close(opened)
        for base in bases:
            _close(base)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def hold(self) -> None:
        """Keep the channels, which are there now, open until the compilers have ended: at the end
        of BASE.in they would spin, or crash before they have removed their temporary files."""
        self._tell(b"hold\n")

    def process(self, process: Process, *, group: bool) -> None:
        """Guard this process, too, and if it leads a group all of that."""
        self._tell(_line("group" if group else "process", process))

    def compiler(self, process: Process, channel: tuple[File, File]) -> None:
        """Guard this process, too, as long as it has the channel open."""
        self._tell(_line("process", process, *channel[0], *channel[1]))

    def done(self) -> None:
        """End the guardian, and wait for that: all is well."""
        self._finish(b"done\n")

    def end(self) -> None:
        """End the compilers and their channels now, and wait for that: ENDING for each channel, and
        once for all compilers, at most."""
        self._finish(b"end\n")

    def _tell(self, line: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(self._write, line)

    def _finish(self, line: bytes) -> None:
        self._tell(line)
        os.close(self._write)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._process, 0)


def _line(kind: str, process: Process, *more: int) -> bytes:
    """The line that _end_processes() understands."""
    return " ".join(map(str, (kind, *process, *more))).encode() + b"\n"


def _end_processes(lines: list[bytes]) -> None:
    """End these groups and processes, a line each."""
    groups: list[Process] = []
    processes: list[Process] = []
    for line in lines:
        with contextlib.suppress(ValueError):  # a policy has the pipe open, too
            kind, *numbers = line.split()
            number, began, *channel = map(int, numbers)
            process = Process(number, began)
            if kind == b"group":
                groups.append(process)
            elif not channel or uses(process, *zip(channel[::2], channel[1::2], strict=True)):
                processes.append(process)
    leaders = {leader.number for leader in groups}
    terminate(
        *(leader.signal_group for leader in groups),
        *(one.signal for one in processes if one.group not in leaders),
    )


def terminate(*signals: Callable[[int], bool]) -> None:
    """End processes by SIGTERM, at which they may remove what they have written, and by SIGKILL if
    they are there after ENDING. Waits for them.

    A function sends its processes a signal, and gives False if there is none of them any more.
    """

    def send(number: int) -> bool:
        return sum(signal(number) for signal in signals) > 0

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
