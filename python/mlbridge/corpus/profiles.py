# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How often the functions of a corpus run: an instrumented build, workloads, and their counts.

profiles/PROGRAM.parquet    a row for each function of the program's modules and each workload
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from .. import profdata
from ..errors import DeadlineExceeded, Error, InvalidArgument, InvalidModel, NotFound
from ..process_runner import run, run_tool
from ..profdata import Counts, Key
from . import record as recorder
from .adding import wrappers
from .arrow import arrow
from .store import (
    WRAPPERS,
    Corpus,
    FunctionCounts,
    Module,
    lock,
    read_profile,
    write_profile,
)

#: The part of a workload's counts that functions of no module may have, before it is worth saying.
UNKNOWN_SHARE = 0.01
_COPYING = 600.0  # seconds
_OUTPUT = 1 << 30  # bytes that are kept of a tool's output
_DEFINED = re.compile(rb'^define ([^@\n]*)@("[^"\n]*"|[-\w.$]+)\(', re.MULTILINE)
_ESCAPED = re.compile(rb"\\([0-9A-Fa-f]{2})")
_STATIC = {b"internal", b"private"}
_SHARED = {b"linkonce", b"linkonce_odr", b"weak", b"weak_odr"}


class Function(NamedTuple):
    """A function that a module defines."""

    name: str
    static: bool
    shared: bool


@dataclass(frozen=True)
class Workload:
    """A command that was run, and what it said of the functions of the modules."""

    name: str
    command: str
    code: int | None  #: its exit code, negative for a signal; None if it had to be ended
    seconds: float  #: of a build that counts, which takes longer than another
    ran: int = 0  #: functions
    never_ran: int = 0
    unknown: int = 0


@dataclass
class Profiled:
    """The result of `profile`."""

    program: str
    workloads: list[Workload] = field(default_factory=list)
    #: What a user should know, a line each.
    remarks: list[str] = field(default_factory=list)


def functions_of(bitcode: Path) -> list[Function]:
    """The functions that a module emits, in their order. InvalidModel."""
    command = ["llvm-dis-22", "-o", "-", str(bitcode)]
    try:
        text = run_tool(
            command, timeout=recorder.LIMIT, keep=_OUTPUT, error=InvalidModel
        ).stdout.head
    except NotFound:
        raise NotFound("llvm-dis-22 is not there (Debian: llvm-22)") from None
    found = []
    for words, name in _DEFINED.findall(bytes(text)):
        linkage = set(words.split())
        if b"available_externally" in linkage:
            continue
        plain = _ESCAPED.sub(lambda m: bytes([int(m[1], 16)]), name.strip(b'"')).lstrip(b"\1")
        text_name = plain.decode(errors="surrogateescape")
        found.append(Function(text_name, bool(linkage & _STATIC), bool(linkage & _SHARED)))
    return found


Counted = Mapping[Key, Counts]
Defined = Mapping[str, tuple[Module, Sequence[Function]]]


class Join:
    """Finds the functions of a program's modules in the counts of its executables, in which static
    functions have their source as the modules have it."""

    def __init__(self, modules: Defined) -> None:
        """`modules` by their hashes."""
        self._modules = modules
        self._definers: dict[str, set[str]] = {}
        for module, functions in modules.values():
            for one in functions:
                if not one.static and not one.shared:
                    self._definers.setdefault(one.name, set()).add(module.source)
        self._own: dict[str, set[Key]] = {}
        for module, functions in modules.values():
            keys = {self._key(module, one) for one in functions if self._is_own(one)}
            self._own.setdefault(module.source, set()).update(keys)

    @staticmethod
    def _key(module: Module, function: Function) -> Key:
        return (module.source if function.static else None, function.name)

    def _is_own(self, function: Function) -> bool:
        """True if no other source has the function."""
        return function.static or (not function.shared and not self._has_namesakes(function))

    def _has_namesakes(self, function: Function) -> bool:
        return not function.static and len(self._definers.get(function.name, ())) > 1

    def _owner(self, executable: Counted, function: str) -> str | None:
        """The source of a function in an executable, if several have one of that name: the one
        whose other functions are there."""
        weights = {
            source: sum(key in executable for key in self._own[source])
            for source in self._definers[function]
        }
        best = max(weights.values())
        owners = [source for source, weight in weights.items() if weight == best]
        return owners[0] if best and len(owners) == 1 else None

    def counts(
        self, executables: Sequence[Counted]
    ) -> tuple[list[tuple[str, Function, Counts | None]], set[Key]]:
        """The functions of all modules with their counts in all executables together, by the hash
        of the module, and the keys of the executables that were found."""
        owners = {
            (number, name): self._owner(executable, name)
            for name, sources in self._definers.items()
            if len(sources) > 1
            for number, executable in enumerate(executables)
            if (None, name) in executable
        }
        rows: list[tuple[str, Function, Counts | None]] = []
        used: set[Key] = set()
        for digest, (module, functions) in self._modules.items():
            for one in functions:
                key = self._key(module, one)
                total: Counts | None = None
                for number, executable in enumerate(executables):
                    if key not in executable:
                        continue
                    used.add(key)
                    if self._has_namesakes(one) and owners[number, one.name] != module.source:
                        continue
                    total = total.plus(executable[key]) if total else executable[key]
                rows.append((digest, one, total))
        return rows, used


