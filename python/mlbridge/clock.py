# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the run times of builds of a program, on a machine that is not quiet.

    before = clock.Work("O2", (clock.Command(("/o2/prog", "input.txt")),), Path("a"))
    after = clock.Work("hot", (clock.Command(("/hot/prog", "input.txt")),), Path("b"))
    print(clock.compare(before, [after], budget=40).ratios["hot"])    # 1.004 [1.002, 1.006]

A process is started without a shell, on one processor, and its processor time is taken. Two builds
run in pairs, one directly after the other, and the order changes from pair to pair. The ratio is
the mean of the middle 60 % of the pairs' ratios, its interval by the bootstrap, wider for few
pairs. Before that the first build is compared with itself. Prefer many runs of 5 to 50 ms to a few
long ones. What is no code differs too: a shared library more costs 0.1 ms for each start.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import math
import os
import select
import shlex
import signal
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist, fmean, median
from typing import Any, NamedTuple

from .errors import DeadlineExceeded, InvalidArgument, NotFound
from .ratio import CONFIDENCE, Ratio

#: The part of the sorted pairs that counts; as many are left out at both ends.
MIDDLE = 0.6
#: The least pairs of a comparison, even if they take longer than the budget.
LEAST_PAIRS = 8
#: The part of the budget for the comparison of the first build with itself.
REPEAT_SHARE = 0.2
_DRAWS, _VALUES = 2000, 1 << 20  # bootstrap samples; numbers that are drawn at once
_GROWTH = 1.25  # of the pairs, until the interval is looked at again
_PROBES = 5
_CHUNK = 1 << 20
_SHELL = frozenset("|&;<>()$`\\\"'*?[]#~%{}\n=")
_SHELLS_OWN = frozenset(
    "! . : cd command eval exec exit export read set time times trap type ulimit umask unset wait"
    .split()
)  # fmt: skip
_starting = threading.Lock()


@dataclass(frozen=True)
class Command:
    """A command, which is run without a shell."""

    words: tuple[str, ...]
    #: Files in the folder in which it runs, or absolute ones. An output that changes from run to
    #: run is not compared in a file of the folder "scratch".
    stdin: str = os.devnull
    stdout: str | None = None
    #: The exit code that it must have; None if any is right that all builds have.
    code: int | None = None
    #: Variables beside those of its Work.
    variables: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, text: str) -> Command:
        """A command as people type it; `sh -c` runs it if it needs a shell."""
        if _SHELL & set(text) or _SHELLS_OWN & set(text.split()[:1]):
            return cls(("sh", "-c", text))
        return cls(tuple(shlex.split(text)))

    def __str__(self) -> str:
        return shlex.join(self.words)


@dataclass(frozen=True)
class Work:
    """The commands of a build, run one after the other in a folder; their times are added."""

    name: str
    commands: tuple[Command, ...]
    folder: Path
    #: The variables; None for those of this process.
    env: Mapping[str, str] | None = None
    #: Files and folders in the folder that must be the same for all builds; None for all in it.
    outputs: tuple[str, ...] | None = None
    #: Files and folders in it whose contents don't matter.
    ignored: tuple[str, ...] = ("scratch",)
    #: Called each time before the commands run, and not timed.
    before: Callable[[], None] = lambda: None


class Spent(NamedTuple):
    """The exit code of a process (negative: the signal), and its seconds: those of a processor, of
    user and system, with those of the processes that it waited for, and those on the wall."""

    code: int
    processor: float
    wall: float


@dataclass(frozen=True)
class Timing:
    """The result of a comparison."""

    #: The build that the others are compared with.
    baseline: str
    #: For each other build with the same outputs: its time over the baseline's.
    ratios: dict[str, Ratio]
    #: The baseline's time over its own: how well times can be compared here and now.
    repeat: Ratio
    #: The median time of each build.
    seconds: dict[str, float]
    #: For each build with other outputs, which is not timed: what differs.
    differences: dict[str, str] = field(default_factory=dict)
    #: The time that was taken: "processor", or "wall" where the system counts that in ticks.
    clock: str = "processor"
    #: The number of the processor.
    processor: int = 0

    @property
    def is_even(self) -> bool:
        """False if the baseline is surely not as fast as itself: then something else than the code
        decides, and the other intervals are too narrow. (One time in twenty that is chance.)"""
        return self.repeat.low <= 1 <= self.repeat.high

    def as_json(self) -> dict[str, Any]:
        """The result for a report."""
        return {
            "baseline": self.baseline,
            "ratios": {name: ratio.as_json() for name, ratio in self.ratios.items()},
            "repeat": self.repeat.as_json(),
            "seconds": self.seconds,
            "differences": self.differences,
            "clock": self.clock,
            "processor": self.processor,
        }


