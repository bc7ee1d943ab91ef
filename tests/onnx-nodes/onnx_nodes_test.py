# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ONNX project's node tests; native code may crash, so a program of its own counts them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def test_the_native_engine_passes_what_it_claims(judge: Callable[..., None]) -> None:
    judge(Path(__file__).with_name("run.py"), "onnx-node-tests.json")
