# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tree of a file: values from what lies below, merging, and files cut short."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
from experience import IDLE_COST, STEP_COST, Tree, gather, line, read

STOP = 3


def seen(value: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array([value], np.float32)


def tree() -> Tree:
    made = Tree("p", "p/a.c", 100)
    made.add((), seen(0), 200, "a")
    made.add((0,), seen(1), 150, "b")
    made.add((0, 1), None, 90, "c")
    made.add((2,), None, 200, "a")
    return made


def test_an_action_costs_what_the_best_end_below_it_costs() -> None:
    costs = tree().costs(STOP)
    assert costs[()][STOP] == pytest.approx(math.log(2))
    assert costs[()][0] == pytest.approx(math.log(0.9) + 2 * STEP_COST)
    assert costs[()][2] == pytest.approx(math.log(2) + STEP_COST + IDLE_COST)
    assert 1 not in costs[()]


def test_states_without_observation_or_choice_are_left_out() -> None:
    assert set(tree().costs(STOP)) == {(), (0,)}


def test_best_is_the_smallest_and_shortest() -> None:
    assert tree().best() == (0.9, (0, 1))


def test_lines_come_back_and_a_cut_file_gives_what_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "experience.jsonl.gz"
    with gzip.open(path, "wt") as out:
        out.write(line(tree()))
        out.write(line(Tree("q", "q/b.c", 7)))
    assert [t.name for t in read(path)] == ["p/a.c", "q/b.c"]
    assert next(read(path)).costs(STOP) == tree().costs(STOP)
    path.write_bytes(path.read_bytes()[:-12])
    assert [t.name for t in read(path)][:1] == ["p/a.c"]


def test_trees_of_one_file_are_merged(tmp_path: Path) -> None:
    other = Tree("p", "p/a.c", 100)
    other.add((1,), seen(5), 60, "d")
    for number, each in enumerate((tree(), other)):
        with gzip.open(tmp_path / f"{number}.gz", "wt") as out:
            out.write(line(each))
    merged = gather([tmp_path / "0.gz", tmp_path / "1.gz"])
    assert merged["p/a.c"].best() == (0.6, (1,))
