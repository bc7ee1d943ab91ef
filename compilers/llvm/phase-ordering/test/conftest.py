# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compiler whose plugin is tested."""

from __future__ import annotations

from pathlib import Path

import pytest
from stock import SOURCES, Compiler


@pytest.fixture
def llvm() -> int:
    """The version; stock.BOTH has a test run with LLVM 19 as well."""
    return 22


@pytest.fixture
def compiler(tmp_path: Path, llvm: int) -> Compiler:
    return Compiler("phase-ordering", tmp_path, llvm, inputs=SOURCES)
