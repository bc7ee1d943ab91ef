# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Build one program in one of the demo's configurations, and keep what is compared."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from mlbridge.decisions import read_decisions
from mlbridge.elf import file_executable_bytes
from programs.build import (
    Compiled,
    compile_program,
    fallback_warnings,
    link_program,
    run_test,
    text_bytes,
)
from programs.catalog import Program, ProgramsError
from programs.linked import Linked
from programs.plugin import LOG


@dataclass
class Build:
    """One program built in one configuration."""

    text: int
    wall_seconds: float
    objects: dict[str, bytes]
    decisions: int = 0
    #: Bytes of executable sections of each source's object.
    sizes: dict[str, int] = field(default_factory=dict)
    fallbacks: list[str] = field(default_factory=list)
    output: bytes | None = None
    failure: str = ""
    #: What was decided for each source; None of a build in which no model was asked.
    actions: dict[str, list[int]] | None = None


@dataclass
class Result:
    """One program in all configurations, by their names."""

    program: Program
    builds: dict[str, Build]
    #: Linked as a whole: at -Oz, and in the ways of `mlbridge flags smallest`.
    linked: dict[str, Linked] = field(default_factory=dict)

    def output_identical(self) -> bool:
        """Whether every build's test ran and gave the bytes that the -Oz build gave."""
        expected = self.builds["oz"].output
        return expected is not None and all(b.output == expected for b in self.builds.values())

    def objects_identical(self) -> bool:
        """Whether all ways of asking the model gave the same objects."""
        asked = [build.objects for build in self.builds.values() if build.actions is not None]
        return all(objects == asked[0] for objects in asked)


@dataclass(frozen=True)
class Objects:
    """A program that is compiled, and not yet looked at: only this is timed."""

    program: Program
    folder: Path
    compiled: list[Compiled]
    wall_seconds: float
    asked: bool  #: whether its decisions are in the folder

    def finish(self) -> Build:
        """Read what came out, link, run the program's test."""
        build = Build(
            text=text_bytes(self.compiled),
            wall_seconds=self.wall_seconds,
            objects={item.source: item.object.read_bytes() for item in self.compiled},
            sizes={item.source: file_executable_bytes(item.object) for item in self.compiled},
        )
        build.fallbacks = fallback_warnings(self.compiled)
        if self.asked:
            decisions = read_decisions(self.folder / "decisions")
            build.decisions = decisions.made
            build.actions = {source: chosen for source, (chosen,) in decisions.actions.items()}
        try:
            link_program(self.program, self.compiled, self.folder / "bin")
            build.output = run_test(self.program, self.folder / "bin", self.folder / "work")
        except ProgramsError as error:  # a wrong program is a result of the demo, not an accident
            build.failure = str(error)
        return build


def compile_anew(program: Program, given: Sequence[str], folder: Path, pool: Executor) -> Objects:
    """Compile all files of a program with these flags, by the workers of the pool."""
    if folder.exists():
        shutil.rmtree(folder)
    logs = folder / "decisions"
    logs.mkdir(parents=True)
    flags = [flag.replace(LOG, str(logs)) for flag in given]
    start = time.perf_counter()
    compiled = compile_program(program, folder / "objects", flags=flags, pool=pool)
    wall = time.perf_counter() - start
    return Objects(program, folder, compiled, wall, any(LOG in flag for flag in given))


def build_program(program: Program, given: Sequence[str], folder: Path) -> Build:
    """Compile one file after the other, link, run the program's test."""
    with ThreadPoolExecutor(1) as pool:
        return compile_anew(program, given, folder, pool).finish()
