# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What users of the network rely on: the card says what it answers, in every engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlbridge

HERE = Path(__file__).resolve().parent
POLICY = HERE / "policy.onnx"


def question(seed: int) -> dict[str, Any]:
    """Numbers such as the plugin gives."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 11))
    loops = np.zeros((10, 8), np.float32)
    loops[:count, 0] = np.exp(rng.uniform(0, 8, count)).astype(int)
    loops[:count, 1] = rng.integers(0, 2, count)
    loops[rng.integers(0, count), 2] = 1
    loops[:count, 3:5] = rng.integers(0, 2, (count, 2))
    loops[:count, 5] = rng.integers(-4, 8, count)
    loops[:count, 6] = rng.integers(0, 2, count)
    loops[:count, 7] = rng.choice([1, 4, 6, 16], count)
    return {"loops": loops}


@pytest.mark.parametrize("seed", range(50))
def test_it_answers_with_the_way_of_the_card(seed: int) -> None:
    asked = question(seed)
    loops = asked["loops"]
    answers = []
    for engine in ("native", "onnx"):
        with mlbridge.open(f"{engine}:{POLICY}") as runner:
            answers.append({name: np.array(v) for name, v in runner.evaluate(**asked).items()})
    native, onnx = answers
    assert native["sizes"].tolist() == onnx["sizes"].tolist()
    assert native["vectorize"] == onnx["vectorize"] == 1
    trips, parallel, along, window = np.maximum(loops, [1, *[0] * 7])[:, [0, 1, 2, 6]].T
    whole = (parallel + along + window) > 0
    assert native["sizes"].tolist() == np.where(whole, trips, np.minimum(trips, 32)).tolist()


def test_make_writes_the_network(tmp_path: Path) -> None:
    made = tmp_path / "policy.onnx"
    subprocess.run([sys.executable, HERE / "make.py", made], check=True)
    assert made.read_bytes() == POLICY.read_bytes()
