# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bytes and run times of the catalog's programs, compiled in several ways.

    python3 -m programs.timing --way O2=-O2 --way Os=-Os [--seconds 20] [-o FILE] [SET|NAME ...]

The first way is what the others are compared with. Programs are linked with the same flags and
--gc-sections, from functions in sections of their own; bytes are those of the executables'
executable sections. Each workload is compared by mlbridge.clock for some seconds; a program's time
is the geometric mean over its workloads. FILE has all of it as JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from tqdm import tqdm

from mlbridge import clock
from mlbridge.elf import file_executable_bytes
from mlbridge.errors import Error
from mlbridge.outputs import write_whole
from mlbridge.ratio import Ratio
from programs.build import VARIABLES, command_of, compile_program, link_program, with_workloads
from programs.catalog import Program, ProgramsError
from programs.fetch import BUILD, fetched_version

LINK = ("clang-22", "-Wl,--gc-sections")


def work_of(
    program: Program,
    lines: Sequence[Sequence[str]],
    name: str,
    executables: Path,
    folder: Path,
    build: Path = BUILD,
) -> clock.Work:
    """The commands of a workload for the clock, which run in a new folder each time."""

    def one(line: Sequence[str]) -> clock.Command:
        found = command_of(program, line, build)
        return clock.Command(
            words=(str(executables.resolve() / found.words[0]), *found.words[1:]),
            stdin=found.stdin or os.devnull,
            stdout=found.stdout,
            code=found.code,
            variables=found.variables,
        )

    return clock.Work(
        name=name,
        commands=tuple(map(one, lines)),
        folder=folder,
        env=VARIABLES,
        before=partial(_empty, folder),
    )


def _empty(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    (folder / "scratch").mkdir(parents=True)


def compare(
    program: Program,
    ways: Mapping[str, Sequence[str]],
    folder: Path,
    *,
    seconds: float,
    wanted: float = 0.0,
    jobs: int = 2,
    build: Path = BUILD,
) -> dict[str, Any]:
    """Bytes and times of a fetched program. ProgramsError if a build or a workload fails."""
    size: dict[str, int] = {}
    # Executables lie at paths of the same length, which are on their stacks.
    places = {name: folder / f"{number:02}" for number, name in enumerate(ways)}
    for name, flags in ways.items():
        flags = (*flags, "-ffunction-sections")
        objects = places[name] / "objects"
        compiled = compile_program(
            program, objects, flags=flags, jobs=jobs, build=build, drivers=True
        )
        linked = link_program(program, compiled, places[name] / "bin", (*LINK, *flags))
        size[name] = sum(file_executable_bytes(file) for file in linked)
    workloads: dict[str, clock.Timing] = {}
    for workload, lines in program.workloads:
        works = [
            work_of(program, lines, name, places[name] / "bin", places[name] / "work", build)
            for name in ways
        ]
        try:
            workloads[workload] = clock.compare(works[0], works[1:], budget=seconds, wanted=wanted)
        except Error as error:
            raise ProgramsError(f"{program.name}: {workload}: {error}") from error
    return {
        "version": fetched_version(program, build),
        "bytes": size,
        "time": {name: mean_time(workloads.values(), name) for name in list(ways)[1:]},
        "workloads": {name: timing.as_json() for name, timing in workloads.items()},
    }


def mean_time(timings: Any, name: str) -> float | None:
    """The geometric mean of a way's ratios over workloads; None if one has no ratio."""
    ratios = [timing.ratios.get(name) for timing in timings]
    if not ratios or None in ratios:
        return None
    return math.exp(fmean(math.log(ratio.mean) for ratio in ratios if ratio))


def _with_width(ratio: Mapping[str, Any] | None) -> str:
    """A ratio and half of its interval."""
    return f"{ratio['mean']:.3f}±{(ratio['high'] - ratio['low']) / 2:.3f}" if ratio else "-"


def shown(name: str, found: Mapping[str, Any]) -> str:
    """A line on a program."""
    usual, *others = found["bytes"]
    words = [f"{name:14s} {found['bytes'][usual]:8d} bytes"]
    for way in others:
        time = found["time"][way]
        ratios = [one["ratios"].get(way) for one in found["workloads"].values()]
        each = " ".join(map(_with_width, ratios))
        size = found["bytes"][way] / found["bytes"][usual]
        words.append(
            f"{way}: bytes {size:.3f}, time {'-' if time is None else f'{time:.3f}'} ({each})"
        )
    even = [_with_width(one["repeat"]) for one in found["workloads"].values()]
    words.append(f"A/A {' '.join(even)}")
    return "  ".join(words)


def main(arguments: list[str]) -> int:
    """Command line."""
    about = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="programs.timing", description=about)
    parser.add_argument("names", nargs="*", help="sets or programs (default: all)")
    parser.add_argument("--way", action="append", default=[], metavar="NAME=FLAGS", required=True)
    parser.add_argument("--seconds", type=float, default=20.0, help="for each workload")
    parser.add_argument("--wanted", type=float, default=0.0, help="half of an interval")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("-o", dest="output", metavar="FILE")
    options = parser.parse_args(arguments)
    ways = {
        name: shlex.split(flags) for name, _, flags in (way.partition("=") for way in options.way)
    }
    if len(ways) < 2:
        parser.error("--way: expected two or more NAME=FLAGS with different names")
    try:
        programs = with_workloads(options.names)
    except ProgramsError as error:
        print(f"timing: {error}", file=sys.stderr)
        return 1
    found: dict[str, Any] = {}
    failed = 0
    for program in tqdm(programs, unit="program", file=sys.stderr, disable=None):
        with tempfile.TemporaryDirectory(dir=BUILD, prefix=f".timing-{program.name}-") as folder:
            try:
                found[program.name] = compare(
                    program,
                    ways,
                    Path(folder),
                    seconds=options.seconds,
                    wanted=options.wanted,
                    jobs=options.jobs,
                )
            except ProgramsError as error:
                print(f"timing: {error}", file=sys.stderr)
                failed += 1
                continue
        print(shown(program.name, found[program.name]), flush=True)
        for workload, one in found[program.name]["workloads"].items():
            for way, what in one["differences"].items():
                print(f"timing: {program.name}: {workload}: {way}: {what}", file=sys.stderr)
                failed += 1
    usual = next(iter(ways))
    for way in list(ways)[1:]:
        size = Ratio.of(one["bytes"][way] / one["bytes"][usual] for one in found.values())
        time = Ratio.of(one["time"][way] for one in found.values() if one["time"][way])
        print(f"{way} over {usual}, {len(found)} programs: bytes {size}, time {time}")
    if options.output:
        made = {"ways": ways, "seconds": options.seconds, "programs": found}
        write_whole(options.output, json.dumps(made, indent=1).encode() + b"\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
