# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What users of the network rely on: answers that the plugin can use, the same in every engine."""

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
    amounts = [count, loops[:count, 0].prod(), rng.choice([32, 64]), *rng.integers(0, 2, 3), 2]
    memory = [*np.exp(rng.uniform(0, 20, 2)), 2, rng.integers(0, 2), 32768, 1 << 20, 1 << 25]
    return {"loops": loops, "operation": np.array([*amounts, *memory, 256, 8], np.float32)}


@pytest.mark.parametrize("seed", range(50))
def test_answers_can_be_used_and_are_the_same_in_every_engine(seed: int) -> None:
    asked = question(seed)
    answers = []
    for engine in ("native", "onnx"):
        with mlbridge.open(f"{engine}:{POLICY}") as runner:
            answers.append({name: np.array(v) for name, v in runner.evaluate(**asked).items()})
    native, onnx = answers
    assert native["sizes"].tolist() == onnx["sizes"].tolist()
    assert native["vectorize"] == onnx["vectorize"] in (0, 1)
    trips = np.maximum(asked["loops"][:, 0], 1)
    assert (native["sizes"] >= 1).all() and (native["sizes"] <= trips).all()


def test_the_network_is_that_of_the_weights(tmp_path: Path) -> None:
    made = tmp_path / "policy.onnx"
    tool = HERE.parents[1] / "tools" / "mlir_tiling_policy.py"
    subprocess.run([sys.executable, tool, "make", "--to", made], check=True)
    assert made.read_bytes() == POLICY.read_bytes()
