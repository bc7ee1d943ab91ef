# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models made to mislead; a program of its own opens them in children, which may die."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def test_hostile_models_are_refused_or_answered_as_by_onnx_runtime(
    judge: Callable[..., None],
) -> None:
    judge(Path(__file__).with_name("run.py"), "hostile-models.json")