def _text(name: str) -> str:
    """A name that may not be UTF-8, as a column takes it."""
    return name.encode(errors="replace").decode()


def profile(
    corpus: Corpus,
    build: Sequence[str],
    runs: Mapping[str, str],
    program: str,
    *,
    tree: Path | None = None,
    timeout: float = 600.0,
    quiet: bool = False,
) -> Profiled:
    """Build a copy of `tree` (default: the current folder) with counters, run the commands in it,
    and keep the counts of the program's modules.

    Commands are split into words as a shell does, and run without one. One that fails is said, and
    its counts are kept. Raises NotFound and InvalidArgument if there is nothing to count.
    """
    modules = [module for module in corpus if module.program == program]
    if not modules:
        known = ", ".join(sorted({module.program for module in corpus})[:10]) or "none"
        raise NotFound(
            f"{corpus.path}: no program '{program}'; there are: {known}. "
            "`mlbridge corpus add` puts it there"
        )
    commands = {name: _words(name, command) for name, command in runs.items()}
    if not commands:
        raise InvalidArgument("no command is run, so nothing is counted; expected NAME=COMMAND")
    arrow()
    profdata.must_have_runtime()
    done = Profiled(program)
    with tempfile.TemporaryDirectory(
        prefix="mlbridge-profile-", ignore_cleanup_errors=True
    ) as temporary:
        folder = Path(temporary).resolve()
        # The copy has the name of the original, and its path is no longer.
        copy = folder / ((tree or Path.cwd()).resolve().name or "tree")
        _copy((tree or Path.cwd()).resolve(), copy)
        _build(corpus.path, build, copy, folder, quiet)
        join = Join({module.hash: (module, _functions(corpus, module)) for module in modules})
        rows: list[FunctionCounts] = []
        for name, words in commands.items():
            ran, executables = _run(name, words, copy, folder, timeout, done.remarks)
            counted = [_relative(one, copy) for one in executables]
            found = _joined(join, name, counted, modules, done.remarks)
            rows += found
            numbers = (
                sum(row.sum is not None and row.sum > 0 for row in found),
                sum(row.sum == 0 for row in found),
                sum(row.sum is None for row in found),
            )
            code, seconds = ran
            done.workloads.append(Workload(name, runs[name], code, seconds, *numbers))
        if all(row.sum is None for row in rows):
            raise InvalidArgument(
                f"no function that was counted is of {program}'s modules in {corpus.path}: was it "
                "built from another folder, or is it another program? Nothing is kept"
            )
        write_profile(corpus.path, program, rows)
    return done


