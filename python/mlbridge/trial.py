# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trials, their results, and what is asked of those who evaluate them (trials.py)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from .errors import Error, InternalError, _describe

Value = TypeVar("Value")
#: Seconds that a function may still run after the limit of its trial.
GRACE = 10.0
#: Seconds in which a cluster may have no node that takes trials.
PATIENCE = 60.0


@dataclass(frozen=True)
class Trial:
    """One evaluation, which may run anywhere, and again if a node is lost.

    The function that evaluates it keeps to the limit, as by the timeout of what it runs. On a
    cluster it is interrupted then (DeadlineExceeded), and its process ended if that does not help;
    in a thread it is given up, and what it still does stays without a result.
    """

    key: str  #: a name for it in results and messages
    inputs: bytes  #: the content that it is about, in a form that the function knows
    limit: float = 3600.0  #: the seconds that it may take
    retries: int = 3  #: how often it runs again because its node or its process was lost


@dataclass(frozen=True)
class Result(Generic[Value]):
    """The value of a trial, or the error of the function; seconds by the clock of where it ran."""

    key: str
    value: Value | None
    error: Error | None = None
    seconds: float = 0.0
    node: str = ""  #: the address of the node; "" is this process

    def get(self) -> Value:
        """The value. Raises the error."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]


@dataclass(frozen=True)
class Needs:
    """What a node must have as this machine has it, besides Python and mlbridge of the same
    version."""

    programs: Sequence[str] = ()  #: by their names on PATH: the same first line of --version
    plugins: Sequence[str] = ()  #: of the package, by their optimization: the same bytes
    #: Files of the same content, and folders with the same names and sizes, at the same paths.
    files: Sequence[str] = ()


@dataclass
class Options:
    """How trials are evaluated."""

    jobs: int = 2  #: at once, in threads
    cluster: str = ""  #: the address of a Ray cluster, whose nodes take the place of threads
    each: int = 0  #: the most at once on a node; 0: as many as it has CPUs
    needs: Needs = field(default_factory=Needs)
    patience: float = PATIENCE
    #: It is told which nodes are not used or were lost, and why, in a line each.
    warned: Callable[[str], None] = lambda text: None


def evaluated(function: Callable[[Trial], Value], trial: Trial, node: str = "") -> Result[Value]:
    """One trial, here and now."""
    start = time.monotonic()
    value, error = None, None
    try:
        value = function(trial)
    except Error as failed:
        error = failed
    except Exception as failed:  # of the function
        error = InternalError(f"{trial.key}: {_describe('a trial', failed)}")
    return Result(trial.key, value, error, time.monotonic() - start, node)
