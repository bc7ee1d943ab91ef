# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Build one program in each of the demo's configurations and compare what came out."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mlbridge.decisions import read_decisions
from mlbridge.elf import file_executable_bytes
from programs.build import (
    compile_program,
    fallback_warnings,
    link_program,
    run_test,
    text_bytes,
)
from programs.catalog import Program, ProgramsError
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

    def output_identical(self) -> bool:
        """Whether every build's test ran and gave the bytes that the -Oz build gave."""
        expected = self.builds["oz"].output
        return expected is not None and all(b.output == expected for b in self.builds.values())

    def objects_identical(self) -> bool:
        """Whether all ways of asking the model gave the same objects."""
        asked = [build.objects for build in self.builds.values() if build.actions is not None]
        return all(objects == asked[0] for objects in asked)


def build_program(program: Program, given: Sequence[str], folder: Path, jobs: int) -> Build:
    """Compile all files anew, link, run the program's test. Seconds are those of compiling."""
    if folder.exists():
        shutil.rmtree(folder)
    logs = folder / "decisions"
    logs.mkdir(parents=True)
    flags = [flag.replace(LOG, str(logs)) for flag in given]
    start = time.perf_counter()
    compiled = compile_program(program, folder / "objects", flags=flags, jobs=jobs)
    wall = time.perf_counter() - start
    build = Build(
        text=text_bytes(compiled),
        wall_seconds=wall,
        objects={item.source: item.object.read_bytes() for item in compiled},
        sizes={item.source: file_executable_bytes(item.object) for item in compiled},
    )
    build.fallbacks = fallback_warnings(compiled)
    if any(LOG in flag for flag in given):
        decisions = read_decisions(logs)
        build.decisions = decisions.made
        build.actions = {source: chosen for source, (chosen,) in decisions.actions.items()}
    try:
        link_program(program, compiled, folder / "bin")
        build.output = run_test(program, folder / "bin", folder / "work")
    except ProgramsError as error:  # a wrong program is a result of the demo, not an accident
        build.failure = str(error)
    return build
