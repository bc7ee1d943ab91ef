# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Searches for settings. What needs Ray is nightly."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mlbridge import InvalidArgument
from mlbridge.training.run import Settings
from mlbridge.training.tuning import search

SETTINGS = Settings("phase-ordering", "maskable-ppo", steps=600)
SEARCH = ["--search", "learning_rate=1e-5..1e-2", "--search", "hiddens=[16],[32,32]"]


@pytest.mark.parametrize(
    ("settings", "drawn", "message"),
    [
        (SETTINGS, {}, "nothing to search"),
        (Settings("phase-ordering", "genetic"), {"lr": "1,2"}, "genetic"),
        (Settings("phase-ordering", workers=2), {"lr": "1,2"}, "workers"),
    ],
)
def test_what_cannot_be_searched(
    settings: Settings, drawn: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        search(settings, drawn, tmp_path, trials=2)


@pytest.mark.nightly
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


@pytest.mark.nightly
@pytest.mark.parametrize("text", ["1..", "2..1", "a..b", "0..inf"])
def test_ranges_that_are_none(text: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="range"):
        search(SETTINGS, {"lr": text}, tmp_path, trials=1)
