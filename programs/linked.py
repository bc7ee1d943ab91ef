# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The catalog's programs built and linked in several ways: at -Oz, in link-time optimization, and
with `mlbridge flags smallest`.

A program of which the catalog knows no executable becomes a shared library. lld links all of them,
with --gc-sections. What is counted is the bytes of the executable sections of what was linked.
"""

from __future__ import annotations

import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mlbridge.elf import file_executable_bytes
from programs.build import Compiled, compile_program, link_program, run_test
from programs.catalog import Program, ProgramsError
from programs.fetch import BUILD, run
from programs.plugin import link_flags

LINK = ("-fuse-ld=lld", "-Wl,--gc-sections")
OUTLINER = ("-Wl,-mllvm,-enable-machine-outliner=always",)
LINK_TIMEOUT = 600.0


@dataclass
class Linked:
    """A program built one way."""

    bytes: int
    cpu_seconds: float
    output: str = ""  #: of its test and workloads


def ways(lto: str, efforts: Sequence[int]) -> dict[str, tuple[list[str], list[str]]]:
    """The flags of each way, to compile and to link."""
    kind = f"-flto={lto}"
    asked = {f"effort {n}": link_flags(lto, n) for n in efforts}
    return {
        "-Oz": (["-ffunction-sections", "-fdata-sections"], []),
        kind: ([kind], [kind]),
        "outliner": ([kind], [kind, *OUTLINER]),
        **{name: (flags, flags) for name, flags in asked.items()},
    }


def cpu() -> float:
    """Seconds of a processor that children which have ended took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def is_library(program: Program) -> bool:
    """Whether the catalog knows no executable of it."""
    return not (program.executables or program.drivers or program.test or program.workloads)


def link(
    program: Program, compiled: Sequence[Compiled], folder: Path, flags: Sequence[str]
) -> list[Path]:
    """The files that are linked."""
    is_c = all(item.source.endswith(".c") for item in compiled)
    driver = ["clang-22" if is_c else "clang++-22", "-Oz", *LINK, *flags]
    if not is_library(program):
        return link_program(program, compiled, folder, driver)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{program.name}.so"
    objects = [str(item.object) for item in compiled]
    # Several may have a main, or include the sources of others.
    shared = ["-shared", "-Wl,-z,muldefs"]
    ran = run([*driver, *shared, *objects, "-o", str(target)], folder, LINK_TIMEOUT)
    if ran.code != 0:
        raise ProgramsError(f"{program.name}: linking failed\n{ran.stderr.text[-4000:]}")
    return [target]


def build(
    program: Program,
    flags: tuple[Sequence[str], Sequence[str]],
    folder: Path,
    jobs: int,
    root: Path = BUILD,
    target: str = "",
) -> Linked:
    """Compile it, link it, run its test and workloads; its sources lie in `root`. For another
    `target` (a triple) than this machine it is not run."""
    spent = cpu()
    machine = [f"--target={target}"] if target else []
    always = ["-Oz", *machine, *(["-fPIC"] if is_library(program) else [])]
    compiled = compile_program(
        program, folder / "objects", flags=[*always, *flags[0]], jobs=jobs, build=root, drivers=True
    )
    files = link(program, compiled, folder / "bin", [*machine, *flags[1]])
    made = Linked(sum(map(file_executable_bytes, files)), cpu() - spent)
    for lines in [program.test, *(lines for _, lines in program.workloads)]:
        if lines and not target:
            one = replace(program, test=tuple(map(tuple, lines)))
            printed = run_test(one, folder / "bin", folder / "work", root)
            made.output += printed.decode(errors="backslashreplace")
    return made


def problems(name: str, builds: Mapping[str, Linked]) -> list[str]:
    """What must not be."""
    usual, plain, *_ = builds.values()
    found = [
        f"{name} {way}: its output differs from the -Oz build's"
        for way, made in builds.items()
        if made.output != usual.output
    ]
    return found + [
        f"{name} {way}: larger than the link without ({made.bytes} > {plain.bytes})"
        for way, made in builds.items()
        if way.startswith("effort") and made.bytes > plain.bytes
    ]
