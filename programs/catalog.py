# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The list of programs in catalog.toml, read and checked."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomllib

HERE = Path(__file__).resolve().parent
CATALOG = HERE / "catalog.toml"
ROOT = HERE.parent
SETS = ("training", "validation", "test-A", "test-B", "test-C", "test-D", "demo")
_MIBENCH = (
    *("lame", "libmad", "hunspell", "tre", "pcre2", "libtomcrypt", "mbedtls", "crypto++"),
    *("libgsm", "zlib", "kissfft", "fftw3"),
)
#: Programs of what these suites are made of, from several sets (README.md).
SUITES = {"mibench-like": _MIBENCH, "cbench-like": (*_MIBENCH, "bzip2")}


class ProgramsError(Exception):
    """What went wrong with a program, where, and what to do about it."""


@dataclass(frozen=True)
class Program:
    """One entry of the catalog; the keys are explained at the top of catalog.toml."""

    name: str
    set: str
    kind: str
    package: str
    files: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    libs: tuple[str, ...] = ()
    executables: tuple[tuple[str, tuple[str, ...]], ...] = ()
    drivers: tuple[str, ...] = ()
    test: tuple[tuple[str, ...], ...] = ()
    workloads: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = ()
    generate: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = ()

    @property
    def config(self) -> Path:
        """Our own generated headers for this program; may not exist."""
        return HERE / "config" / self.name

    @property
    def inputs(self) -> Path:
        """Our own inputs for this program's test and workloads; may not exist."""
        return HERE / "inputs" / self.name

    @property
    def own_drivers(self) -> Path:
        """Our own main programs for a library; may not exist."""
        return HERE / "drivers" / self.name

    @property
    def work(self) -> tuple[tuple[str, ...], ...]:
        """The commands of all workloads, one after the other."""
        return tuple(command for _, commands in self.workloads for command in commands)

    def sources(self, tree: Path) -> list[str]:
        """The C files to compile, relative to `tree`, in a fixed order."""
        found: dict[str, None] = {}
        for pattern in self.files:
            paths = tree.glob(pattern.removeprefix("?"))
            matches = sorted(path.relative_to(tree).as_posix() for path in paths)
            if not matches and not pattern.startswith("?"):
                raise ProgramsError(f"{self.name}: no file matches {pattern} in {tree}")
            found.update(dict.fromkeys(matches))
        for pattern in self.exclude:
            for path in tree.glob(pattern):
                found.pop(path.relative_to(tree).as_posix(), None)
        return list(found)

    def write_generated(self, tree: Path) -> None:
        """Write the files under `generate` into a source tree, as a configure step would."""
        for target, template, values in self.generate:
            try:
                text = (tree / template).read_text(encoding="utf-8", errors="surrogateescape")
            except OSError as error:
                raise ProgramsError(f"{self.name}: template of {target}: {error}") from error
            for key, value in values:
                text = text.replace(key, value)
            (tree / target).parent.mkdir(parents=True, exist_ok=True)
            (tree / target).write_text(text, encoding="utf-8", errors="surrogateescape")


_LISTS = ("files", "exclude", "flags", "libs", "drivers")


def _strings(where: str, value: Any) -> tuple[str, ...]:
    """A list of strings of a TOML file."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ProgramsError(f"{where}: expected a list of strings, got {value!r}")
    return tuple(value)


def _commands(where: str, value: Any) -> tuple[tuple[str, ...], ...]:
    if not isinstance(value, list):
        raise ProgramsError(f"{where}: expected a list of commands, got {value!r}")
    return tuple(_strings(where, words) for words in value)


def _program(index: int, entry: dict[str, Any]) -> Program:
    where = f"catalog entry {index} ({entry.get('name', 'without a name')})"
    if entry.get("set") not in SETS:
        got = repr(entry.get("set"))
        raise ProgramsError(f"{where}: set is {got}, expected one of {', '.join(SETS)}")
    made = dict(entry)
    for key in _LISTS:
        if key in entry:
            made[key] = _strings(f"{where}: {key}", entry[key])
    made["executables"] = tuple(
        (name, _strings(f"{where}: executables.{name}", files))
        for name, files in entry.get("executables", {}).items()
    )
    made["test"] = _commands(f"{where}: test", entry.get("test", []))
    try:
        made["workloads"] = tuple(
            (name, _commands(f"{where}: workloads.{name}", commands))
            for name, commands in entry.get("workloads", {}).items()
        )
        made["generate"] = tuple(
            (item["to"], item["from"], tuple(item.get("values", {}).items()))
            for item in entry.get("generate", [])
        )
        return Program(**made)
    except (AttributeError, KeyError, TypeError) as error:  # a key is missing or unknown
        raise ProgramsError(f"{where}: {error}") from error


def load(path: Path = CATALOG) -> list[Program]:
    """All programs. A name or a package that occurs twice is an error, so the sets stay apart."""
    with path.open("rb") as file:
        try:
            entries = tomllib.load(file).get("program", [])
        except tomllib.TOMLDecodeError as error:
            raise ProgramsError(f"{path}: {error}") from error
    programs = [_program(index, entry) for index, entry in enumerate(entries)]
    for key in ("name", "package"):
        values = Counter(getattr(program, key) for program in programs)
        for value, count in values.items():
            if count > 1:
                raise ProgramsError(f"{path}: {key} {value} is listed twice")
    return programs


def select(programs: list[Program], names: list[str]) -> list[Program]:
    """The programs named by `names`: names of sets, suites or programs; none means all."""
    if not names:
        return programs
    known = {program.name for program in programs} | set(SETS) | set(SUITES)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ProgramsError(
            f"no program or set called {', '.join(unknown)}; programs: "
            f"{', '.join(program.name for program in programs)}; sets: "
            f"{', '.join((*SETS, *SUITES))}"
        )
    wanted = {one for name in names for one in SUITES.get(name, (name,))}
    return [p for p in programs if p.name in wanted or p.set in wanted]
