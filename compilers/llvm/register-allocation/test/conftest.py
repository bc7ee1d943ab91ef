# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compiler whose plugin is tested."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiler import Compiler


@pytest.fixture
def compiler(tmp_path: Path) -> Compiler:
    inputs = Path(__file__).resolve().parent / "inputs"
    flags = ("-O2", "-fno-vectorize", "-fno-unroll-loops")
    checked = ("-verify-machineinstrs",)
    return Compiler("register-allocation", tmp_path, inputs=inputs, flags=flags, loaded=checked)
