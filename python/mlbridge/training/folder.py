# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The folder of a training: settings, progress, checkpoints, curve."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..claiming import claim
from ..errors import Busy, Error, InvalidArgument, InvalidModel
from ..outputs import replace_whole
from ..reading import parse_json, read_text, shortly
from ..report.page import Figure, picture
from ..report.training import Training, curves

TRAINING, SEARCH = "training", "search"
SETTINGS, PROGRESS, CHECKPOINT = "settings.json", "progress.jsonl", "checkpoint"
Row = dict[str, Any]
NULLABLE = ("reward", "over_oz")  # null in an iteration in which no episode ended


class Folder:
    """One training at a time writes it. What is in it is complete after a kill at any moment."""

    def __init__(self, path: Path, kind: str = TRAINING) -> None:
        self.path, self.kind = path, kind

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Makes the folder; Busy if another process trains in it, InvalidArgument if it is anything
        else."""
        claim(self.path, self.kind)
        with (self.path / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Busy(f"{self.path}: another training is running there") from None
            yield

    def begin(self, settings: Mapping[str, Any], resume: bool) -> list[Row]:
        """The rows so far. Without a checkpoint the training is a new one; otherwise the settings
        must be those that it was begun with."""
        checkpoint = self.checkpoint()
        rows = []
        if checkpoint is not None:
            if not resume:
                raise InvalidArgument(
                    f"{self.path} has a training already: --resume goes on with it"
                )
            same(self.path, settings)
            done = read(checkpoint / "iteration.json", lambda state: int(state["iteration"]))
            rows = read(
                self.path / PROGRESS,
                lambda lines: [_row(line) for line in lines],
                lambda text: [parse_json(line) for line in text.splitlines()[:done]],
            )
            if len(rows) != done:
                raise InvalidModel(
                    f"{self.path / PROGRESS}: has {len(rows)} of the {done} iterations"
                )
        text = "".join(json.dumps(row) + "\n" for row in rows)
        replace_whole(self.path / PROGRESS, text.encode())
        return rows

    def keep(self, settings: Mapping[str, Any]) -> None:
        """Writes the settings of a new training, whose trainer has started."""
        if self.checkpoint() is None:
            write_json(self.path / SETTINGS, settings)

    def checkpoint(self) -> Path | None:
        """The folder of the last checkpoint that is complete."""
        complete = [p for p in self.path.glob(f"{CHECKPOINT}-*[0-9]") if p.is_dir()]
        return max(complete, key=lambda p: int(p.name.rpartition("-")[2]), default=None)

    def save(self, row: Row, write: Callable[[Path], None]) -> None:
        """A checkpoint that `write` fills, then a line of progress; the one before goes last."""
        number, before = int(row["iteration"]), self.checkpoint()
        part = self.path / f"{CHECKPOINT}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        write(part)
        write_json(part / "iteration.json", {"iteration": number})
        with (self.path / PROGRESS).open("a") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
        part.rename(self.path / f"{CHECKPOINT}-{number}")
        if before is not None:
            shutil.rmtree(before, ignore_errors=True)


def same(path: Path, settings: Mapping[str, Any]) -> None:
    """InvalidArgument unless the settings are those that a folder was begun with."""
    known = read(path / SETTINGS, dict)
    stated = json.loads(json.dumps(settings))
    for key in stated:
        if key in known and known[key] != stated[key]:
            was, now = known[key], stated[key]
            raise InvalidArgument(f"{path} was begun with {key} {was!r}, not {now!r}")


def _row(value: Any) -> Row:
    """A checked line of progress."""
    row = dict(value)
    for name in ("iteration", "steps", "seconds", "reward", "over_oz"):
        number = row[name] if name != "over_oz" else row.get(name)
        if not isinstance(number, int | float) and not (number is None and name in NULLABLE):
            raise TypeError(f"{name} is {number!r}")
    return row


def read(
    file: Path, checked: Callable[[Any], Any], parse: Callable[[str], Any] = parse_json
) -> Any:
    """The checked contents of a file; InvalidModel if it cannot be read."""
    try:
        return checked(parse(read_text(file)))
    except Error as error:
        raise InvalidModel(str(error)) from None
    except (LookupError, TypeError, ValueError) as error:
        raise InvalidModel(f"{file}: cannot be read: {shortly(error)}") from None


def write_json(path: Path, value: Any) -> None:
    """Write a whole file for people to read."""
    replace_whole(path, (json.dumps(value, indent=1) + "\n").encode())


def plot(
    rows: list[Row], path: Path, title: str, beside: Mapping[str, Mapping[str, float]] | None = None
) -> None:
    """The learning curves, with lines for the figures of other policies. NotFound if the package
    that draws is missing."""
    charts = curves([Training(title, rows, beside or {})])
    replace_whole(path, picture([one for one in charts if isinstance(one, Figure)], "png"))
