# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures of modules, objects and commands: code size, throughput, run time."""

from __future__ import annotations

import copy
import functools
import json
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Self

from ..elf import executable_bytes, is_object
from ..errors import InvalidArgument, PolicyFailed, Unsupported
from ..process_runner import Ran, run, run_tool
from ..ratio import Ratio
from .cache import Cache

MCA = "llvm-mca-22"
Place = str | os.PathLike[str]


@dataclass(frozen=True)
class Reward:
    """A measured value and that of the baseline, in `unit`; less is better."""

    value: float
    baseline: float
    unit: str

    @property
    def reward(self) -> float:
        """The share of the baseline that was saved: 0.1 for 90 instead of 100, negative if more."""
        if self.baseline == 0:
            return 0.0 if self.value == 0 else -1.0
        return 1 - self.value / self.baseline


@dataclass(frozen=True)
class Timed(Reward):
    """Medians of wall seconds; `ratio` is that of the pairs, with its interval."""

    ratio: Ratio


class _Measure:
    """A number of the code that stock clang generates for a module. The baseline is stock clang's
    whole pipeline at `level` on the same module, before any pass."""

    unit = ""
    kind = ""

    def __init__(
        self,
        level: str = "Oz",
        *,
        clang: str = "clang-22",
        cache: Cache | None = None,
        timeout: float = 600.0,
    ) -> None:
        """`cache` keeps what was measured; each tool may take `timeout` seconds."""
        self._level = level
        self._clang = clang
        self._cache = cache
        self._timeout = timeout
        self._target: list[str] | None = None

    def fixed(self, module: Place) -> Self:
        """A copy for modules of the target of this one, which are then not asked for theirs."""
        fixed = copy.copy(self)
        with tempfile.TemporaryDirectory(prefix="mlbridge-") as folder:
            fixed._target = _target(self, os.fspath(module), _content(module), folder)
        return fixed

    def value(self, file: Place) -> float:
        """The number of a module (bitcode or text) on which passes have run; none is run here."""
        return self._cached(file, "-Xclang", "-disable-llvm-passes")

    def baseline(self, module: Place) -> float:
        """The number of a module on which no pass has run, after those of the level."""
        return self._cached(module)

    def reward(self, file: Place, module: Place) -> Reward:
        """The reward of `file` against the baseline of `module`, from which it was made."""
        return Reward(self.value(file), self.baseline(module), self.unit)

    def _cached(self, file: Place, *flags: str) -> float:
        content = _content(file)
        name = os.fspath(file)
        if self._cache is None:
            return self._measure(name, content, flags)
        kind = " ".join((self.kind, self._level, *flags))
        return self._cache.get(
            kind, self._version(), content, lambda: self._measure(name, content, flags)
        )

    def _version(self) -> str:
        return _version_of(self._clang)

    def _measure(self, name: str, content: bytes, flags: Sequence[str]) -> float:
        raise NotImplementedError

    def _run(self, name: str, folder: str, *command: str) -> Ran:
        return run_tool(command, folder, timeout=self._timeout, what=name)

    def _compiled(
        self, name: str, content: bytes, folder: str, flags: Sequence[str], *target: str
    ) -> None:
        """Writes `out` into the folder."""
        Path(folder, "module").write_bytes(content)
        command = [self._clang, f"-{self._level}", *flags, *target, "-Wno-override-module"]
        self._run(name, folder, *command, "-x", "ir", "module", "-o", "out")


class Size(_Measure):
    """Bytes of the executable sections of the object. `value` takes an object as well."""

    unit = "bytes"
    kind = "executable bytes"

    def _measure(self, name: str, content: bytes, flags: Sequence[str]) -> float:
        if is_object(content[:18]):
            return executable_bytes(content, name)
        with tempfile.TemporaryDirectory(prefix="mlbridge-") as folder:
            target = _target(self, name, content, folder)
            self._compiled(name, content, folder, flags, *target, "-c")
            return executable_bytes(Path(folder, "out").read_bytes(), name)


