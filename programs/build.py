# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compile, link and run the catalog's programs from their lists of files.

    python3 -m programs.build [--flags=-Oz] [--compiler clang-22] [--workloads] [demo|NAME ...]

Every file is compiled in the top of its source tree under its relative name, so an object does not
depend on where the tree lies.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from mlbridge.elf import file_executable_bytes
from mlbridge.process_runner import Ran
from programs import work
from programs.catalog import Program, ProgramsError, load, select
from programs.fetch import BUILD, fetch, run, source_tree

COMPILE_TIMEOUT = 300.0
TEST_TIMEOUT = 60.0
# Clang's: warnings of other people's code are no news, but the compiler plugin's are.
WARNINGS = ("-Wno-everything", "-Wbackend-plugin")


#: The variables that programs run with.
VARIABLES = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


@dataclass(frozen=True)
class Compiled:
    """One compiled file."""

    source: str
    object: Path
    ran: Ran


def output_name(source: str, suffix: str) -> str:
    """The name of what is made from `source`, unique in a program."""
    return source.replace("{own}", "own").replace("/", "__").removesuffix(".c") + suffix


def compile_command(
    program: Program,
    source: str,
    compiler: Sequence[str] = ("clang-22",),
    flags: Sequence[str] = ("-Oz",),
) -> list[str]:
    """What compiles one file, in the top of the program's sources."""
    standard = "-std=gnu17" if source.endswith(".c") else "-std=gnu++17"
    include = [f"-I{program.config}"] if program.config.is_dir() else []
    if "{own}" in source:
        include.append("-I.")
    warnings = WARNINGS if "clang" in compiler[0] else ()
    path = source.replace("{own}", str(program.own_drivers))
    if path != source:
        include.append("-I.")  # our own file, which includes headers of the source tree
    return [*compiler, standard, *warnings, *include, *program.flags, *flags, "-c", path]


def compile_file(
    program: Program,
    source: str,
    target: Path,
    compiler: Sequence[str] = ("clang-22",),
    flags: Sequence[str] = ("-Oz",),
    build: Path = BUILD,
) -> Compiled:
    """Compile one file of a fetched program into the absolute path `target`."""
    command = [*compile_command(program, source, compiler, flags), "-o", str(target)]
    ran = run(command, source_tree(program, build), COMPILE_TIMEOUT)
    if ran.code != 0 or not target.is_file():
        raise ProgramsError(
            f"{program.name}: {source}: the compiler ended with {ran.code}\n"
            f"{' '.join(command)}\n{ran.stderr.text[-4000:]}"
        )
    return Compiled(source, target, ran)


def compile_program(
    program: Program,
    output: Path,
    compiler: Sequence[str] = ("clang-22",),
    flags: Sequence[str] = ("-Oz",),
    jobs: int = 2,
    build: Path = BUILD,
    suffix: str = ".o",
    pool: Executor | None = None,
    *,
    drivers: bool = False,
) -> list[Compiled]:
    """Compile all files of a fetched program into the folder `output`; the first error raises.

    The workers are those of `pool`, or else `jobs` new ones. With `drivers`, what is needed to run
    it is compiled too.
    """
    sources = program.sources(source_tree(program, build))
    if drivers:
        sources += program.drivers
    output.mkdir(parents=True, exist_ok=True)

    def one(source: str) -> Compiled:
        target = output.resolve() / output_name(source, suffix)
        return compile_file(program, source, target, compiler, flags, build)

    with nullcontext(pool) if pool else ThreadPoolExecutor(max_workers=jobs) as workers:
        started = [workers.submit(one, source) for source in sources]
        try:
            return [future.result() for future in started]
        except BaseException:
            for future in started:
                future.cancel()
            wait(started)
            raise


def files_of_executable(files: Sequence[str], compiled: Iterable[str]) -> list[str]:
    """What `files` of an executable stand for: "?NAME" may be missing, "src/*.c" are all such, and
    "!NAME" takes away from those before it."""
    found: dict[str, None] = {}
    every = list(compiled)
    for name in files:
        if name.startswith("!"):
            for gone in fnmatch.filter(found, name[1:]):
                del found[gone]
        elif "*" in name:
            found.update(dict.fromkeys(fnmatch.filter(every, name)))
        elif not name.startswith("?") or name[1:] in every:
            found[name.removeprefix("?")] = None
    return list(found)


def link_program(
    program: Program,
    compiled: Sequence[Compiled],
    output: Path,
    compiler: Sequence[str] = ("clang-22",),
) -> list[Path]:
    """Link the program's executables into the folder `output`."""
    output.mkdir(parents=True, exist_ok=True)
    objects = {item.source: item.object for item in compiled}
    executables = program.executables or ((program.name, tuple(objects)),)
    linked: list[Path] = []
    for name, files in executables:
        sources = files_of_executable(files, objects)
        missing = [source for source in sources if source not in objects]
        if missing:
            raise ProgramsError(f"{program.name}: {name}: not compiled: {', '.join(missing)}")
        target = output.resolve() / name
        inputs = [str(objects[source]) for source in sources]
        ran = run([*compiler, *inputs, *program.libs, "-o", str(target)], output, COMPILE_TIMEOUT)
        if ran.code != 0:
            raise ProgramsError(f"{program.name}: linking {name} failed\n{ran.stderr.text[-4000:]}")
        linked.append(target)
    return linked


