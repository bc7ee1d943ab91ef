# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The folder of a training: kills, two at once, other settings. The learner is a counter."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import mlbridge.training.run
from mlbridge import Busy, InvalidArgument, InvalidModel
from mlbridge.training.folder import Folder
from mlbridge.training.run import train
from mlbridge.training.settings import Settings

SETTINGS = Settings("phase-ordering", "ppo", steps=50)


class Killed(BaseException):
    """As a signal would end it."""


class Learner:
    """Ten steps an iteration."""

    def __init__(self, die_at: str = "") -> None:
        self.steps, self.die_at = 0, die_at
        self.closed = False

    def maybe(self, when: str) -> None:
        """Dies there."""
        if f"{when} {self.steps}" == self.die_at:
            raise Killed

    def iterate(self) -> tuple[int, Counter[str]]:
        """An episode."""
        self.maybe("iterate")
        self.steps += 10
        totals: Any = {"episodes": 1, "rewards": float(self.steps), "sizes": 1, "log_over_oz": 0.0}
        return self.steps, Counter(totals)

    def save(self, folder: Path) -> None:
        """Two files, between which it may die."""
        (folder / "first").write_text(str(self.steps))
        self.maybe("save")
        (folder / "second").write_text(str(self.steps))

    def load(self, folder: Path) -> None:
        """Both are there."""
        assert (folder / "first").read_text() == (folder / "second").read_text()
        self.steps = int((folder / "second").read_text())

    def export(self, path: Path, metadata: Mapping[str, str]) -> tuple[Path, list[str]]:
        """A file that has the metadata."""
        (path / "policy").write_text(metadata["mlbridge.training"])
        return path / "policy", ["A line of its own."]

    def close(self) -> None:
        """Once."""
        self.closed = True


@pytest.fixture
def learner(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(die_at: str = "") -> Learner:
        made = Learner(die_at)
        monkeypatch.setattr(mlbridge.training.run, "trainer", lambda *_: made)
        return made

    return use


def rows_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "progress.jsonl").read_text().splitlines()]


def test_a_training(learner: Any, tmp_path: Path) -> None:
    shown: list[dict[str, Any]] = []
    made = learner()
    file = train(SETTINGS, tmp_path / "t", shown=shown.append)
    assert file.read_text() == "ppo, seed 0, 50 steps"
    assert "\nA line of its own.\n" in (tmp_path / "t" / "README.md").read_text()
    assert made.closed
    assert rows_in(tmp_path / "t") == shown
    assert [row["steps"] for row in shown] == [10, 20, 30, 40, 50]
    assert shown[0]["over_oz"] == 1 and shown[1]["reward"] == 20
    assert (tmp_path / "t" / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert len(list((tmp_path / "t").glob("checkpoint*"))) == 1


@pytest.mark.parametrize("when", ["iterate 0", "save 10", "iterate 30", "save 40", "save 50"])
def test_a_kill_loses_one_iteration(learner: Any, tmp_path: Path, when: str) -> None:
    made = learner(when)
    with pytest.raises(Killed):
        train(SETTINGS, tmp_path)
    assert made.closed
    learner()
    shown: list[dict[str, Any]] = []
    train(SETTINGS, tmp_path, resume=True, shown=shown.append)
    rows = rows_in(tmp_path)
    assert [row["steps"] for row in rows] == [10, 20, 30, 40, 50]
    assert shown[0]["steps"] == max(10, int(when.split()[1]) + 10 * when.startswith("iterate"))


def test_a_line_without_its_checkpoint_is_made_again(learner: Any, tmp_path: Path) -> None:
    learner("iterate 30")
    with pytest.raises(Killed):
        train(SETTINGS, tmp_path)
    with (tmp_path / "progress.jsonl").open("a") as file:
        file.write('{"iteration": 4, "ste')  # what a kill in the middle of a line leaves
    learner()
    train(SETTINGS, tmp_path, resume=True)
    assert [row["iteration"] for row in rows_in(tmp_path)] == [1, 2, 3, 4, 5]


def test_another_training_is_refused(learner: Any, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from mlbridge.training.folder import Folder\n"
        "with Folder(Path(sys.argv[1])).locked(): print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout and other.stdout.readline()
        learner()
        with pytest.raises(Busy, match="another training"):
            train(SETTINGS, tmp_path)
        other.communicate()
    train(SETTINGS, tmp_path)
    with pytest.raises(InvalidArgument, match="--resume"):
        train(SETTINGS, tmp_path)
    with pytest.raises(InvalidArgument, match="begun with seed 0, not 3"):
        train(Settings("phase-ordering", "ppo", seed=3), tmp_path, resume=True)
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(InvalidModel, match=r"settings\.json"):
        train(SETTINGS, tmp_path, resume=True)


def test_a_start_that_fails_leaves_no_training(
    learner: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise AssertionError("n_stepz:\n  no such setting")

    with monkeypatch.context() as patch:
        module = SimpleNamespace(Trainer=failing)
        patch.setattr(mlbridge.training.run, "_module", lambda _: module)
        message = "^ppo on phase-ordering: n_stepz: no such setting$"
        with pytest.raises(InvalidArgument, match=message):
            train(replace(SETTINGS, settings={"n_stepz": 1}), tmp_path)
    assert not (tmp_path / "settings.json").exists()
    learner("iterate 0")
    with pytest.raises(Killed):  # before there is anything to go on with
        train(replace(SETTINGS, seed=3), tmp_path)
    learner()
    train(SETTINGS, tmp_path)
    assert json.loads((tmp_path / "settings.json").read_text())["seed"] == 0


@pytest.mark.parametrize("damaged", ["checkpoint-5/second", "checkpoint-5/iteration.json"])
def test_a_damaged_checkpoint(learner: Any, tmp_path: Path, damaged: str) -> None:
    learner()
    train(SETTINGS, tmp_path)
    (tmp_path / damaged).write_text("{")
    learner()
    with pytest.raises(InvalidModel, match=r"checkpoint-5.*cannot be read"):
        train(SETTINGS, tmp_path, resume=True)


def test_more_steps_than_at_first(learner: Any, tmp_path: Path) -> None:
    learner()
    train(SETTINGS, tmp_path)
    learner()
    train(Settings("phase-ordering", "ppo", steps=70), tmp_path, resume=True)
    assert len(rows_in(tmp_path)) == 7
    assert Folder(tmp_path).checkpoint() == tmp_path / "checkpoint-7"
