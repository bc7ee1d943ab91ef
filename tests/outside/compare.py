# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles one C or C++ program by the stock compiler and with an optimization, and runs both.

    compare.py --way register-allocation/random --seed 7 --level O2 program.c [-- -fPIC ...]

Prints what came of it. With --expect KIND exits with 0 only if it is that, and if the program has
no undefined behaviour that clang's sanitizers see: that is what reduces a program.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ways import LEVELS, Configuration, way

from mlbridge.elf import file_executable_bytes

COMPILING = 60.0  # seconds
RUNNING = 5.0
MEMORY = 2 << 30  # bytes
#: A program that isn't counted: the stock compiler refuses it, or it has no result of its own.
UNFIT = "unfit"
#: Where Debian has the header of Csmith's programs.
CSMITH = ("-isystem", "/usr/include/csmith")
SANITIZERS = "-fsanitize=undefined,address,integer-divide-by-zero"


@dataclass(frozen=True)
class Verdict:
    """same, changed, refused, wrong, crashed, larger or unfit, and why."""

    kind: str
    why: str = ""


@dataclass(frozen=True)
class Ran:
    """Exit code, negative for a signal, None if it didn't end; what was written."""

    code: int | None
    out: bytes
    said: str


def run(command: Sequence[str | Path], folder: Path, seconds: float, memory: int = 0) -> Ran:
    """Runs a program that may do anything: without input, with an end."""
    limits = ["prlimit", "--core=0", f"--cpu={int(seconds) + 1}", "--fsize=100000000"]
    limits += [f"--as={memory}"] if memory else []
    process = subprocess.Popen(
        [*limits, *map(str, command)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "LC_ALL": "C"},
        start_new_session=True,
    )
    try:
        out, said = process.communicate(timeout=seconds)
        return Ran(process.returncode, out, said.decode(errors="replace"))
    except subprocess.TimeoutExpired:
        return Ran(None, b"", f"didn't end in {seconds:g} s")
    finally:
        if process.returncode is None:
            os.killpg(process.pid, 9)
            process.communicate()


def compile_command(
    way: Configuration, level: str, source: Path, options: Sequence[str], plugin: bool
) -> list[str]:
    cxx = source.suffix in (".C", ".cc", ".cpp")
    warnings = [] if way.gcc else ["-Wno-everything", "-Wbackend-plugin"]
    flags = list(way.flags) if plugin else []
    if way.lto and not plugin:
        flags = [f"-flto={way.lto}", "-fuse-ld=lld"]
    compiler = way.cxx if cxx else way.c
    # The name of the file, not its folder, is in the object.
    return [compiler, *warnings, f"-{level}", *flags, *options, *CSMITH, "-c"]


def compare(
    way: Configuration,
    level: str,
    source: Path,
    options: Sequence[str],
    folder: Path,
    execute: bool = True,
    succeeds: bool = False,
) -> Verdict:
    """What became of a program, in an empty folder. One that ends with another code than 0 is
    unfit if it `succeeds` when all is well."""
    made: dict[bool, Path] = {}
    said = ""
    for plugin in (False, True):
        target = folder / ("plugin.o" if plugin else "stock.o")
        command = compile_command(way, level, source, options, plugin)
        if way.lto:  # a program, or else an object
            command[-1:] = ["-lm"] if execute else ["-r", "-nostdlib"]
        command += [source.name, "-o", str(target)]
        done = run(command, source.parent, COMPILING)
        if plugin and done.code is None:  # the machine may have been busy
            done = run(command, source.parent, 10 * COMPILING)
        if done.code != 0 or not target.is_file():
            last = "\n".join(done.said.splitlines()[-5:])
            return Verdict("crashed", last) if plugin else Verdict(UNFIT, last)
        made[plugin] = target
        said = done.said
    if "crashed" in said:
        return Verdict("crashed", said)
    refused = "[-Wbackend-plugin]" in said or "warning: gcc-settings:" in said
    if made[False].read_bytes() == made[True].read_bytes():
        return Verdict("refused" if refused else "same", said)
    sizes = [file_executable_bytes(made[plugin]) for plugin in (False, True)]
    if way.never_larger and sizes[1] > sizes[0]:
        return Verdict("larger", f"{sizes[1]} executable bytes, stock {sizes[0]}")
    if not execute:
        return Verdict("changed")
    answers = []
    for plugin in (False, True):
        program = folder / f"program-{plugin}"
        driver = way.cxx if source.suffix in (".C", ".cc", ".cpp") else way.c
        if way.lto:
            program = made[plugin]
        else:
            command = [driver, *options, str(made[plugin]), "-o", str(program), "-lm"]
            linked = run(command, folder, COMPILING)
            if linked.code != 0:
                why = f"can't be linked: {linked.said[-500:]}"
                return Verdict("wrong" if plugin else UNFIT, why)
        first = run([program], folder, RUNNING * (10 if plugin else 1), MEMORY)
        if not plugin:
            again = run([program], folder, RUNNING, MEMORY)
            if first.code is None or (first.code, first.out) != (again.code, again.out):
                return Verdict(UNFIT, "ends in no time, or not twice in the same way")
            if succeeds and first.code != 0:
                return Verdict(UNFIT, f"ends with {first.code}")
        answers.append((first.code, first.out))
    if answers[0] != answers[1]:
        return Verdict("wrong", f"{answers[1]} instead of {answers[0]}")
    return Verdict("changed")


def clean(source: Path, folder: Path) -> bool:
    """Whether a program has no undefined behaviour that sanitizers or warnings see."""
    program = folder / "sanitized"
    cxx = source.suffix in (".C", ".cc", ".cpp")
    command = ["clang++-22" if cxx else "clang-22", "-O1", "-g", SANITIZERS]
    command += ["-fno-sanitize-recover=all", "-Werror=return-type", "-Werror=uninitialized"]
    command += ["-Werror=implicit-function-declaration", "-Werror=incompatible-pointer-types"]
    command += ["-Werror=sometimes-uninitialized", "-Werror=conditional-uninitialized"]
    done = run([*command, *CSMITH, source, "-o", program, "-lm"], folder, COMPILING)
    return done.code == 0 and run([program], folder, 4 * RUNNING).code == 0


def again(way: Configuration, seed: int, level: str, options: Sequence[str]) -> str:
    """The command that shows a verdict again, with {0} for the program."""
    script = Path(__file__).resolve()
    given = [f"--way={way.optimization}/{way.name}", f"--seed={seed}", f"--level={level}"]
    tail = ["--", *options] if options else []
    return shlex.join([sys.executable, str(script), *given, "{0}", *tail])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("options", nargs="*", help="of the compiler, after --")
    parser.add_argument("--way", required=True, metavar="OPTIMIZATION/NAME")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--level", required=True)
    parser.add_argument("--expect", metavar="KIND")
    arguments = parser.parse_args()
    optimization, _, name = arguments.way.partition("/")
    if (optimization, name) not in LEVELS:
        known = ", ".join("/".join(key) for key in LEVELS)
        parser.error(f"--way {arguments.way}: expected one of {known}")
    chosen = way(optimization, name, arguments.seed)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        source = arguments.source.resolve()
        verdict = compare(chosen, arguments.level, source, arguments.options, folder)
        if arguments.expect:
            return 0 if verdict.kind == arguments.expect and clean(source, folder) else 1
    print(f"{verdict.kind}: {verdict.why}" if verdict.why else verdict.kind)
    return 1 if verdict.kind in ("wrong", "crashed", "larger") else 0


if __name__ == "__main__":
    sys.exit(main())
