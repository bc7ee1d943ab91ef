# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What users of policy.onnx rely on: it is the rule of its card, in every engine."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sampling import nightly

import mlbridge

POLICY = Path(__file__).resolve().parent / "policy.onnx"
LOOPS, CALLERS = 14, 20
STOCK, SIZE = 0, 1


@pytest.mark.parametrize("engine", ["native", "onnx", nightly("aot")])
def test_it_is_the_rule(engine: str, tmp_path: Path) -> None:
    place = POLICY
    if engine == "onnx":
        pytest.importorskip("onnxruntime", reason="onnxruntime isn't installed")
    if engine == "aot":
        place = tmp_path / "policy.so"
        command = [sys.executable, "-m", "mlbridge", "aot", str(POLICY), "-o", str(place)]
        subprocess.run(command, check=True, capture_output=True)
    runner = mlbridge.open(f"{engine}:{place}")
    rng = np.random.default_rng(0)
    for loops, callers in itertools.product((0, 0, 1, 2, 50), (0, 0, 1, 3, 10_000)):
        features = rng.integers(0, 3000, 25).astype(np.float32)
        features[[LOOPS, CALLERS]] = loops, callers
        expected = SIZE if loops == callers == 0 else STOCK
        assert runner.evaluate_scalar(features=features) == expected, (loops, callers)
