# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compiler whose plugin is tested."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiler import Compiler


@pytest.fixture
def compiler(tmp_path: Path) -> Compiler:
    flags = ("-O3", "-Wno-everything", "-Wbackend-plugin", "-fwrapv")
    return Compiler("loop-distribution", tmp_path, flags=flags)
