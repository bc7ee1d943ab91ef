# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What users of the two networks rely on: they are the trees of trees.json, in every engine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sampling import nightly

import mlbridge

HERE = Path(__file__).resolve().parent
TREES = json.loads((HERE / "trees.json").read_text())
COLUMNS, BLOCKS, TRIPS, LATENCY, SCALAR, VECTOR = 26, 21, 22, 23, 24, 25


def part(rng: np.random.Generator) -> Any:
    """Numbers such as the plugin gives."""
    row = rng.integers(0, 5, COLUMNS).astype(np.float32)
    row[BLOCKS] = rng.integers(0, 2)
    row[TRIPS] = rng.choice([0, 0, 0, 3, 5, 8])
    row[LATENCY] = rng.integers(0, 200) / 16
    row[SCALAR] = rng.integers(0, 60)
    row[VECTOR] = rng.integers(0, 60 * 64) / 64
    return row


def question(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    asked: dict[str, Any] = {name: part(rng) for name in ("previous", "rest", "whole")}
    if seed % 2:  # as if much were gained
        asked["whole"][[BLOCKS, LATENCY, SCALAR]] = 1, 0, 60
        for name in ("previous", "rest"):
            asked[name][[LATENCY, SCALAR, VECTOR]] /= 16
    return {**asked, "checks": np.array(rng.choice([0, 0, 1, 6]))}


def cycles(row: Any) -> Any:
    if row[BLOCKS] > 0:
        return max(row[LATENCY], row[SCALAR] * np.float32(0.25))
    return row[VECTOR] * np.float32(0.375)


def divides(asked: dict[str, Any]) -> int:
    previous, rest, whole = (asked[name] for name in ("previous", "rest", "whole"))
    one = np.float32(1)
    gain = (cycles(previous) + cycles(rest)) / (cycles(whole) + one)
    waits = whole[LATENCY] / (whole[SCALAR] * np.float32(0.25) + one)
    values = [*previous, *rest, *whole, np.float32(asked["checks"]), gain, waits]
    total = 0.0
    for inputs, limits, leaves in zip(
        *(TREES[k] for k in ("inputs", "limits", "leaves")), strict=True
    ):
        at = 0
        while at < len(inputs):
            at = 2 * at + 1 + int(values[inputs[at]] > np.float32(limits[at]))
        total += leaves[at - len(inputs)]
    few = 0 < whole[TRIPS] < np.float32(TREES["trips"])
    return int(whole[BLOCKS] > 0 and total < TREES["limit"] and not few)


def opened(engine: str, agent: str, folder: Path) -> mlbridge.Runner:
    place = HERE / f"{agent}.onnx"
    if engine == "onnx":
        pytest.importorskip("onnxruntime", reason="onnxruntime isn't installed")
    if engine == "aot":
        library = folder / f"{agent}.so"
        command = [sys.executable, "-m", "mlbridge", "aot", str(place), "-o", str(library)]
        subprocess.run(command, check=True, capture_output=True)
        place = library
    return mlbridge.open(f"{engine}:{place}")


@pytest.mark.parametrize("engine", ["native", "onnx", nightly("aot")])
def test_it_divides_as_the_trees_say(engine: str, tmp_path: Path) -> None:
    runner = opened(engine, "distribute", tmp_path)
    answers = []
    for seed in range(600):
        asked = question(seed)
        answers.append(int(runner.evaluate_scalar(**asked)))
        assert answers[-1] == divides(asked), seed
    assert 10 < sum(answers) < 590


@pytest.mark.parametrize("engine", ["native", "onnx"])
def test_nodes_that_are_alike_come_together(engine: str, tmp_path: Path) -> None:
    runner = opened(engine, "node", tmp_path)
    rng = np.random.default_rng(0)
    for count in (2, 3, 7, 64, 5) * 10:
        nodes = np.stack([part(rng) for _ in range(count)])
        previous, mask = part(rng), rng.integers(0, 2, count).astype(bool)
        mask[rng.integers(count)] = True
        alike = mask & (nodes[:, BLOCKS] == previous[BLOCKS])
        expected = np.flatnonzero(alike if alike.any() else mask)[0]
        asked = {"action_mask": mask, "nodes": nodes, "previous": previous}
        assert int(runner.evaluate_scalar(**asked)) == expected


def test_leaves_can_be_added_exactly() -> None:
    """So that no engine decides otherwise because it adds in another order."""
    leaves = np.array(TREES["leaves"]) * 1024
    assert (leaves == leaves.round()).all()
    assert np.abs(leaves).max(axis=1).sum() < 2**24
