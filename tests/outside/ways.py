# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ways in which campaigns compile a program: each optimization at the levels where it acts, as
it ships and with agents that decide at random."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Way:
    """Flags to add to a compiler's command line."""

    optimization: str
    name: str  #: shipped, random, effort-3, …
    levels: tuple[str, ...]
    flags: tuple[str, ...]
    gcc: bool = False
    #: Whether no object may have more executable bytes than the stock compiler's.
    never_larger: bool = False

    @property
    def c(self) -> str:
        return "gcc-12" if self.gcc else "clang-22"

    @property
    def cxx(self) -> str:
        return "g++-12" if self.gcc else "clang++-22"


@cache
def flags(*arguments: str) -> tuple[str, ...]:
    """What `mlbridge flags` prints."""
    command = [sys.executable, "-m", "mlbridge", "flags", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return tuple(shlex.split(done.stdout))


def ways(seed: int) -> list[Way]:
    """All of them; what is random, by this seed."""

    def way(optimization: str, name: str, levels: str, *options: str, **more: bool) -> Way:
        given = ("--deadline", "60s", *options)
        return Way(optimization, name, tuple(levels.split()), flags(optimization, *given), **more)

    random = f"function:random?seed={seed}"
    return [
        way("phase-ordering", "shipped", "Os Oz", never_larger=True),
        way("phase-ordering", "effort-3", "Os Oz", "--effort", "3", never_larger=True),
        way("phase-ordering", "policy", "Os Oz", "--effort", "0"),
        way("inliner", "shipped", "Os Oz"),
        way("regalloc-eviction", "shipped", "Os Oz"),
        way("register-allocation", "shipped", "O1 O2 O3 Os Oz"),
        way("register-allocation", "effort-0", "O2 Oz", "--effort", "0"),
        way("register-allocation", "random", "O1 O2 O3 Os Oz", "--model", random),
        way("loop-distribution", "shipped", "O2 O3"),
        way("loop-distribution", "random", "O2 O3", "--model", random),
        way("polly-tiling", "shipped", "O1 O2 O3"),
        way("gcc-settings", "shipped", "O2 O3 Os", gcc=True),
    ]