@dataclass(frozen=True)
class Command:
    """A command of the catalog: the executable's name and its arguments, with files relative to the
    folder in which it runs."""

    words: tuple[str, ...]
    stdin: str | None
    stdout: str | None
    code: int
    variables: tuple[tuple[str, str], ...]


def command_of(program: Program, line: Sequence[str], build: Path = BUILD) -> Command:
    """A line of a test or workload."""
    places = {
        "{src}": str(source_tree(program, build).resolve()),
        "{inputs}": str(program.inputs),
        "{work}": str(build.resolve() / "work"),
    }
    words = list(line)
    for name, place in places.items():
        words = [word.replace(name, place) for word in words]
    stdin = next((word[1:] for word in words if word.startswith("<")), None)
    stdout = next((word[1:] for word in words if word.startswith(">")), None)
    words = [word for word in words if word[:1] not in ("<", ">")]
    code = int(words.pop(0)[1:]) if words[0].startswith("?") else 0
    variables: list[tuple[str, str]] = []
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        variables.append((name, value))
    return Command(tuple(words), stdin, stdout, code, tuple(variables))


def run_test(
    program: Program,
    executables: Path,
    folder: Path,
    build: Path = BUILD,
    emulator: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> bytes:
    """Run the program's own test; everything it printed and wrote, as bytes to compare.

    `run_test(replace(program, test=program.work), …)` runs what keeps it busy.

    The commands run in `folder`, which has an empty folder "scratch" whose files are not compared.
    What the words of a command mean is said at the top of catalog.toml. A command that ends with
    another exit code than the expected one, or takes longer than a minute, raises. `emulator` runs
    executables of another machine.
    """
    if folder.exists():
        shutil.rmtree(folder)
    (folder / "scratch").mkdir(parents=True)
    report: list[bytes] = []
    for line in program.test:
        command = command_of(program, line, build)
        variables = {**VARIABLES, **dict(command.variables)}
        for name, value in (env or {}).items():
            variables[name] = value.replace("{executable}", command.words[0])
        stdin = folder / command.stdin if command.stdin else None
        stdout, expected = command.stdout, command.code
        words = [*emulator, str(executables.resolve() / command.words[0]), *command.words[1:]]
        ran = run(words, folder, TEST_TIMEOUT, stdin, variables)
        if ran.code != expected:
            raise ProgramsError(
                f"{program.name}: {' '.join(line)} ended with {ran.code}, expected {expected}: "
                f"{ran.stderr.text[-1000:]}"
            )
        if stdout:
            (folder / stdout).write_bytes(ran.stdout.head)
        report.append(f"$ {' '.join(line)}\n".encode())
        shown = b"" if stdout and stdout.startswith("scratch/") else bytes(ran.stdout.head)
        report.append(shown + f"\n[exit {ran.code}]\n".encode())
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.relative_to(folder).parts[0] != "scratch":
            report.append(f"\n[file {path.relative_to(folder)}]\n".encode())
            report.append(path.read_bytes())
    return b"".join(report)


def text_bytes(compiled: Sequence[Compiled]) -> int:
    """Bytes of executable sections of the program's own objects."""
    return sum(file_executable_bytes(item.object) for item in compiled)


def fallback_warnings(compiled: Sequence[Compiled]) -> list[str]:
    """The plugin's warnings that it used the stock pipeline, one for each file that did."""
    return [
        f"{item.source}: {line.strip()}"
        for item in compiled
        for line in item.ran.stderr.head.decode(errors="replace").splitlines()
        if "backend-plugin" in line
    ]


def with_workloads(names: list[str]) -> list[Program]:
    """The programs of these names, or sets, that have workloads; fetched, with what these read."""
    programs = [program for program in select(load(), names) if program.workloads]
    if not programs:
        raise ProgramsError(f"none of {', '.join(names)} has workloads")
    fetch(programs)
    work.write(BUILD / "work")
    return programs


def main(arguments: list[str]) -> int:
    """Command line."""
    about = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="programs.build", description=about)
    parser.add_argument("names", nargs="*", help="sets or programs (default: all)")
    parser.add_argument("--compiler", default="clang-22")
    parser.add_argument("--flags", default="-Oz", help="flags, separated by spaces")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--workloads", action="store_true", help="run these too")
    options = parser.parse_args(arguments)
    failed = 0
    try:
        programs = select(load(), options.names)
        fetch(programs)
        if options.workloads:
            work.write(BUILD / "work")
    except ProgramsError as error:
        print(f"build: {error}", file=sys.stderr)
        return 1
    for program in programs:
        output = BUILD / "built" / program.name
        try:
            compiler = options.compiler.split()
            runs = program.test or (program.workloads if options.workloads else ())
            compiled = compile_program(
                program,
                output / "objects",
                compiler,
                options.flags.split(),
                options.jobs,
                drivers=bool(runs),
            )
            tested = "compiled"
            if runs:
                link_program(program, compiled, output / "bin", compiler)
            if program.test:
                result = run_test(program, output / "bin", output / "work")
                tested = f"its test gave {len(result)} bytes"
            for name, commands in program.workloads if options.workloads else ():
                began = time.perf_counter()
                busy = replace(program, test=commands)
                result = run_test(busy, output / "bin", output / "work")
                seconds = time.perf_counter() - began
                tested += f"; {name}: {len(result)} bytes in {seconds:.2f} s"
        except ProgramsError as error:
            print(f"build: {error}", file=sys.stderr)
            failed += 1
            continue
        size = f"{len(compiled):3d} files {text_bytes(compiled):8d} bytes"
        print(f"{program.set:10s} {program.name:12s} {size}  {tested}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
