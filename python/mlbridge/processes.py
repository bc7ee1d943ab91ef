# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Processes that end with the one that started them, and processes that are known for certain."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from typing import NamedTuple

_PR_SET_PDEATHSIG = 1
_PF_EXITING, _PF_KTHREAD = 1 << 2, 1 << 21  # of Linux's task_struct
_SETPRIV = ("setpriv", "--pdeathsig", "KILL", "--")


def bound_to_this() -> Callable[[signal.Signals], bool]:
    """A function for a process that this one forks: from the call on it gets a signal when this one
    ends, on Linux. The function gives False if this one has ended already."""
    parent = os.getpid()
    prctl = getattr(ctypes.CDLL(None), "prctl", None)

    def bind(number: signal.Signals) -> bool:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        return os.getppid() == parent

    return bind


def ended_with_this(command: Sequence[str]) -> list[str]:
    """A command whose process is killed when this one ends, by util-linux's setpriv; the command as
    it is if there is no setpriv.

    Unlike bound_to_this() it runs nothing between fork and exec, where the handlers that libraries
    such as gRPC's have for a fork may abort.
    """
    return [*_SETPRIV, *command] if _has_setpriv() else list(command)


@functools.cache
def _has_setpriv() -> bool:
    try:
        return subprocess.run([*_SETPRIV, "true"], capture_output=True).returncode == 0
    except OSError:
        return False


class Process(NamedTuple):
    """A process, told from later ones that get its number."""

    number: int
    #: The time at which it began, in clock ticks of the system.
    began: int

    @classmethod
    def of(cls, number: int) -> Process | None:
        """The one that has this number now."""
        try:
            with open(f"/proc/{number}/stat", "rb") as file:
                # The name, in parentheses, may have any characters.
                return cls(number, int(file.read().rpartition(b")")[2].split()[19]))
        except (OSError, IndexError, ValueError):
            return None

    @property
    def name(self) -> str:
        """The name that people know; empty if the process has ended."""
        try:
            with open(f"/proc/{self.number}/comm", errors="replace") as file:
                return file.read().strip()
        except OSError:
            return ""

    @property
    def is_ending(self) -> bool:
        """Whether it has ended, is about to, or has been sent SIGKILL."""
        if self._flags & _PF_EXITING:
            return True
        try:
            with open(f"/proc/{self.number}/status") as file:
                pending = [
                    line.split()[1] for line in file if line.startswith(("SigPnd", "ShdPnd"))
                ]
        except (OSError, IndexError, ValueError):
            return True
        return any(int(mask, 16) >> (signal.SIGKILL - 1) & 1 for mask in pending)

    @property
    def is_kernels(self) -> bool:
        """Whether it is a thread of the kernel."""
        return bool(self._flags & _PF_KTHREAD)

    @property
    def _flags(self) -> int:
        try:
            with open(f"/proc/{self.number}/stat", "rb") as file:
                return int(file.read().rpartition(b")")[2].split()[6])
        except (OSError, IndexError, ValueError):
            return _PF_EXITING

    @property
    def group(self) -> int:
        """The number of its group; 0 if the process has ended."""
        with contextlib.suppress(OSError):
            return os.getpgid(self.number)
        return 0

    def __str__(self) -> str:
        return f"process {self.number} ({self.name or 'ended'})"

    def signal(self, number: int) -> bool:
        """Send it a signal; False if it has ended or is another user's."""
        try:
            handle = os.pidfd_open(self.number)
        except OSError as error:
            if error.errno == errno.ESRCH or Process.of(self.number) != self:
                return False
            return _sent(lambda: os.kill(self.number, number))
        try:
            # The handle stands for the same process after this look.
            if Process.of(self.number) != self:
                return False
            return _sent(lambda: signal.pidfd_send_signal(handle, number))
        finally:
            os.close(handle)

    def signal_group(self, number: int) -> bool:
        """Send the group that it leads, or led, a signal; False if there is none of it any more."""
        # A number is not given away while a group has it: another process means another group.
        if Process.of(self.number) not in (None, self):
            return False
        return _sent(lambda: os.killpg(self.number, number))


def ancestors() -> set[int]:
    """The numbers of this process and of those that started it."""
    found = set[int]()
    number = os.getpid()
    while number > 0 and number not in found:
        found.add(number)
        try:
            with open(f"/proc/{number}/stat", "rb") as file:
                number = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:
            break
    return found


def _sent(send: Callable[[], None]) -> bool:
    try:
        send()
    except OSError:
        return False
    return True
