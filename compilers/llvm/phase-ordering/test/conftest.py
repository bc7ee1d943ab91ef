# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The plugin, and the compilers that load it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from stock import Compiler

import mlbridge.files


@pytest.fixture(scope="session")
def plugin() -> Path:
    stated = os.environ.get("MLBRIDGE_PHASE_ORDERING_PLUGIN")
    path = Path(stated or mlbridge.files.plugin("phase-ordering"))
    assert path.is_file(), f"the plugin is not there: {path}"
    return path


@pytest.fixture
def compiler(plugin: Path, tmp_path: Path) -> Compiler:
    return Compiler(plugin, tmp_path)
