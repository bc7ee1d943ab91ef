# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The plugin, and the compilers that load it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from allocator import Allocator

import mlbridge.files


@pytest.fixture(scope="session")
def plugin() -> Path:
    stated = os.environ.get("MLBRIDGE_REGALLOC_ADVICE_PLUGIN")
    path = Path(stated or mlbridge.files.plugin("regalloc-advice"))
    assert path.is_file(), f"the plugin is not there: {path}"
    return path


@pytest.fixture
def allocator(plugin: Path, tmp_path: Path) -> Allocator:
    return Allocator(plugin, tmp_path)