def _words(name: str, command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:  # a quotation that does not end
        raise InvalidArgument(f"the command of {name}: {error}: {command[:200]}") from None
    if not words:
        raise InvalidArgument(f"the command of {name} is empty")
    return words


def _copy(tree: Path, copy: Path) -> None:
    ran = run(["cp", "-a", "--reflink=auto", "--", f"{tree}/.", str(copy)], timeout=_COPYING)
    if ran.code:
        raise InvalidArgument(f"{tree} can't be copied: {ran.reason}")


def _build(corpus: Path, command: Sequence[str], copy: Path, folder: Path, quiet: bool) -> None:
    """Run the build in the copy, with compilers that count."""
    place = folder / "instrument"
    place.mkdir()
    (place / recorder.FLAGS).write_text("\n".join(profdata.COMPILE_FLAGS) + "\n")
    with lock(corpus):
        variables = wrappers(corpus.absolute() / WRAPPERS / "clang")
    env = {name: value for name, value in os.environ.items() if name != "MLBRIDGE_CORPUS_INCOMING"}
    env |= variables
    env["MLBRIDGE_CORPUS_PROFILE"] = str(place)
    env["LLVM_PROFILE_FILE"] = str(folder / "while-building" / profdata.RAW_FILE)
    output = subprocess.DEVNULL if quiet else None
    try:
        ended = subprocess.run(command, cwd=copy, env=env, check=False, stdout=output)
    except OSError as error:
        raise NotFound(f"{command[0]}: cannot be run: {error.strerror}") from None
    if ended.returncode:
        raise InvalidArgument(
            f"`{shlex.join(command)}`, which builds a copy of the folder, ended with "
            f"{ended.returncode}"
        )
    if not (place / recorder.COMPILED).is_file():
        raise InvalidArgument(
            "no compilation by clang was seen. Pass CC=clang-22 and CXX=clang++-22 to the build; a "
            "compiler that is called by its path is not seen, and a build that is up to date "
            "compiles nothing (the folder is copied as it is: `make clean` first)"
        )


def _functions(corpus: Corpus, module: Module) -> list[Function]:
    with tempfile.TemporaryDirectory(prefix="mlbridge-corpus-") as folder:
        return functions_of(corpus.extract(module, folder))


def _run(
    name: str, words: list[str], copy: Path, folder: Path, timeout: float, remarks: list[str]
) -> tuple[tuple[int | None, float], list[dict[Key, Counts]]]:
    """Run a command; its exit code and seconds, and the counts of each executable that it ran."""
    raw = folder / "raw" / quote(name, safe=" ")
    env = {**os.environ, "LLVM_PROFILE_FILE": str(raw / profdata.RAW_FILE)}
    command = shlex.join(words)
    began = time.perf_counter()
    code: int | None = None
    try:
        ran = run(words, copy, env=env, timeout=timeout)
    except DeadlineExceeded:
        remarks.append(f"{name}: `{command}` was ended after {timeout:g} s; its counts are kept")
    else:
        code = ran.code
        if code:
            ended = f"by signal {-code}" if code < 0 else f"with {code}"
            remarks.append(f"{name}: `{command}` ended {ended}: {ran.reason}; its counts are kept")
    seconds = time.perf_counter() - began
    files = sorted(raw.glob("*.profraw")) if raw.is_dir() else []
    counted: list[dict[Key, Counts]] = []
    for file in files:
        try:
            counted.append(profdata.counts(file))
        except Error as error:
            remarks.append(f"{name}: counts that can't be read are left out: {error}")
    if not counted:
        raise InvalidArgument(
            f"{name}: `{command}` ran no program of the build, so nothing is counted"
            + (f" (it ended with {code})" if code else "")
        )
    return (code, seconds), counted


def _relative(counted: Counted, copy: Path) -> dict[Key, Counts]:
    """The counts with the sources of static functions as the corpus names them."""
    found: dict[Key, Counts] = {}
    for (file, function), counts in counted.items():
        source = None if file is None else os.path.relpath(copy / file, copy)
        found[source, function] = counts
    return found


def _joined(
    join: Join,
    workload: str,
    executables: Sequence[Counted],
    modules: Sequence[Module],
    remarks: list[str],
) -> list[FunctionCounts]:
    total = sum(counts.sum for one in executables for counts in one.values())
    by_hash = {module.hash: module for module in modules}
    found, used = join.counts(executables)
    unknown = [
        (counts.sum, key) for one in executables for key, counts in one.items() if key not in used
    ]
    missed = sum(counted for counted, _ in unknown)
    if total and missed / total > UNKNOWN_SHARE:
        (_, (file, function)) = max(unknown, key=lambda item: item[0])
        example = f"{function} of {file}" if file else function
        remarks.append(
            f"{workload}: {missed / total:.0%} of the counts are of {len(unknown)} functions, such "
            f"as {example}, that no module of the program has: was the source changed since the "
            "program was added?"
        )
    return [
        FunctionCounts(
            module=digest,
            program=by_hash[digest].program,
            source=by_hash[digest].source,
            function=_text(one.name),
            workload=workload,
            shared=one.shared,
            entry=counts.entry if counts else None,
            sum=counts.sum if counts else None,
            max=counts.max if counts else None,
            share=(counts.sum / total if total else 0.0) if counts else None,
        )
        for digest, one, counts in found
    ]


def programs(corpus: Corpus) -> dict[str, list[str]]:
    """The workloads of each program that was profiled."""
    found: dict[str, list[str]] = {}
    for program in dict.fromkeys(module.program for module in corpus):
        rows: Iterator[FunctionCounts] = iter(())
        with contextlib.suppress(NotFound):
            rows = read_profile(corpus.path, program)
        if names := [*dict.fromkeys(row.workload for row in rows)]:
            found[program] = names
    return found
