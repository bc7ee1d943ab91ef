# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Processes that end with the one that started them."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


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
