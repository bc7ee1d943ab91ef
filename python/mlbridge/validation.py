# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds programs with and without a policy and compares objects, outputs and times."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from .clock import Timing
from .decisions import Decisions
from .errors import Error
from .process_runner import Output
from .ratio import CONFIDENCE, Ratio
from .workspace import PLAIN as PLAIN
from .workspace import BuildFailed, Workspace
from .workspace import Built as Built
from .workspace import Program as Program
from .workspace import Variant as Variant


def numbers(ratio: Ratio | None) -> dict[str, float | None] | None:
    """A ratio in the report."""
    return None if ratio is None else ratio.as_json()


@dataclass
class Run:
    """A command, run in both variants; seconds are wall seconds of each time, in pairs."""

    command: str
    baseline_seconds: list[float] = field(default_factory=list)
    policy_seconds: list[float] = field(default_factory=list)
    code: int = 0
    #: The problem, if there is one.
    problem: str = ""
    #: The program's outputs that were there afterwards.
    outputs: set[str] = field(default_factory=set)
    #: The comparison by the clock, if there was one.
    timing: Timing | None = None

    @property
    def ratio(self) -> Ratio | None:
        """The policy's time over the baseline's."""
        if self.timing:
            return next(iter(self.timing.ratios.values()), None)
        pairs = zip(self.policy_seconds, self.baseline_seconds, strict=False)
        return Ratio.of(policy / plain for policy, plain in pairs)

    def as_json(self) -> dict[str, Any]:
        """An entry of `runs` in the report."""
        named = ("command", "code", "problem", "baseline_seconds", "policy_seconds")
        entry = {name: getattr(self, name) for name in named} | {"ratio": numbers(self.ratio)}
        return entry | ({"timing": self.timing.as_json()} if self.timing else {})


@dataclass
class Comparison:
    """A program built and run in both variants. The first builds are compared, all are timed."""

    program: Program
    baseline: list[Built] = field(default_factory=list)
    policy: list[Built] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    #: Builds that were only made to count, if there were any: without and with the policy.
    counted: tuple[Built, Built] | None = None
    #: Results that must not be.
    problems: list[str] = field(default_factory=list)

    @cached_property
    def ratios(self) -> dict[str, float]:
        """The executable bytes of each object that has some, policy over baseline."""
        if not self.baseline or not self.policy:
            return {}
        plain, changed = self.baseline[0].objects, self.policy[0].objects
        both = (
            path for path in plain if path in changed and plain[path].bytes and changed[path].bytes
        )
        return {path: changed[path].bytes / plain[path].bytes for path in both}

    @property
    def size(self) -> Ratio | None:
        """The geometric mean over the objects."""
        return Ratio.of(self.ratios.values())

    @property
    def total(self) -> float:
        """All executable bytes, policy over baseline."""
        return self.policy[0].bytes / self.baseline[0].bytes

    @property
    def compile_time(self) -> Ratio | None:
        """The geometric mean over pairs of builds."""
        pairs = zip(self.policy, self.baseline, strict=False)
        return Ratio.of(policy.seconds / plain.seconds for policy, plain in pairs)

    @property
    def decisions(self) -> Decisions:
        """The model's decisions."""
        return (self.counted[1] if self.counted else self.policy[0]).decisions

    @property
    def spills(self) -> tuple[float, float] | None:
        """The spills, reloads and copies of all functions for each call, if they were counted."""
        if not self.counted or not any(built.spills for built in self.counted):
            return None
        plain, changed = (sum(built.file_spills().values()) for built in self.counted)
        return plain, changed

    @property
    def spill_ratio(self) -> Ratio | None:
        """The spill costs of the files in which both have some, policy over baseline."""
        if not self.counted:
            return None
        plain, changed = (built.file_spills() for built in self.counted)
        both = [path for path in plain if plain[path] and changed.get(path)]
        return Ratio.of(changed[path] / plain[path] for path in both)

    @property
    def compared(self) -> bool:
        """True if both builds left objects with code."""
        return bool(self.ratios)

    def identical(self) -> int:
        """The number of objects that are the same file, byte for byte."""
        return len(self.baseline[0].objects) - len(self.baseline[0].different(self.policy[0]))

    def notes(self) -> list[str]:
        """Remarks for a reader."""
        notes = []
        for name, builds in (("baseline", self.baseline), ("policy", self.policy)):
            moved = {path for later in builds[1:] for path in builds[0].different(later)}
            if moved:
                notes.append(f"{len(moved)} objects differ from build to build of the {name}")
        if self.baseline and self.baseline[0].old:
            notes.append(f"{self.baseline[0].old} objects were there before and not built again")
        if not self.program.runs:
            notes.append("no command was run, so no output was compared")
        notes += [f"`{r.command}` ended with {r.code} both ways" for r in self.runs if r.code]
        notes += [
            f"`{r.command}`: the baseline took {r.timing.repeat} times as long as itself, so the "
            "machine is not quiet enough for this interval"
            for r in self.runs
            if r.timing and not r.timing.is_even
        ]
        return notes

    def as_json(self) -> dict[str, Any]:
        """An entry of `programs` in the report."""
        entry: dict[str, Any] = {
            "name": self.program.name,
            "tree": str(self.program.tree),
            "build": self.program.build,
            "problems": self.problems,
            "notes": self.notes(),
        }
        if self.compared:
            plain, changed = self.baseline[0], self.policy[0]
            if self.spills:
                entry["spills"] = {
                    "baseline": self.spills[0],
                    "policy": self.spills[1],
                    "files": numbers(self.spill_ratio),
                }
            entry |= {
                "baseline_bytes": plain.bytes,
                "policy_bytes": changed.bytes,
                "total_ratio": self.total,
                "size": numbers(self.size),
                "identical": self.identical(),
                "decisions": self.decisions.made,
                "modules": self.decisions.finished + self.decisions.failed,
                "fallbacks": self.decisions.failed,
                "compile": numbers(self.compile_time),
                "baseline_seconds": [built.seconds for built in self.baseline],
                "policy_seconds": [built.seconds for built in self.policy],
                "runs": [ran.as_json() for ran in self.runs],
                "objects": [
                    {
                        "path": path,
                        "baseline_bytes": one.bytes,
                        "policy_bytes": changed.objects[path].bytes,
                        "identical": one == changed.objects[path],
                    }
                    for path, one in plain.objects.items()
                    if path in changed.objects
                ],
            }
        return entry


