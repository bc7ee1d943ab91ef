# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How often each function of the catalog's programs runs in each of their workloads.

    python3 -m programs.profile [--again] [SET|NAME ...]

Programs are compiled at -O2 with instrumentation, and each workload is run apart from the others.
build/programs/profiles/NAME.json has {"workloads": {WORKLOAD: {"seconds": …, "functions": {KEY:
[ENTRY, SUM, MAX]}}}, …}: the calls of a function, the sum of its counters, and the largest one.
KEY is "FUNCTION", the linkage name, or "SOURCE;FUNCTION" for a static function, and for another
one if several sources of the program define it, each for an executable. The sources are called as
in the catalog. Functions of the executables that a workload ran have zeros if they were linked and
never ran; all others are missing, since nothing is known of them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mlbridge import profdata
from mlbridge.errors import Error
from mlbridge.outputs import write_whole
from mlbridge.profdata import Counts
from programs.build import (
    Compiled,
    command_of,
    compile_program,
    files_of_executable,
    link_program,
    run_test,
    with_workloads,
)
from programs.catalog import Program, ProgramsError
from programs.fetch import BUILD, fetched_version, run

LEVEL = "-O2"
FOLDER = "profiles"
_TIMEOUT = 60.0


def definitions(compiled: Sequence[Compiled]) -> dict[str, set[str]]:
    """The functions of external linkage that each source defines, without those that it shares."""
    found: dict[str, set[str]] = {}
    for item in compiled:
        command = ["llvm-nm-22", "--defined-only", "--extern-only", "--format=posix"]
        ran = run([*command, str(item.object)], item.object.parent, _TIMEOUT)
        if ran.code:
            raise ProgramsError(f"{item.source}: llvm-nm-22 ended with {ran.code}: {ran.reason}")
        lines = (line.split() for line in ran.stdout.head.decode().splitlines())
        found[item.source] = {words[0] for words in lines if len(words) > 1 and words[1] == "T"}
    return found


class Keys:
    """The keys of a program's functions."""

    def __init__(self, program: Program, compiled: Sequence[Compiled]) -> None:
        self._program = program
        self._defined = definitions(compiled)
        counted = Counter(name for names in self._defined.values() for name in names)
        self._several = {name for name, count in counted.items() if count > 1}
        everything = ((program.name, tuple(self._defined)),)
        self._files = {
            name: files_of_executable(files, self._defined)
            for name, files in program.executables or everything
        }

    def of(self, executable: str, file: str | None, function: str) -> str:
        """The key of a function of an executable."""
        if file is None and function in self._several:
            sources = [s for s in self._files[executable] if function in self._defined.get(s, ())]
            file = sources[0] if len(sources) == 1 else None
        if file is None:
            return function
        return f"{file.replace(str(self._program.own_drivers), '{own}')};{function}"


def profile(program: Program, folder: Path, jobs: int = 2, build: Path = BUILD) -> dict[str, Any]:
    """The counts of all workloads of a fetched program, by the name of the workload."""
    flags = (LEVEL, *profdata.COMPILE_FLAGS)
    compiled = compile_program(
        program, folder / "objects", flags=flags, jobs=jobs, build=build, drivers=True
    )
    link_program(program, compiled, folder / "bin", ("clang-22", *profdata.LINK_FLAGS))
    keys = Keys(program, compiled)
    found: dict[str, Any] = {}
    for name, commands in program.workloads:
        raw = folder / "raw" / name
        env = {"LLVM_PROFILE_FILE": str(raw.resolve() / "{executable}" / profdata.RAW_FILE)}
        began = time.perf_counter()
        run_test(replace(program, test=commands), folder / "bin", folder / "work", build, env=env)
        seconds = time.perf_counter() - began
        functions: dict[str, Counts] = {}
        for executable in dict.fromkeys(command_of(program, line).words[0] for line in commands):
            merged = folder / "merged.profdata"
            profdata.merge(sorted((raw / executable).glob("*")), merged)
            for (file, function), counts in profdata.counts(merged).items():
                key = keys.of(executable, file, function)
                functions[key] = functions[key].plus(counts) if key in functions else counts
        found[name] = {"seconds": round(seconds, 4), "functions": functions}
    return found


def made_from(program: Program, build: Path = BUILD) -> str:
    """What the counts depend on, as a hash."""
    text = repr((program, fetched_version(program, build), LEVEL, profdata.COMPILE_FLAGS))
    return hashlib.sha256(text.encode()).hexdigest()


def write(program: Program, jobs: int = 2, build: Path = BUILD, *, again: bool = False) -> str:
    """Profile a program, unless that was done; a line on it."""
    target = build / FOLDER / f"{program.name}.json"
    stamp = made_from(program, build)
    if again or not target.is_file() or json.loads(target.read_text())["made_from"] != stamp:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=build, prefix=f".profile-{program.name}-") as folder:
            try:
                workloads = profile(program, Path(folder), jobs, build)
            except Error as error:
                raise ProgramsError(f"{program.name}: {error}") from error
        made = {
            "program": program.name,
            "version": fetched_version(program, build),
            "made_from": stamp,
            "workloads": workloads,
        }
        write_whole(str(target), json.dumps(made).encode() + b"\n")
    else:
        workloads = json.loads(target.read_text())["workloads"]
    words = [f"{program.set:10s} {program.name:14s}"]
    for name, one in workloads.items():
        ran = sum(counts[1] > 0 for counts in one["functions"].values())
        words.append(f"{name}: {ran} of {len(one['functions'])} ran, {one['seconds']:.2f} s")
    return "  ".join(words)


def main(arguments: list[str]) -> int:
    """Command line."""
    about = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="programs.profile", description=about)
    parser.add_argument("names", nargs="*", help="sets or programs (default: all)")
    parser.add_argument("--again", action="store_true", help="also what was profiled before")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    try:
        programs = with_workloads(options.names)
    except ProgramsError as error:
        print(f"profile: {error}", file=sys.stderr)
        return 1
    failed = 0
    for program in tqdm(programs, unit="program", file=sys.stderr, disable=None):
        try:
            print(write(program, options.jobs, again=options.again), flush=True)
        except ProgramsError as error:
            print(f"profile: {error}", file=sys.stderr)
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
