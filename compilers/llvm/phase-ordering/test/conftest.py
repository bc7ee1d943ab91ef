# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The plugin, and the compilers that load it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from stock import Compiler

import mlbridge.files


@pytest.fixture
def llvm() -> int:
    """The version; stock.BOTH has a test run with LLVM 19 as well."""
    return 22


@pytest.fixture
def plugin(llvm: int) -> Path:
    stated = os.environ.get("MLBRIDGE_PHASE_ORDERING_PLUGIN") if llvm == 22 else None
    path = Path(stated or mlbridge.files.plugin("phase-ordering", llvm))
    assert path.is_file(), f"the plugin is not there: {path}"
    return path


@pytest.fixture
def compiler(plugin: Path, tmp_path: Path, llvm: int) -> Compiler:
    return Compiler(plugin, tmp_path, llvm)