@dataclass
class Report:
    """All programs. With several of them each counts once, by its total bytes and its times."""

    programs: list[Comparison]

    @property
    def size(self) -> Ratio | None:
        """The mean over objects of the only program, else over programs."""
        if len(self.programs) == 1:
            return self.programs[0].size
        return Ratio.of(one.total for one in self.programs if one.compared)

    @property
    def compile_time(self) -> Ratio | None:
        """The mean over builds of the only program, else over programs."""
        if len(self.programs) == 1:
            return self.programs[0].compile_time
        ratios = [one.compile_time for one in self.programs]
        return Ratio.of(ratio.mean for ratio in ratios if ratio)

    @property
    def problems(self) -> list[str]:
        """The problems of all programs."""
        return [self.named(one, text) for one in self.programs for text in one.problems]

    def named(self, one: Comparison, text: str) -> str:
        """The text with the program's name, if there are several programs."""
        return f"{one.program.name}: {text}" if len(self.programs) > 1 else text

    def as_json(self) -> dict[str, Any]:
        """The report as docs/validation.md describes it."""
        return {
            "format": "mlbridge-validation",
            "version": 1,
            "confidence": CONFIDENCE,
            "unit": "object" if len(self.programs) == 1 else "program",
            "size": numbers(self.size),
            "compile": numbers(self.compile_time),
            "problems": self.problems,
            "programs": [one.as_json() for one in self.programs],
        }


