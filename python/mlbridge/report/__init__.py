# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reports: one HTML file about evaluations, builds, recordings and trainings (docs/report.md).

`read` finds out what paths are, `write` makes the page. A kind of source is a module with a
`SECTIONS`; each section says whether it applies to what a page is made from.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..elf import has_code
from ..errors import InvalidModel, NotFound
from ..outputs import must_begin_with, write_whole
from ..reading import open_file, read_json
from ..recording import MAGIC
from ..specializing import decisions_file
from . import decisions, evaluation, sizes, specialization, training
from .page import PICTURES, Figure, library, page, picture

__all__ = ["PICTURES", "chart", "decisions", "evaluation", "labels", "library", "of_validation"]
__all__ += ["read", "sizes", "write"]
SECTIONS = (
    *evaluation.SECTIONS,
    *sizes.SECTIONS,
    *training.SECTIONS,
    *specialization.SECTIONS,
    *decisions.SECTIONS,
)
REPORT, RECORDING, TRIALS = "report.json", ".mlbrec", ".trials.json"
EXPECTED = (
    "expected the report.json of `mlbridge validate` or `make demo`, a decisions file, a recording,"
    " the folder of a training, or object files"
)


def read(paths: Sequence[str | os.PathLike[str]]) -> list[Any]:
    """The sources of a page. Raises NotFound, InvalidModel or Unsupported for what is none."""
    found: list[Any] = []
    builds: list[sizes.Build] = []
    for path, name in zip(paths, labels(paths), strict=True):
        for one in _read(Path(path), name):
            (builds if isinstance(one, sizes.Build) else found).append(one)
    return [*found, *(sizes.compared(builds) if len(paths) == len(builds) == 2 else builds)]


def _read(path: Path, name: str) -> list[Any]:
    if not path.exists():
        raise NotFound(f"{path}: there is no such file or folder; {EXPECTED}")
    if path.is_dir():
        return _folder(path, name)
    if path.name == training.PROGRESS:
        return [*training.read(path.parent, name)]
    with open_file(path) as file:
        start = file.read(64)
    if has_code(start):
        return [sizes.Build(name, sizes.read(path))]
    if start.startswith((decisions_file.PROFILE, b"PK\x03\x04")):
        return [specialization.read(decisions_file.read(path), name)]
    if start.startswith(MAGIC):
        return [decisions.read([path], name)]
    if path.name.endswith(TRIALS):
        return [decisions.read_trials([path], name)]
    if start.lstrip()[:1] == b"{":
        return [evaluation.read(read_json(path), name)]
    got = "something else" if start else "an empty file"
    if start.startswith(b"BC\xc0\xde"):
        got = "LLVM bitcode, as -flto makes it: give the linked program"
    raise InvalidModel(f"{path}: {EXPECTED}, got {got}")


def _folder(path: Path, name: str) -> list[Any]:
    found: list[Any] = [*training.read(path, name)]
    if (path / REPORT).is_file():
        found.append(evaluation.read(read_json(path / REPORT), name))
    found += of_validation(path)
    found += decisions_in(path, name)
    if not found and (files := sizes.read(path)):
        found.append(sizes.Build(name, files))
    if not found:
        raise InvalidModel(f"{path}: {EXPECTED}, got a folder without any of these")
    return found


def decisions_in(folder: Path, name: str) -> list[Any]:
    """The recordings and logs of candidates in a folder of `mlbridge flags --log`."""
    recordings, logs = (sorted(folder.glob(f"*{end}")) for end in (RECORDING, TRIALS))
    found: list[Any] = [decisions.read(recordings, name)] if recordings else []
    return [*found, decisions.read_trials(logs, name)] if logs else found


def of_validation(work: Path) -> list[Any]:
    """The builds and decisions in the folder of `mlbridge validate --work`."""
    found: list[Any] = []
    for tree in sorted(work.glob("*-*/policy")):
        name = tree.parent.name.partition("-")[2]
        if (before := tree.with_name("baseline")).is_dir():
            found.append(sizes.Build(name, sizes.read(tree), sizes.read(before)))
        counted, logs = (tree.with_name(f"policy{way}.decisions") for way in ("-counted", ""))
        found += decisions_in(counted if counted.is_dir() else logs, name)
    return found


def labels(paths: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Names that differ where the paths do, without what is the same at their begin and end."""
    parts = [Path(path).absolute().parts for path in paths]
    if len(parts) == 1:
        return [parts[0][-1]]
    same = len(Path(os.path.commonpath([Path(*one[:-1]) for one in parts])).parts)
    parts = [one[same:] for one in parts]
    while min(map(len, parts)) > 1 and len({one[-1] for one in parts}) == 1:
        parts = [one[:-1] for one in parts]
    return ["/".join(one) for one in parts]


def write(output: str | os.PathLike[str], sources: Sequence[Any], title: str) -> None:
    """Write the page. Raises InvalidArgument if the file is there and no page, NotFound if the
    package that draws is missing, OSError if the file can't be written."""
    must_begin_with(output, b"<!doctype html>", "page")
    several = len({one.name for one in sources if hasattr(one, "about")}) > 1
    about = [
        f"{one.name}: {text}" if several else text
        for one in sources
        for text in getattr(one, "about", ())
    ]
    shown = [(one.title, list(one.parts(sources))) for one in SECTIONS if one.applies(sources)]
    write_whole(output, page(title, about, shown))


def chart(evaluated: evaluation.Evaluation, form: str) -> bytes:
    """Sizes above, times below, as an image; raises as `write`."""
    parts = [*evaluation.sizes([evaluated]), *evaluation.times([evaluated])]
    return picture([part for part in parts if isinstance(part, Figure)], form)
