# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Processes that end with the one that started them."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import subprocess
from collections.abc import Callable, Sequence

_PR_SET_PDEATHSIG = 1
_SETPRIV = ("setpriv", "--pdeathsig", "KILL", "--")


def bound_to_this() -> Callable[[signal.Signals], bool]:
    """What a process calls that this one has forked: from then on it gets the signal when this one
    ends, on Linux. False if that has happened already."""
    parent = os.getpid()
    prctl = getattr(ctypes.CDLL(None), "prctl", None)

    def bind(number: signal.Signals) -> bool:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        return os.getppid() == parent

    return bind


def ended_with_this(command: Sequence[str]) -> list[str]:
    """A command whose process is killed when this one ends, by util-linux's setpriv; where that is
    not to be had, the command as it is.

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
