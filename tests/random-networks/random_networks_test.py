# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random networks by the native engine and compiled; run.py judges them in children. `make nightly`
judges many more, by run.py itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from building import ROOT

RUNS = {
    "random-networks": ("--networks", "200"),
    "random-aliases": ("--kind", "aliases", "--networks", "150"),
    "compiled-aliases": ("--kind", "many-aliases", "--engine", "aot", "--networks", "1"),
    "torch-exports": ("--files", ROOT / "tests/golden/torch-exports"),
}


@pytest.mark.parametrize("name", RUNS)
def test_answers_are_those_of_onnx_runtime(name: str, judge: Callable[..., None]) -> None:
    out = ("--out", ROOT / "build/test" / f"{name}.json")
    judge(Path(__file__).with_name("run.py"), f"{name}.json", *RUNS[name], *out)
