# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sizes of a build, or of a program built in two ways: by program, file and function."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..elf import code_bytes, has_code, is_object
from ..reading import read_file
from . import charts
from .page import Cell, Column, Figure, Part, Section, Table

#: Files and functions in a chart.
MOST = 4000
Files = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Build:
    """A program: the executable bytes of functions by file, after and, if known, before."""

    program: str
    after: Files
    before: Files | None = None


def read(path: Path) -> Files:
    """The object files in a folder, or if it has none the executables; or a file."""
    if path.is_file():
        return {path.name: _functions(path)}
    found: dict[bool, list[Path]] = {True: [], False: []}
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            file = Path(folder, name)
            if not file.is_file() or file.is_symlink():
                continue
            with file.open("rb") as opened:
                start = opened.read(18)
            if has_code(start):
                found[is_object(start)].append(file)
    return {str(file.relative_to(path)): _functions(file) for file in found[True] or found[False]}


def _functions(path: Path) -> Mapping[str, int]:
    return code_bytes(read_file(path), str(path))


def compared(builds: Sequence[Build]) -> list[Build]:
    """Two builds of the same as one, the second beside the first; others as they are."""
    if len(builds) != 2:
        return list(builds)
    before, after = (build.after for build in builds)
    if len(before) == len(after) == 1:  # files that may have different names
        before = dict(zip(after, before.values(), strict=True))
    name = " → ".join(dict.fromkeys(build.program for build in builds))
    return [Build(name, after, before)]


def _demangled(names: Iterable[str]) -> dict[str, str]:
    """C++ names as people write them, if c++filt or LLVM's is there."""
    mangled = sorted(name for name in names if name.startswith("_Z") and "\n" not in name)
    tool = shutil.which("c++filt") or shutil.which("llvm-cxxfilt-22")
    if not mangled or tool is None:
        return {}
    try:
        done = subprocess.run(
            [tool], input="\n".join(mangled), capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    plain = done.stdout.splitlines()
    return dict(zip(mangled, plain, strict=True)) if len(plain) == len(mangled) else {}


@dataclass(frozen=True)
class _Row:
    program: str
    file: str
    function: str
    bytes: int
    before: int | None

    def as_json(self) -> dict[str, Any]:
        known = {} if self.before is None else {"before": self.before}
        return {
            "program": self.program,
            "file": self.file,
            "function": self.function,
            "bytes": self.bytes,
            **known,
        }


def _rows(build: Build) -> list[_Row]:
    """A row for each function."""
    names = {name for functions in build.after.values() for name in functions}
    plain = _demangled(names)
    before = build.before or {}
    rows = []
    files = list(dict.fromkeys((*build.after, *before)))
    short = _short(files)
    for file in files:
        functions, old = build.after.get(file, {}), before.get(file, {})
        for name in dict.fromkeys((*functions, *old)):
            was = old.get(name, 0) if build.before is not None else None
            called = plain.get(name, name) or "(no name)"
            rows.append(_Row(build.program, short[file], called, functions.get(name, 0), was))
    return rows


def _by(rows: Iterable[_Row], *names: str) -> dict[tuple[str, ...], list[_Row]]:
    """The rows of each program, or of each file."""
    found: dict[tuple[str, ...], list[_Row]] = {}
    for row in rows:
        found.setdefault(tuple(getattr(row, name) for name in names), []).append(row)
    return found


def _summed(rows: Sequence[_Row], program: str, file: str = "", function: str = "") -> _Row:
    """The sum of rows, with these names."""
    known = [row.before for row in rows if row.before is not None]
    total = sum(row.bytes for row in rows)
    return _Row(program, file, function, total, sum(known) if known else None)


def _short(paths: Sequence[str]) -> dict[str, str]:
    """Paths without the folders that all have."""
    common = os.path.commonpath([*map(os.path.dirname, paths)])
    return {path: os.path.relpath(path, common) if common else path for path in paths}


def _of(sources: Sequence[Any]) -> list[Build]:
    return [one for one in sources if isinstance(one, Build) and (one.after or one.before)]


def sizes(sources: Sequence[Any]) -> Iterable[Part]:
    """A treemap, and tables by program, file and function."""
    functions = [row for build in _of(sources) for row in _rows(build)]
    functions.sort(key=lambda row: -row.bytes)
    files = [_summed(rows, *key) for key, rows in _by(functions, "program", "file").items()]
    programs = [_summed(rows, *key) for key, rows in _by(files, "program").items()]
    with_before = any(row.before is not None for row in programs)
    smaller = [
        _summed(rows, program, file, f"({len(rows)} smaller functions)")
        for (program, file), rows in _by(functions[MOST:], "program", "file").items()
    ]
    leaves = [*files[:MOST], *functions[:MOST], *smaller[:MOST]]
    what = "; green is smaller than before, red larger, at most 30 %" if with_before else ""
    if len(functions) > 1:
        yield Figure(
            f"Executable bytes by program, file and function{what}",
            charts.treemap([row.as_json() for row in leaves], with_before),
        )
    if len(programs) > 1:
        yield _table("Executable bytes of programs", programs, with_before, ("program",))
    yield _table("Executable bytes of files", files, with_before, ("program", "file"))
    yield _table(
        "Executable bytes of functions", functions, with_before, ("program", "file", "function")
    )


def _table(caption: str, rows: Iterable[_Row], compared: bool, names: Sequence[str]) -> Table:
    """Rows with the largest change first, or the largest; the sum last."""
    listed = list(rows)
    if len({row.program for row in listed}) == 1 and len(names) > 1:
        names = names[1:]

    def line(row: _Row, cells: Sequence[Cell]) -> list[Cell]:
        if not compared:
            return [*cells, row.bytes]
        before = row.before or 0
        ratio = row.bytes / before if before else None
        return [*cells, before, row.bytes, row.bytes - before, ratio]

    def order(row: _Row) -> tuple[int, int]:
        return -abs(row.bytes - (row.before if row.before is not None else row.bytes)), -row.bytes

    columns = [*map(Column, names), Column("bytes")]
    if compared:
        columns[-1:] = [Column("before"), Column("after"), Column("change", "+,d")]
        columns.append(Column("ratio", ".4f"))
    total = _summed(listed, "")
    return Table(
        caption + (", largest change first" if compared else ", largest first"),
        columns,
        [line(row, [getattr(row, name) for name in names]) for row in sorted(listed, key=order)],
        [line(total, ["total", *[None] * (len(names) - 1)])],
    )


SECTIONS = (Section("Where the bytes are", lambda sources: bool(_of(sources)), sizes),)