# Statistics


def middle(values: Sequence[float]) -> float:
    """The mean of the middle 60 % of numbers."""
    left_out = int(len(values) * (1 - MIDDLE) / 2)
    return fmean(sorted(values)[left_out : len(values) - left_out])


def ratio_of(logs: Sequence[float]) -> Ratio:
    """The ratio whose logarithm is the mean of the middle of these, with its interval. The same
    numbers always give the same interval; that of fewer than two is (0, inf)."""
    import numpy as np

    if not logs:
        raise InvalidArgument("no pairs, so there is no ratio")
    count = len(logs)
    if count < 2:
        return Ratio(math.exp(logs[0]), 0.0, math.inf, 1)
    left_out = int(count * (1 - MIDDLE) / 2)
    random = np.random.default_rng(0)
    means = []
    for drawn in _shares(_DRAWS, max(1, _VALUES // count)):
        samples = np.sort(random.choice(np.asarray(logs), (drawn, count)), axis=1)
        means.append(samples[:, left_out : count - left_out].mean(axis=1))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail])
    mean, wider = middle(logs), _widening(count - 2 * left_out)
    low, high = (math.exp(mean + wider * (float(end) - mean)) for end in (low, high))
    return Ratio(math.exp(mean), low, high, count)


def _widening(count: int) -> float:
    """The factor by which a bootstrap's interval of few numbers is too narrow: Student's quantile
    over the normal one, as Cornish and Fisher approximate it."""
    free = max(1, count - 1)
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    student = z + (z**3 + z) / (4 * free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
    return student / z


def _shares(total: int, most: int) -> Iterator[int]:
    while total > 0:
        yield min(total, most)
        total -= most


def half_width(ratio: Ratio) -> float:
    """Half of the interval."""
    return (ratio.high - ratio.low) / 2


# Processes


def run(
    command: Command,
    folder: Path,
    *,
    stdout: str | os.PathLike[str] = os.devnull,
    stderr: str | os.PathLike[str] = os.devnull,
    env: Mapping[str, str] | None = None,
    processor: int | None = None,
    timeout: float = 60.0,
) -> Spent:
    """Run a command in a folder, on a processor if one is given; what it leaves running is killed.

    The current folder of this process is changed while the command is started. Raises NotFound if
    that fails, and DeadlineExceeded after `timeout` seconds.
    """
    out = os.fspath(stdout) if command.stdout is None else str(folder / command.stdout)
    began = time.perf_counter()
    number = _start(
        command,
        folder.absolute(),
        str(Path(out).absolute()),
        str(Path(stderr).absolute()),
        env,
        processor,
    )
    ended = False
    try:
        handle = os.pidfd_open(number)
        try:
            waiting = select.poll()
            waiting.register(handle, select.POLLIN)
            ended = bool(waiting.poll(max(0.0, timeout) * 1000))
            wall = time.perf_counter() - began
        finally:
            os.close(handle)
    finally:
        # It was not waited for yet, so nobody else has its group's number.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(number, signal.SIGKILL)
        _, status, usage = os.wait4(number, 0)
    if not ended:
        raise DeadlineExceeded(f"`{command}` did not end within {timeout:g} s")
    return Spent(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, wall)


def _start(
    command: Command,
    folder: Path,
    stdout: str,
    stderr: str,
    env: Mapping[str, str] | None,
    processor: int | None,
) -> int:
    """Start a process in a group of its own; it inherits folder and processor of this thread."""
    made = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, str(folder / command.stdin), os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, stdout, made, 0o666),
        (os.POSIX_SPAWN_OPEN, 2, stderr, made, 0o666),
    ]
    variables = {**(os.environ if env is None else env), **dict(command.variables)}
    if not command.words:
        raise InvalidArgument("a command has no words")
    with _starting:
        here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        before = os.sched_getaffinity(0)
        try:
            os.chdir(folder)
            if processor is not None:
                os.sched_setaffinity(0, {processor})
            start = os.posix_spawnp if "/" not in command.words[0] else os.posix_spawn
            return start(
                command.words[0],
                command.words,
                variables,
                file_actions=actions,
                setpgroup=0,
                setsigdef=[signal.SIGPIPE],  # Python ignores it
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise NotFound(f"`{command}` can't be started in {folder}: {why}") from None
        finally:
            os.fchdir(here)
            os.close(here)
            os.sched_setaffinity(0, before)


def is_precise(processor: int | None = None) -> bool:
    """False if the system counts a process's time in ticks, which are longer than many a run."""
    command = Command(("sh", "-c", "i=0; while [ $i -lt 999 ]; do i=$((i+1)); done"))
    times = (run(command, Path("/"), processor=processor).processor for _ in range(_PROBES))
    return any(round(seconds * 1e6) % 1000 for seconds in times)


@contextlib.contextmanager
def own_processor() -> Iterator[int]:
    """A processor that no other comparison on this machine has while this one lasts; if there is
    none, one that others have, too. It is the last of those that this thread may use and that are
    free: the first has more of the system's own work."""
    there = sorted(os.sched_getaffinity(0), reverse=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as name:
        for number in there:
            try:
                name.bind(f"\0mlbridge-clock-{number}")  # is gone with this process
            except OSError:
                continue
            yield number
            return
        yield there[0]


# Comparisons


class _Runner:
    """Runs the commands of works, on one processor, and looks at their outputs."""

    def __init__(self, folder: Path, processor: int, clock: str, timeout: float) -> None:
        self._folder = folder
        self._processor = processor
        self._clock = clock
        self._timeout = timeout
        self._codes: dict[str, list[int]] = {}

    def seconds(self, work: Work) -> float:
        """The time of all commands. InvalidArgument if an exit code is not the one before."""
        work.before()
        total, codes = 0.0, []
        for number, command in enumerate(work.commands):
            try:
                spent = run(
                    command,
                    work.folder,
                    # A regular file: some programs do less if they write to /dev/null.
                    stdout=self._folder / f"{number}.stdout",
                    stderr=self._folder / f"{number}.stderr",
                    env=work.env,
                    processor=self._processor,
                    timeout=self._timeout,
                )
            except DeadlineExceeded as error:
                raise DeadlineExceeded(f"{work.name}: {error}") from None
            total += spent.processor if self._clock == "processor" else spent.wall
            codes.append(spent.code)
            if command.code not in (None, spent.code):
                said = (self._folder / f"{number}.stderr").read_text(errors="replace")[-300:]
                raise InvalidArgument(
                    f"{work.name}: `{command}` ended with {spent.code}, expected {command.code}"
                    f"{': ' + ' '.join(said.split()) if said.strip() else ''}"
                )
        before = self._codes.setdefault(work.name, codes)
        if before != codes:
            raise InvalidArgument(
                f"{work.name}: the commands ended with {codes}, and before that with {before}"
            )
        return max(total, 1e-9)

    def outputs(self, work: Work) -> dict[str, str]:
        """Run all commands once; their results by what they are called for people."""
        self.seconds(work)
        found = {}
        for number, command in enumerate(work.commands):
            code = self._codes[work.name][number]
            label = f"command {number + 1}"
            found[f"the exit code of {label}"] = str(code)
            if command.stdout is None:
                found[f"the standard output of {label}"] = _digest(
                    self._folder / f"{number}.stdout"
                )
        for path in _files(work):
            found[f"the file {path.relative_to(work.folder)}"] = _digest(path)
        return found


def _files(work: Work) -> list[Path]:
    """The files that are compared, in a fixed order."""
    top = [work.folder] if work.outputs is None else [work.folder / o for o in work.outputs]
    found: set[Path] = set()
    for place in top:
        inside = place.rglob("*") if place.is_dir() else [place]
        found |= {path for path in inside if path.is_file() and not path.is_symlink()}
    ignored = {work.folder / name for name in work.ignored}
    return sorted(path for path in found if not ignored & {path, *path.parents})


def _digest(path: Path) -> str:
    if not stat.S_ISREG(path.stat().st_mode):
        return "no file"
    with path.open("rb") as file:
        digest = hashlib.blake2b()
        while data := file.read(_CHUNK):
            digest.update(data)
        return digest.hexdigest()


def _difference(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The first result that is another one; empty if there is none."""
    for what in itertools.chain(before, after):
        if before.get(what) != after.get(what):
            missing = (
                " is missing" if what not in after else " is new" if what not in before else ""
            )
            values = [one.get(what, "") for one in (before, after)]
            code = f" is {values[1]}, not {values[0]}" if "exit code" in what else " differs"
            return f"{what}{missing or code}"
    return ""


def orders(count: int) -> Iterator[list[tuple[int, bool]]]:
    """The pairs of each round, without end: the number of each of `count` builds, and whether the
    baseline runs first. The order of a pair changes from round to round, and from pair to pair."""
    for number in itertools.count():
        yield [(other, (number + other) % 2 == 0) for other in range(count)]


def compare(
    baseline: Work,
    others: Sequence[Work],
    *,
    budget: float = 40.0,
    wanted: float = 0.0,
    timeout: float = 60.0,
    processor: int | None = None,
    scratch: Path | None = None,
) -> Timing:
    """The times of other builds beside the baseline's.

    It takes about `budget` seconds, or less if half of each interval is at most `wanted` before.
    Each process may take `timeout` seconds. All builds first run once without being timed, and
    once after it, and their exit codes, outputs and files are compared; a build with others is not
    timed. `processor`: its number; default: that of own_processor(). Outputs are in a folder in
    `scratch`, which is removed; default: the system's for temporary files. InvalidArgument,
    NotFound, DeadlineExceeded; if the reason is a build, the message begins with its name and a
    colon.
    """
    names = [work.name for work in (baseline, *others)]
    if len(set(names)) != len(names) or not others:
        raise InvalidArgument(f"the builds are {names}; expected two or more of different names")
    empty = [work.name for work in (baseline, *others) if not work.commands]
    if empty:
        raise InvalidArgument(f"{', '.join(empty)}: no command is run, so there is no time")
    with (
        own_processor() if processor is None else contextlib.nullcontext(processor) as chosen,
        tempfile.TemporaryDirectory(prefix="mlbridge-clock-", dir=scratch) as temporary,
    ):
        clock = "processor" if is_precise(chosen) else "wall"
        runner = _Runner(Path(temporary), chosen, clock, timeout)
        results = {work.name: runner.outputs(work) for work in (baseline, *others)}
        differences = _differences(baseline, others, results)
        timed = [work for work in others if work.name not in differences]
        times: dict[str, list[float]] = {work.name: [] for work in (baseline, *timed)}
        share = REPEAT_SHARE if timed else 1.0
        [repeat] = _pairs(runner, baseline, [baseline], budget * share, wanted, times)
        ratios = _pairs(runner, baseline, timed, budget * (1 - share), wanted, times)
        again = {work.name: runner.outputs(work) for work in (baseline, *timed)}
        for work in (baseline, *timed):
            if what := _difference(results[work.name], again[work.name]):
                differences.setdefault(work.name, f"from run to run {what}")
    return Timing(
        baseline=baseline.name,
        ratios={
            work.name: ratio
            for work, ratio in zip(timed, ratios, strict=True)
            if work.name not in differences
        },
        repeat=repeat,
        seconds={name: median(values) for name, values in times.items() if values},
        differences=differences,
        clock=clock,
        processor=chosen,
    )


def _differences(
    baseline: Work, others: Sequence[Work], results: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    found = {work.name: _difference(results[baseline.name], results[work.name]) for work in others}
    return {name: what for name, what in found.items() if what}


def _pairs(
    runner: _Runner,
    baseline: Work,
    others: Sequence[Work],
    budget: float,
    wanted: float,
    times: dict[str, list[float]],
) -> list[Ratio]:
    """The ratio of each other work to the baseline; adds the seconds of all to `times`."""
    if not others:
        return []
    logs: list[list[float]] = [[] for _ in others]
    end = time.perf_counter() + budget
    look = LEAST_PAIRS
    for pairs in orders(len(others)):
        for number, baseline_first in pairs:
            works = (baseline, others[number]) if baseline_first else (others[number], baseline)
            taken = [runner.seconds(work) for work in works]
            for work, seconds in zip(works, taken, strict=True):
                times[work.name].append(seconds)
            before, after = taken if baseline_first else reversed(taken)
            logs[number].append(math.log(after / before))
        count = len(logs[0])
        if count < LEAST_PAIRS:
            continue
        if time.perf_counter() >= end:
            break
        if wanted and count >= look:
            look = math.ceil(count * _GROWTH)
            if all(half_width(ratio_of(some)) <= wanted for some in logs):
                break
    return [ratio_of(some) for some in logs]
