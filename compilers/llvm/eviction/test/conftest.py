# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compilers whose plugin is tested."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiler import Compiler
from sampling import LLVMS

INPUTS = Path(__file__).resolve().parent / "inputs"
FLAGS = ("-O2", "-fno-vectorize")


@pytest.fixture
def compiler(tmp_path: Path) -> Compiler:
    return Compiler("regalloc-eviction", tmp_path, inputs=INPUTS, flags=FLAGS)


@pytest.fixture(params=LLVMS)
def each_compiler(request: pytest.FixtureRequest, tmp_path: Path) -> Compiler:
    """One for each LLVM that the plugin is for."""
    return Compiler("regalloc-eviction", tmp_path, request.param, inputs=INPUTS, flags=FLAGS)
