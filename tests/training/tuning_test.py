# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Searches for settings. What needs Ray is nightly."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mlbridge import InvalidArgument
from mlbridge.training.settings import Settings
from mlbridge.training.tuning import drawn_from, ranked, search

SETTINGS = Settings("phase-ordering", "maskable-ppo", steps=600)
SEARCH = ["--search", "learning_rate=1e-5..1e-2", "--search", "hiddens=[16],[32,32]"]


@pytest.mark.parametrize(
    ("settings", "drawn", "message"),
    [
        (SETTINGS, {}, "nothing to search"),
        (Settings("phase-ordering", workers=2), {"lr": "1,2"}, "workers"),
        (Settings("register-allocation"), {"lr": "1,2"}, "several agents"),
    ],
)
def test_what_cannot_be_searched(
    settings: Settings, drawn: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        search(settings, drawn, tmp_path, trials=2)


def test_the_best_of_equals_is_the_same_again(tmp_path: Path) -> None:
    def result(name: str, reward: float | None) -> SimpleNamespace:
        error = None if reward is not None else "Traceback\nmlbridge.errors.InvalidArgument: no"
        return SimpleNamespace(
            path=f"ray/{name}", metrics={"reward": reward}, config={}, error=error
        )

    results = [result("b", 1.0), result("d", None), result("c", 2.0), result("a", 1.0)]
    for order in (results, results[::-1]):
        rows = ranked(tmp_path, order)
        assert [row["name"] for row in rows] == ["c", "a", "b", "d"]
        assert rows[-1]["error"] == "no"


@pytest.mark.nightly
@pytest.mark.training
def test_whole_numbers_are_drawn_between_whole_numbers() -> None:
    assert {drawn_from("1..3").sample() for _ in range(100)} == {1, 2, 3}
    assert {type(drawn_from("1..100").sample()) for _ in range(10)} == {int}
    assert type(drawn_from("1.0..3.0").sample()) is float


@pytest.mark.nightly
@pytest.mark.training
@pytest.mark.parametrize(
    ("drawn", "message"),
    [
        ({"algorithm": "ppo,genetic"}, "algorithm is 'genetic'"),
        ({"algorithm": "ppo,maskable-ppo", "lr": "0.1,0.2"}, "maskable-ppo has no 'lr'"),
        ({"activation": "relu,gelu"}, "activation is 'gelu'"),
        ({"n_steps": "16,1.5"}, "n_steps of maskable-ppo is 1.5"),
        ({"n_steps": " "}, "no choices"),
    ],
)
def test_what_no_trial_could_train_is_found_at_once(
    drawn: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        search(SETTINGS, drawn, tmp_path, trials=1)


@pytest.mark.nightly
@pytest.mark.training
def test_a_search(module: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tuned"
    command = [sys.executable, "-m", "mlbridge", "tune", "phase-ordering", "-o", str(folder)]
    command += ["--corpus", str(module), "--algorithm", "maskable-ppo", "--steps", "600"]
    done = subprocess.run(
        [*command, *SEARCH, "--trials", "3"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    best = json.loads((folder / "best.json").read_text())
    assert len(best) == 3 and best[0]["reward"] >= best[-1]["reward"]
    assert all(1e-5 <= row["drawn"]["learning_rate"] <= 1e-2 for row in best)
    assert (folder / "policy.onnx").stat().st_size > 0
    assert {tuple(row["drawn"]["hiddens"]) for row in best} <= {(16,), (32, 32)}
    again = subprocess.run([*command, *SEARCH], capture_output=True, text=True, check=False)
    assert again.returncode == 1 and "--resume" in again.stderr
    other = [*command, *SEARCH[:2], "--trials", "3", "--resume"]
    again = subprocess.run(other, capture_output=True, text=True, check=False)
    assert again.returncode == 1 and "was begun with search" in again.stderr


@pytest.mark.nightly
@pytest.mark.training
def test_a_search_with_appo(module: Path, tmp_path: Path) -> None:
    """Its learner, a process of its own, needs room beside the trial."""
    command = [sys.executable, "-m", "mlbridge", "tune", "phase-ordering", "-o", str(tmp_path)]
    command += ["--corpus", str(module), "--algorithm", "appo", "--search", "lr=1e-5..1e-3"]
    command += ["--steps", "600", "--trials", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    (best,) = json.loads((tmp_path / "best.json").read_text())
    assert best["reward"] is not None and (tmp_path / "policy.onnx").exists()


@pytest.mark.nightly
@pytest.mark.training
def test_a_search_whose_trials_fail(module: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "mlbridge",
        "tune",
        "phase-ordering",
        "-o",
        str(tmp_path / "t"),
    ]
    command += ["--corpus", str(module), "--algorithm", "maskable-ppo", "--steps", "100"]
    command += ["--set", "n_steps=64", "--trials", "1", "--search"]
    done = subprocess.run([*command, "ent_coef=0.0,0.1", "--set", "learning_rate=-1"],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "no trial gave a reward: maskable-ppo on phase-ordering: Inv" in done.stderr
    done = subprocess.run([*command, "seed=1..5"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.nightly
@pytest.mark.training
@pytest.mark.parametrize("text", ["1..", "2..1", "a..b", "0..inf"])
def test_ranges_that_are_none(text: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="range"):
        search(SETTINGS, {"lr": text}, tmp_path, trials=1)
