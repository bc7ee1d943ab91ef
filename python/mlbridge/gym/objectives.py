# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rewards that are measured on the module after each step, instead of the compiler's own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..errors import InvalidArgument
from ..process_runner import run
from ..rewards import Cache, Size, Throughput, run_time

BITCODE, ASSEMBLY = ".bc", ".s"


class Measure(Protocol):
    """A figure of a module, less is better, such as `rewards.Size` and `rewards.Throughput`."""

    def value(self, file: Path) -> float:
        """The figure after the passes so far."""

    def baseline(self, module: Path) -> float:
        """The figure of the untouched module after the passes of -Oz."""


@runtime_checkable
class Objective(Protocol):
    """The worth of a step. `info` is that of the environment; objectives may add to it."""

    #: The suffix of the file `state`: ".bc", or ".s" for assembly.
    reads: str

    def begin(self, state: Path, module: Path, info: dict[str, Any]) -> None:
        """Begin an episode on `module`; `state` is the module now."""

    def step(self, state: Path, info: dict[str, Any]) -> float:
        """The reward of the step that led to `state`."""


class Saved:
    """The decrease of a figure, as a part of that of -Oz. `info` has `value` and `baseline`."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self.reads = ASSEMBLY if isinstance(measure, Throughput) else BITCODE

    def begin(self, state: Path, module: Path, info: dict[str, Any]) -> None:
        """Measures both."""
        if isinstance(self._measure, (Size, Throughput)):
            self._measure = self._measure.fixed(module)
        self._baseline = self._measure.baseline(module)
        self._last = self._measure.value(state)
        info |= {"value": self._last, "baseline": self._baseline}

    def step(self, state: Path, info: dict[str, Any]) -> float:
        """Measures the state."""
        before, self._last = self._last, self._measure.value(state)
        info |= {"value": self._last, "baseline": self._baseline}
        return (before - self._last) / max(self._baseline, 1e-9)


class PosetRL:
    """The reward of POSET-RL (Jain et al., ISPASS 2022, arXiv:2208.04238): 10 times the decrease of
    the size and 5 times that of the cycles that llvm-mca predicts, each at most 0.2 either way.

    Sizes are relative to what -Oz removes, cycles to those at the reset. `info` has `cycles`.
    """

    def __init__(self, throughput: Measure) -> None:
        self._throughput = throughput
        self.reads = ASSEMBLY if isinstance(throughput, Throughput) else BITCODE

    def begin(self, state: Path, module: Path, info: dict[str, Any]) -> None:
        """Measures the cycles."""
        if isinstance(self._throughput, Throughput):
            self._throughput = self._throughput.fixed(module)
        self._cycles = self._first_cycles = self._throughput.value(state)
        self._bytes = _first(info["code_bytes"])
        self._range = max(1, self._bytes - _first(info["oz_code_bytes"]))
        info["cycles"] = self._cycles

    def step(self, state: Path, info: dict[str, Any]) -> float:
        """Measures the cycles."""
        cycles, size = self._throughput.value(state), _first(info["code_bytes"])
        smaller = (self._bytes - size) / self._range
        faster = (self._cycles - cycles) / max(1.0, self._first_cycles)
        self._cycles, self._bytes = cycles, size
        info["cycles"] = cycles
        return float(10 * np.clip(smaller, -0.2, 0.2) + 5 * np.clip(faster, -0.2, 0.2))


class Time:
    """The decrease of a program's measured time, as a part of that with -Oz.

    `link` is a shell command that makes the program $PROGRAM of the module's object $OBJECT, `run`
    one that runs $PROGRAM. After each step it runs `repeat` times in turns with the program that
    -Oz gives. If it fails or prints something else, the episode ends (PolicyFailed).
    """

    def __init__(
        self,
        link: str,
        run: str = "$PROGRAM",
        *,
        repeat: int = 5,
        clang: str = "clang-22",
        timeout: float = 60.0,
    ) -> None:
        self._link, self._run = link, run
        self._repeat, self._clang, self._timeout = repeat, clang, timeout
        self.reads = BITCODE
        self._folder = tempfile.TemporaryDirectory(prefix="mlbridge-time-")

    def begin(self, state: Path, module: Path, info: dict[str, Any]) -> None:
        """Builds both, and runs them."""
        self._baseline = self._built(module, "baseline")
        self._last = self._ratio(state, info)

    def step(self, state: Path, info: dict[str, Any]) -> float:
        """Builds the state, and runs both."""
        before, self._last = self._last, self._ratio(state, info)
        return before - self._last

    def _ratio(self, state: Path, info: dict[str, Any]) -> float:
        program = self._built(state, "program", "-Xclang", "-disable-llvm-passes")
        commands = (f"PROGRAM='{built}'; {self._run}" for built in (program, self._baseline))
        timed = run_time(*commands, repeat=self._repeat, timeout=self._timeout)
        info |= {"value": timed.value, "baseline": timed.baseline}
        return timed.ratio.mean

    def _built(self, module: Path, name: str, *flags: str) -> Path:
        program = Path(self._folder.name, name)
        compiled = [self._clang, "-Oz", *flags, "-c", "-x", "ir", str(module), "-o", f"{program}.o"]
        link = f"OBJECT='{program}.o'; PROGRAM='{program}'; {self._link}"
        for command in (compiled, link):
            ran = run(command, self._folder.name, timeout=600.0)
            if ran.code:
                shown = command if isinstance(command, str) else " ".join(command)
                raise InvalidArgument(f"{module}: `{shown}` ended with {ran.code}: {ran.reason}")
        return program


#: The objectives that have names; None is the compiler's own reward.
NAMED: dict[str, Callable[[Cache | None], Objective | None]] = {
    "size": lambda cache: None,
    "throughput": lambda cache: Saved(Throughput(cache=cache)),
    "poset-rl": lambda cache: PosetRL(Throughput(bound=True, cache=cache)),
}


def objective_of(name: str | Measure | Objective, cache: Cache | None) -> Objective | None:
    """The objective with a name, or of a measure; None for the compiler's own reward."""
    if isinstance(name, Objective):
        return name
    if not isinstance(name, str) and hasattr(name, "value") and hasattr(name, "baseline"):
        return Saved(name)
    if isinstance(name, str) and name in NAMED:
        return NAMED[name](cache)
    raise InvalidArgument(
        f"the objective is {name!r}; there are {', '.join(NAMED)}, and those of "
        "mlbridge.gym.objectives"
    )


def _first(value: Any) -> int:
    return int(np.asarray(value).flat[0])