def validate(
    programs: Sequence[Program],
    policy: Variant,
    work: Path,
    *,
    compiler: str = "clang-22",
    repeat: int = 3,
    timeout: float = 600.0,
    never_larger: bool = False,
    baseline: Variant = PLAIN,
    time: float = 0.0,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Build each program `repeat` times in each variant, in turns, and run its commands as often.

    If outputs are equal, the clock then compares the times of each command for `time` seconds.
    Copies lie in `work`/NUMBER-NAME. `progress` is told what has been done, `steps` times. What
    goes wrong in a program is among the report's problems, with `never_larger` also each object
    with more executable bytes than the baseline's.
    """
    names = [re.sub(r"[^\w.+-]", "_", program.name, flags=re.ASCII) for program in programs]
    workspaces = [
        Workspace(program, work / f"{number}-{name}", compiler, timeout)
        for number, (program, name) in enumerate(zip(programs, names, strict=True))
    ]
    compared = [
        compare_builds(workspace, (baseline, policy), repeat, time, progress)
        for workspace in workspaces
    ]
    return report_of(compared, never_larger)


def report_of(compared: list[Comparison], never_larger: bool = False) -> Report:
    """The report of programs; `never_larger` as of validate."""
    for one in compared if never_larger else ():
        for path, ratio in one.ratios.items():
            if ratio > 1:
                sizes = [built[0].objects[path].bytes for built in (one.baseline, one.policy)]
                one.problems.append(f"{path} is larger: {sizes[0]} -> {sizes[1]} executable bytes")
    return Report(compared)


def steps(
    programs: Sequence[Program], repeat: int, counts: bool = False, times: bool = False
) -> int:
    """The number of builds, runs and comparisons of time that validate() does; `counts`: the policy
    counts."""
    runs = sum(len(program.runs) for program in programs)
    return 2 * repeat * (len(programs) + runs) + 2 * counts * len(programs) + times * runs


def compare_builds(
    workspace: Workspace,
    variants: tuple[Variant, Variant],
    repeat: int,
    time: float,
    progress: Callable[[str], None],
) -> Comparison:
    """Builds and runs the program of a workspace, the baseline first among the variants."""
    comparison = Comparison(workspace.program)
    for number in range(repeat):
        for variant in _turn(variants, number):
            builds = comparison.policy if variant is variants[1] else comparison.baseline
            try:
                builds.append(workspace.build(variant, keep=number == 0))
            except (Error, OSError) as error:
                only = isinstance(error, BuildFailed) and variant is variants[1]
                how = "the build fails only with the policy" if only else f"with the {variant.name}"
                comparison.problems.append(
                    f"{how}: {error}" if variant is variants[1] else str(error)
                )
                return comparison
            progress(f"{workspace.program.name}: built, {variant.name}")
    if variants[1].counts:
        counted = []
        for variant in variants:
            counting = replace(
                variant, name=f"{variant.name}-counted", flags=variant.counts or variant.flags
            )
            try:
                counted.append(workspace.build(counting, keep=True))
            except (Error, OSError) as error:
                comparison.problems.append(f"in a build to count what is decided: {error}")
                return comparison
            progress(f"{workspace.program.name}: counted, {variant.name}")
        comparison.counted = (counted[0], counted[1])
    plain, changed = comparison.baseline[0], comparison.policy[0]
    lone = plain.objects.keys() ^ changed.objects.keys()
    if lone:
        comparison.problems.append(f"only one of the builds has {', '.join(sorted(lone))}")
    decisions = comparison.decisions
    modules = decisions.finished + decisions.failed
    if not modules:
        comparison.problems.append(
            "the model was never asked: the build does not use $CC and $CXX (if the makefile sets"
            " CC: -- 'make CC=\"$CC\"'), or has other -O levels than $CFLAGS"
            + (", or it has nothing to decide about" if comparison.counted else "")
        )
    if decisions.failed:
        comparison.problems.append(
            f"the model failed for {decisions.failed} of {modules} modules, which are plain clang's"
        )
    for command in workspace.program.runs:
        comparison.runs.append(_run(workspace, variants, command, repeat, progress))
    comparison.problems += [one.problem for one in comparison.runs if one.problem]
    if not comparison.problems:
        written = {name for one in comparison.runs for name in one.outputs}
        comparison.problems += [
            f"no command wrote the file {name}, which was to be compared"
            for name in workspace.program.outputs
            if name not in written
        ]
    for one in comparison.runs if time and not comparison.problems else ():
        try:
            one.timing = workspace.time(variants, one.command, time)
        except (Error, OSError) as error:
            comparison.problems.append(f"while `{one.command}` was timed: {error}")
            break
        wrong = one.timing.differences.items()
        comparison.problems += [f"`{one.command}`, {name}: {what}" for name, what in wrong]
        progress(f"{workspace.program.name}: timed {one.command}")
    return comparison


def _run(
    workspace: Workspace,
    variants: tuple[Variant, Variant],
    command: str,
    repeat: int,
    progress: Callable[[str], None],
) -> Run:
    result = Run(command)
    outcomes: dict[str, list[dict[str, Any]]] = {variant.name: [] for variant in variants}
    for number in range(repeat):
        for variant in _turn(variants, number):
            try:
                ran, files = workspace.run(variant, command)
            except (Error, OSError) as error:
                result.problem = f"with the {variant.name}: {error}"
                return result
            seconds = result.policy_seconds if variant is variants[1] else result.baseline_seconds
            seconds.append(ran.seconds)
            outcomes[variant.name].append(
                {"exit code": ran.code, "stdout": ran.stdout, "stderr": ran.stderr, **files}
            )
            progress(f"{workspace.program.name}: {command}")
            result.outputs |= {name for name, file in files.items() if file is not None}
    plain, changed = (outcomes[variant.name] for variant in variants)
    result.code = plain[0]["exit code"]
    if wrong := _difference(plain, changed):
        result.problem = f"`{command}`: {wrong}"
    return result


def _difference(plain: Sequence[dict[str, Any]], changed: Sequence[dict[str, Any]]) -> str:
    """The difference between the runs, or the reason why they can't be compared."""
    code = plain[0]["exit code"]
    if code in (126, 127):
        return f"can't be run ({code}): {plain[0]['stderr'].text.strip()}"
    for one, other in zip(plain, changed, strict=True):
        for name, expected in one.items():
            if expected == other[name]:
                continue
            if any(again[name] != plain[0][name] for again in plain):
                return f"{name} differs from run to run of the baseline; it can't be compared"
            return f"{name} differs with the policy: {_change(expected, other[name])}"
    return ""


def _change(expected: Any, got: Any) -> str:
    if not isinstance(expected, Output) or not isinstance(got, Output):
        kinds = {type(None): "no file", Output: "a file"}
        return " became ".join(kinds.get(type(one), f"{one}") for one in (expected, got))
    before, after = (one.head.decode(errors="replace").splitlines() for one in (expected, got))
    for number, (old, new) in enumerate(zip(before, after, strict=False), 1):
        if old != new:
            return f"line {number}, {old[:80]!r} became {new[:80]!r}"
    return f"{expected.size} bytes became {got.size}"


def _turn(variants: tuple[Variant, Variant], number: int) -> tuple[Variant, Variant]:
    """Each goes first every other time."""
    return variants if number % 2 == 0 else (variants[1], variants[0])
