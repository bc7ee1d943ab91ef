# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `mlbridge specialize` has measured and chosen: its decisions file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidModel
from ..reading import shortly
from ..specializing.decisions_file import PROFILE, DecisionsFile
from . import charts
from .evaluation import interval
from .page import Cell, Column, Figure, Interval, Part, Section, Table

__all__ = ["PROFILE", "SECTIONS", "Found", "read"]
#: Steps by the first word of their names; what is compared may have been built within.
_STEPS = {
    "build ": "built",
    "relinks ": "built",
    "profile": "profiled",
    "try ": "outputs compared",
    "check ": "outputs compared",
    "problem ": "outputs compared",
    "first ": "timed: links",
    "more ": "timed: more levers",
    "tune ": "options tried",
    "tuned ": "timed: options",
    "leaders ": "timed: leaders",
    "confirm ": "timed: confirmed",
}
_RUNS, _FRESH, _ANEW = "the runs", "the runs that confirm", "the runs, anew"


@dataclass(frozen=True)
class Row:
    """A recipe as it was measured: on which runs, executable bytes over the build's own, times."""

    recipe: str
    runs: str
    bytes: float | None
    time: Interval | None
    commands: Mapping[str, Interval]


@dataclass(frozen=True)
class Found:
    """A specialization."""

    name: str
    chosen: str
    rows: Sequence[Row]
    repeat: Mapping[str, Interval]
    timeline: Sequence[Mapping[str, Any]]
    about: Sequence[str]
    remarks: Sequence[str]


def read(file: DecisionsFile, name: str) -> Found:
    """The contents of a decisions file. Raises InvalidModel if it is damaged."""
    try:
        return _read(file, name)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise InvalidModel(f"{name}: a damaged decisions file: {shortly(error)}") from None


def _read(file: DecisionsFile, name: str) -> Found:
    content = file.content
    settings = content["settings"]
    fresh = _FRESH if settings["confirm_runs"] else _ANEW
    rows = [*_rows(content["raced"], _RUNS), *_rows(content["confirmed"], fresh)]
    about = [
        f"chosen: {file.recipe.name}",
        f"built by `{settings['build']}` with {file.compiler}",
        f"$CFLAGS is {f'-{level}' if (level := settings['level']) else 'empty'}",
        f"{content['bytes']['none']:,} executable bytes as the build is",
    ]
    remarks = [
        f"{recipe} has {' '.join(f'-{name}={value}' for name, value in options)}"
        for recipe, options in content["tuned"].items()
    ]
    remarks += [f"{recipe} is left out: {text}" for recipe, text in content["problems"].items()]
    return Found(
        name,
        file.recipe.name,
        rows,
        _intervals(content["repeat"]),
        [_spent(str(step), float(at), float(took)) for step, at, took in content["timeline"]],
        about,
        [*remarks, *map(str, content["notes"])],
    )


def _rows(found: Mapping[str, Any], runs: str) -> Iterable[Row]:
    for recipe, one in found.items():
        yield Row(
            str(recipe),
            runs,
            None if one["bytes"] is None else float(one["bytes"]),
            interval(one["time"]),
            _intervals(one["commands"]),
        )


def _spent(step: str, at: float, took: float) -> dict[str, Any]:
    """A bar of the timeline."""
    kind = next((name for first, name in _STEPS.items() if step.startswith(first)), step)
    return {"name": kind, "step": step, "begin": at / 60, "end": (at + took) / 60, "took": took}


def _intervals(found: Mapping[str, Any]) -> dict[str, Interval]:
    known = ((str(text), interval(ratio)) for text, ratio in found.items())
    return {text: ratio for text, ratio in known if ratio}


def _of(sources: Sequence[Any]) -> list[Found]:
    return [one for one in sources if isinstance(one, Found)]


def _named(one: Found, text: str, among: Sequence[Found]) -> str:
    return text if len(among) == 1 else f"{one.name}: {text}"


def _ways(sources: Sequence[Any]) -> Iterable[Part]:
    found = _of(sources)
    for what in ("time", "bytes"):
        data = [
            _bar(_named(one, row.recipe, found), row.runs, value)
            for one in found
            for row in one.rows
            if (value := getattr(row, what)) is not None
        ]
        runs = list(dict.fromkeys(row["way"] for row in data))
        if data:
            title = f"{what}, % against the build's own"
            caption = f"{what.capitalize()} of each recipe; the lines are 95 % intervals"
            yield Figure(caption, charts.changes(data, runs, title, (_RUNS, _FRESH, _ANEW)))
    for one in found:
        columns = [
            *(Column("recipe"), Column("measured on"), Column("bytes", ".4f")),
            *(Column("time [95 % interval]", ".4f"), Column("chosen")),
        ]
        rows: list[list[Cell]] = [
            [row.recipe, row.runs, row.bytes, row.time, "yes" if row.recipe == one.chosen else ""]
            for row in one.rows
        ]
        yield Table(_named(one, "Over the build's own; below 1 is better", found), columns, rows)
        yield from (_named(one, text, found) for text in one.remarks)


def _bar(name: str, runs: str, value: Interval | float) -> dict[str, Any]:
    if not isinstance(value, Interval):
        return {"name": name, "way": runs, "ratio": value}
    return {"name": name, "way": runs, "ratio": value.mean, "low": value.low, "high": value.high}


def _commands(sources: Sequence[Any]) -> Iterable[Part]:
    found = _of(sources)
    for one in found:
        rows: list[list[Cell]] = [
            [text, row.recipe, row.runs, time, time.count]
            for row in one.rows
            for text, time in row.commands.items()
        ]
        rows += [[text, "itself", "", time, time.count] for text, time in one.repeat.items()]
        columns = [
            *(Column("command"), Column("recipe"), Column("measured on")),
            *(Column("time [95 % interval]", ".4f"), Column("pairs")),
        ]
        caption = _named(one, "Each command; the build's own over itself last", found)
        yield Table(caption, columns, rows)


def _timelines(sources: Sequence[Any]) -> Iterable[Part]:
    found = _of(sources)
    for one in found:
        caption = "When it was built and timed; a bar is a step, and says which when pointed at"
        yield Figure(_named(one, caption, found), charts.spans(one.timeline))


SECTIONS = (
    Section("What was tried", lambda sources: bool(_of(sources)), _ways),
    Section("When", lambda sources: any(one.timeline for one in _of(sources)), _timelines),
    Section("By command", lambda sources: bool(_of(sources)), _commands),
)
