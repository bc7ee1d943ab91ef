# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What users of policy.onnx rely on: it is the weights of its card, and its answers are allowed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlbridge

HERE = Path(__file__).resolve().parent
POLICY = HERE / "policy.onnx"
WEIGHTS: dict[str, float] = json.loads((HERE / "weights.json").read_text())
INTEGERS = {"is_free", "is_hint", "is_local", "max_stage", "min_stage"}
WIDTH = 33


def question(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    asked: dict[str, Any] = {"mask": rng.integers(0, 2, (1, WIDTH))}
    asked["mask"][0, rng.integers(WIDTH)] = 1
    asked["eviction_default"] = rng.choice(np.flatnonzero(asked["mask"]), 1)
    for name in set(WEIGHTS) - {"self"}:
        if name in INTEGERS:
            asked[name] = rng.integers(0, 3, (1, WIDTH))
        else:
            asked[name] = rng.random((1, WIDTH)).astype(np.float32)
    if "use_def_density" in asked:
        asked["use_def_density"][0, rng.integers(WIDTH)] = np.nan
    return asked


def scores(asked: dict[str, Any]) -> Any:
    total = np.zeros(WIDTH)
    total[int(asked["eviction_default"][0])] += 1
    for name, weight in WEIGHTS.items():
        if name == "self":
            total[-1] += weight
        else:
            total += weight * np.minimum(np.nan_to_num(asked[name][0]), np.inf)
    return np.where(asked["mask"][0] == 1, total, -np.inf)


@pytest.mark.parametrize("engine", ["native", "onnx"])
def test_it_is_the_weights_of_the_card(engine: str) -> None:
    if engine == "onnx":
        pytest.importorskip("onnxruntime", reason="onnxruntime isn't installed")
    runner = mlbridge.open(f"{engine}:{POLICY}")
    differs = 0
    for seed in range(300):
        asked = question(seed)
        expected = scores(asked)
        answer = int(runner.evaluate_scalar(**asked))
        assert asked["mask"][0, answer] == 1
        assert expected[answer] == pytest.approx(expected.max(), abs=1e-4)
        differs += answer != int(asked["eviction_default"][0])
    assert 0 < differs < 300


def test_its_card_shows_the_weights() -> None:
    card = (HERE / "README.md").read_text()
    for name, weight in WEIGHTS.items():
        assert f"| `{name}` | {weight:g} |" in card
