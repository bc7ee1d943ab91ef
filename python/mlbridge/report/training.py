# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Learning curves: the folder of a training, or of a search for settings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InvalidModel
from ..reading import parse_json, read_json, read_text, shortly
from . import charts
from .page import Cell, Column, Figure, Part, Section, Table

PROGRESS, SETTINGS, BASELINES, TRIALS = (
    "progress.jsonl",
    "settings.json",
    "baselines.json",
    "trials",
)
#: What is shown of an iteration, if it is known: the title of an axis, and of a column.
FIGURES = {
    "reward": "mean reward of an episode",
    "over_oz": "bytes over -Oz, geometric mean",
    "agreement": "share of the teacher's decisions",
}
#: Iterations in a chart, and trainings in it.
MOST_POINTS, MOST_CURVES = 2000, 12
Row = Mapping[str, float | None]


@dataclass(frozen=True)
class Training:
    """A training: a row for each iteration, and figures of other policies."""

    name: str
    rows: Sequence[Row]
    baselines: Mapping[str, Mapping[str, float]]
    about: Sequence[str] = ()
    remark: str = ""

    def last(self, key: str) -> float | None:
        """The last figure that is known."""
        return next((row[key] for row in reversed(self.rows) if row.get(key) is not None), None)


def read(path: Path, name: str) -> list[Training]:
    """The training in a folder, or all of a search. Raises InvalidModel if it is damaged."""
    if (path / PROGRESS).exists():
        return [_training(path, name)]
    trials = sorted(p.parent for p in path.glob(f"{TRIALS}/*/{PROGRESS}"))
    return [_training(trial, trial.name) for trial in trials]


def _training(path: Path, name: str) -> Training:
    rows, remark = [], ""
    lines = read_text(path / PROGRESS).splitlines()
    for number, line in enumerate(lines, 1):
        try:
            row = {str(key): value for key, value in dict(parse_json(line)).items()}
            for key, value in row.items():
                if not math.isfinite(0 if value is None and key != "steps" else value):
                    raise ValueError(f"{key} is {value!r}")
            float(row["steps"])
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            if number < len(lines):
                where = f"{path / PROGRESS}, line {number}"
                raise InvalidModel(f"{where}: cannot be read: {shortly(error)}") from None
            remark = f"{name}: the last line of {PROGRESS} is cut off, and left out"
            break
        rows.append(row)
    return Training(name, rows, _baselines(path / BASELINES), _about(path / SETTINGS), remark)


def _baselines(path: Path) -> dict[str, dict[str, float]]:
    if not path.exists():
        return {}
    try:
        return {
            str(name): {str(key): float(value) for key, value in dict(figures).items()}
            for name, figures in dict(read_json(path)).items()
        }
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidModel(f"{path}: cannot be read: {shortly(error)}") from None


def _about(path: Path) -> list[str]:
    if not path.exists():
        return []
    settings = read_json(path)
    if not isinstance(settings, dict):
        raise InvalidModel(f"{path}: cannot be read: not an object")
    named = ", ".join(
        f"{key} {settings[key]}"
        for key in ("environment", "algorithm", "seed", "workers")
        if key in settings
    )
    return [named] if named else []


def _of(sources: Sequence[Any]) -> list[Training]:
    return [one for one in sources if isinstance(one, Training)]


def curves(sources: Sequence[Any]) -> Iterable[Part]:
    """A chart of each figure with those of other policies, and tables."""
    trainings = _of(sources)
    best = sorted(trainings, key=lambda one: -(one.last("reward") or float("-inf")))
    drawn = best[:MOST_CURVES] if len(best) > MOST_CURVES else trainings
    for key, title in FIGURES.items():
        rows = []
        for one in drawn:
            known = [row for row in one.rows if row.get(key) is not None]
            every = -(-len(known) // MOST_POINTS) or 1
            thinned = known[::-every][::-1]
            rows += [
                {"name": one.name, "steps": row["steps"], "value": row[key]} for row in thinned
            ]
        if not rows:
            continue
        beside = {
            name if len(drawn) == 1 else f"{name}, {one.name}": figures[key]
            for one in drawn
            for name, figures in one.baselines.items()
            if key in figures
        }
        if len(set(beside.values())) < len(beside):  # trainings on the same modules
            beside = {name.split(",")[0]: value for name, value in beside.items()}
        of = f", the best {len(drawn)} of {len(trainings)}" if len(drawn) < len(trainings) else ""
        yield Figure(
            f"{title[0].upper()}{title[1:]}, by steps of training{of}",
            charts.lines(rows, [one.name for one in drawn], beside, title),
        )
    yield from (one.remark for one in trainings if one.remark)
    if not any(one.rows for one in trainings):
        yield "No iteration has ended yet."
        return
    columns = [
        Column("policy"),
        Column("iterations"),
        Column("steps"),
        Column("seconds", ",.2f"),
        Column("faults"),
        *(Column(title, ".4f") for title in FIGURES.values()),
    ]
    lines: list[list[Cell]] = []
    for one in best:
        faults = sum(int(row.get("faults") or 0) for row in one.rows)
        ends = [one.last(key) for key in ("steps", "seconds")]
        lines.append([one.name, len(one.rows), *ends, faults, *map(one.last, FIGURES)])
        lines += [
            [name, None, None, None, None, *(figures.get(key) for key in FIGURES)]
            for name, figures in one.baselines.items()
        ]
    yield Table("The last iteration, and policies that did not learn", columns, lines)
    for one in trainings[:MOST_CURVES]:
        names = list(dict.fromkeys(key for row in one.rows for key in row))
        yield Table(
            f"Iterations, {one.name}",
            [Column(key, ",d" if key in ("iteration", "steps") else ",.4f") for key in names],
            [[row.get(key) for key in names] for row in one.rows],
        )


SECTIONS = (Section("Learning curves", lambda sources: bool(_of(sources)), curves),)
