# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Large tensors over shm: they are NumPy views of memory that the compiler writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlbridge
from serving import running

SIZE = 100_000


@pytest.mark.parametrize("length", [SIZE, -1])
def test_views_that_a_policy_keeps_stay_as_they_are(tmp_path: Path, length: int) -> None:
    signature = mlbridge.Signature(
        [mlbridge.TensorSpec("x", "float32", [length])], [mlbridge.TensorSpec("y", "float32")]
    )
    kept: list[Any] = []

    def policy(observation: Any, context: mlbridge.CallContext) -> Any:
        if context.step % 2:
            kept.append(observation["x"][10:])
        return observation["x"][0]

    with running(policy, f"shm:{tmp_path}/s", signature) as server:
        runner = mlbridge.open(server.uri, signature)
        for step in range(10):
            assert runner.evaluate_scalar(x=np.full(SIZE, step, np.float32)) == step
        del runner
        statistics = server.finish()
    assert statistics.bytes_in < SIZE  # ten times as much was not sent
    assert [view[0] for view in kept] == [1, 3, 5, 7, 9]
    assert all((view == view[0]).all() for view in kept)
