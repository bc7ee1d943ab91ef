# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What users of policy.onnx rely on: what it asks for, and that it is the table of its card."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mlbridge

HERE = Path(__file__).resolve().parent
POLICY = HERE / "policy.onnx"
TABLE = json.loads((HERE / "table.json").read_text())
COSTS = range(-120, 200, 3)


@pytest.mark.parametrize("engine", ["native", "onnx"])
def test_it_is_the_table(engine: str) -> None:
    if engine == "onnx":
        pytest.importorskip("onnxruntime", reason="onnxruntime isn't installed")
    runner = mlbridge.open(f"{engine}:{POLICY}")
    for several in (0, 1):
        for users in (1, 2, 3, 4, 5, 8, 9, 16, 17, 1000):
            column = int(np.searchsorted(TABLE["users"], users, side="right"))
            limit = TABLE["limits"][several][column]
            for cost in COSTS:
                for default in (0, 1):
                    expected = cost < limit and (cost >= 5 or default == 1)
                    answer = runner.evaluate_scalar(
                        cost_estimate=[cost],
                        callee_users=[users],
                        is_multiple_blocks=[several],
                        inlining_default=[default],
                    )
                    assert answer == expected, (several, users, cost, default)


def test_its_card_shows_the_table() -> None:
    card = (HERE / "README.md").read_text()
    for name, limits in zip(("one block", "several blocks"), TABLE["limits"], strict=True):
        assert f"| {name} | {' | '.join(map(str, limits))} |" in card
