# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Figures beside a trained policy on a card and a curve: -Oz, random choices, and a warning."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mlbridge import corpus
from mlbridge.corpus import adding
from mlbridge.training import baselines, folder, run
from mlbridge.training.settings import Settings

SOURCE = """
int sum(const int *p, int n) { int t = 0; for (int i = 0; i < n; i++) t += p[i] * 3; return t; }
int f(int x) { return x % 7 ? f(x - 1) + 2 : sum(&x, 1); }
"""


def module(place: Path, level: str) -> Path:
    (place / "f.c").write_text(SOURCE)
    made = place / f"{level}.bc"
    words = ["clang-22", f"-{level}", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c"]
    subprocess.run([*words, place / "f.c", "-o", made], check=True)
    return made


def test_a_card_and_a_curve_show_what_the_policy_is_compared_with(tmp_path: Path) -> None:
    options = {"corpus": str(module(tmp_path, "O2"))}
    settings = Settings("phase-ordering", "maskable-ppo", options=options)
    said, figures = run._compared(settings, tmp_path)
    assert said.startswith("1 of 1 modules were not compiled at -Oz (1 at another level)")
    assert figures["-Oz"]["over_oz"] == 1.0 and 0 < figures["-Oz"]["reward"] < 1
    assert figures["random"]["over_oz"] >= 0.9 and "reward" in figures["random"]
    assert run._compared(settings, tmp_path) == (said, figures)  # as they are in the folder
    row = {"iteration": 1, "steps": 2, "seconds": 1.0, "reward": 0.3, "over_oz": 0.9}
    more = [f"**Note:** {said}.", "", *baselines.card_lines(figures, row)]
    card = run.card(settings, [row], more)
    assert "| trained, in the last iteration | 0.3000 | 0.9000 |" in card
    assert "| random, 24 episodes | 0." in card and "were not compiled at -Oz" in card
    assert f"| -Oz | {figures['-Oz']['reward']:.4f} | 1.0000 |" in card
    folder.plot([row, {**row, "steps": 5}], tmp_path / "curve.png", "title", figures)
    assert (tmp_path / "curve.png").stat().st_size


@pytest.mark.parametrize(("level", "warns"), [("Oz", False), ("Os", True), ("O3", True)])
def test_modules_that_are_not_of_oz_are_named(tmp_path: Path, level: str, warns: bool) -> None:
    files = module(tmp_path, level)
    place = tmp_path / "corpus"
    commands = [(str(tmp_path), ["clang-22", f"-{level}", "-c", "f.c"])]
    adding.compile_all(place, commands, "p", root=str(tmp_path))
    for given in (str(files), [str(files)], str(place), place, corpus.open(place)):
        said = baselines.warning("phase-ordering", {"corpus": given})
        assert bool(said) == warns, said
    assert (f"(1 at -{level})" in said) == warns
    assert baselines.warning("register-allocation", {"corpus": str(files)}) == ""