class Throughput(_Measure):
    """Cycles that llvm-mca predicts for a pass through each function, in all.

    It takes a function for a straight line of instructions in a loop: no branch is taken, no cache
    misses, and a call takes 100 cycles. So it compares versions of the same code, and no programs.
    With `bound` nothing is simulated: it is the least that the processor's units allow for
    (BlockRThroughput), found in a tenth of the time. `value` takes assembly (.s) as well.
    """

    unit = "cycles"
    kind = "llvm-mca"

    def __init__(
        self,
        level: str = "Oz",
        *,
        cpu: str = "generic",
        bound: bool = False,
        clang: str = "clang-22",
        cache: Cache | None = None,
        timeout: float = 600.0,
    ) -> None:
        """`cpu`: the processor of the module's target whose pipeline is modelled."""
        super().__init__(level, clang=clang, cache=cache, timeout=timeout)
        self._cpu = cpu
        self._field = "BlockRThroughput" if bound else "TotalCycles"
        self._iterations = 1 if bound else 100
        self.kind = f"{type(self).kind} {self._field} {cpu}"

    def _version(self) -> str:
        return _version_of(self._clang) + _version_of(MCA)

    def _measure(self, name: str, content: bytes, flags: Sequence[str]) -> float:
        if is_object(content[:18]):
            raise Unsupported(f"{name} is an object; llvm-mca needs a module")
        with tempfile.TemporaryDirectory(prefix="mlbridge-") as folder:
            if name.endswith(".s"):
                text, target = content.decode(errors="surrogateescape"), self._target or []
            else:
                target = _target(self, name, content, folder)
                self._compiled(name, content, folder, flags, *target, "-S")
                text = Path(folder, "out").read_text(encoding="utf-8", errors="surrogateescape")
            marked, count = _regions(text)
            if count == 0:
                return 0.0
            Path(folder, "marked").write_text(marked, "utf-8", errors="surrogateescape")
            command = [MCA, f"-mcpu={self._cpu}", f"-iterations={self._iterations}", "-json"]
            command += [option.replace("--target=", "-mtriple=") for option in target]
            self._run(name, folder, *command, "marked", "-o", "report")
            regions = json.loads(Path(folder, "report").read_bytes())["CodeRegions"]
        cycles = sum(region["SummaryView"][self._field] for region in regions)
        return float(cycles) / self._iterations


def run_time(
    command: str,
    baseline: str,
    *,
    cwd: Place | None = None,
    baseline_cwd: Place | None = None,
    repeat: int = 5,
    timeout: float = 60.0,
) -> Timed:
    """The time of a shell command against another, `repeat` times each, in turns; never cached.

    Raises PolicyFailed if it fails or prints something else than the baseline does, so that a wrong
    program is not rewarded for its speed.
    """
    if repeat < 1:
        raise InvalidArgument(f"repeat is {repeat}, expected 1 or more")
    places = {True: (command, cwd), False: (baseline, baseline_cwd or cwd)}
    ran: dict[bool, list[Ran]] = {True: [], False: []}
    for number in range(repeat):
        for which in (False, True) if number % 2 == 0 else (True, False):
            text, place = places[which]
            ran[which].append(run(text, place, timeout=timeout))
    for plain, changed in zip(ran[False], ran[True], strict=True):
        if plain.code:
            raise InvalidArgument(f"the baseline `{baseline}` ended with {plain.code}")
        if changed.code:
            raise PolicyFailed(f"`{command}` ended with {changed.code}")
        if changed.stdout != plain.stdout:
            raise PolicyFailed(f"`{command}` printed something else than `{baseline}`")
    seconds = {which: [one.seconds for one in all] for which, all in ran.items()}
    ratio = Ratio.of(a / b for a, b in zip(seconds[True], seconds[False], strict=True))
    assert ratio is not None
    return Timed(median(seconds[True]), median(seconds[False]), "s", ratio)


def _content(file: Place) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InvalidArgument(f"{file} can't be read: {error.strerror}") from None


@functools.cache
def _version_of(tool: str) -> str:
    return run([tool, "--version"], timeout=60.0).stdout.text


def _target(measure: _Measure, name: str, content: bytes, folder: str) -> list[str]:
    """The option for the module's own target, which clang would replace by its own."""
    if measure._target is not None:
        return measure._target
    head: bytes | bytearray = content
    if content[:2] == b"BC" or content[:4] == b"\xde\xc0\x17\x0b":
        Path(folder, "module").write_bytes(content)
        head = measure._run(name, folder, "llvm-dis-22", "module", "-o", "-").stdout.head
    triple = re.search(rb'^target triple = "([^"]+)"', head, re.MULTILINE)
    return [f"--target={os.fsdecode(triple[1])}"] if triple else []


def _regions(assembly: str) -> tuple[str, int]:
    """The assembly with each function marked as a region of llvm-mca; how many there are."""
    lines: list[str] = []
    count = 0
    for line in assembly.splitlines():
        begin = re.search(r"(\S+) -- Begin function ", line)
        end = re.search(r"(\S+) -- End function$", line)
        if end:
            lines.append(f"{end[1]} LLVM-MCA-END f{count}")
        lines.append(line)
        if begin:
            count += 1
            lines.append(f"{begin[1]} LLVM-MCA-BEGIN f{count}")
    return "\n".join(lines) + "\n", count
