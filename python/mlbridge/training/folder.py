# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The folder of a training: settings, progress, checkpoints, curve."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import Busy, InvalidArgument, InvalidModel

SETTINGS, PROGRESS, CHECKPOINT = "settings.json", "progress.jsonl", "checkpoint"
Row = dict[str, Any]


class Folder:
    """One training at a time writes it. What is in it is complete after a kill at any moment."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Makes the folder; Busy if another process trains in it."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("w") as lock:
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
            done = read(checkpoint / "iteration.json", lambda text: json.loads(text)["iteration"])
            rows = read(
                self.path / PROGRESS,
                lambda text: [json.loads(line) for line in text.splitlines()[:done]],
            )
        replace(self.path / PROGRESS, "".join(json.dumps(row) + "\n" for row in rows))
        return rows

    def keep(self, settings: Mapping[str, Any]) -> None:
        """Writes the settings of a new training, whose trainer has started."""
        if self.checkpoint() is None:
            replace(self.path / SETTINGS, json.dumps(settings, indent=1) + "\n")

    def checkpoint(self) -> Path | None:
        """The folder of the last checkpoint that is complete."""
        found = [p for p in self.path.glob(f"{CHECKPOINT}-*[0-9]") if p.is_dir()]
        return max(found, key=lambda p: int(p.name.rpartition("-")[2]), default=None)

    def save(self, row: Row, write: Callable[[Path], None]) -> None:
        """A checkpoint that `write` fills, then a line of progress; the one before goes last."""
        number, before = int(row["iteration"]), self.checkpoint()
        part = self.path / f"{CHECKPOINT}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        write(part)
        (part / "iteration.json").write_text(json.dumps({"iteration": number}))
        with (self.path / PROGRESS).open("a") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
        part.rename(self.path / f"{CHECKPOINT}-{number}")
        if before is not None:
            shutil.rmtree(before, ignore_errors=True)


def same(path: Path, settings: Mapping[str, Any]) -> None:
    """InvalidArgument unless the settings are those that a folder was begun with."""
    known = read(path / SETTINGS, lambda text: dict(json.loads(text)))
    stated = json.loads(json.dumps(settings))
    for key in stated:
        if key in known and known[key] != stated[key]:
            was, now = known[key], stated[key]
            raise InvalidArgument(f"{path} was begun with {key} {was!r}, not {now!r}")


def read(file: Path, parse: Callable[[str], Any]) -> Any:
    """What a file says; InvalidModel if it cannot be read."""
    try:
        return parse(file.read_text())
    except (OSError, LookupError, TypeError, ValueError) as error:
        raise InvalidModel(f"{file}: cannot be read: {error}") from None


def replace(path: Path, text: str) -> None:
    """Write a file that is never there in part."""
    fresh = path.with_name(path.name + ".part")
    fresh.write_text(text)
    fresh.replace(path)


def plot(rows: list[Row], path: Path, title: str) -> None:
    """The learning curve."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    steps = [row["steps"] for row in rows]
    axes.plot(steps, [row["reward"] for row in rows], label="reward of an episode, mean")
    if any("over_oz" in row for row in rows):
        other = axes.twinx()
        ratios = [row.get("over_oz", math.nan) for row in rows]
        other.plot(steps, ratios, "C1", label="bytes over -Oz")
        other.set_ylabel("bytes over -Oz, geometric mean")
    axes.set_xlabel("steps")
    axes.set_ylabel("reward")
    axes.set_title(title)
    figure.legend(loc="outside lower center", ncols=2)
    figure.savefig(path)
