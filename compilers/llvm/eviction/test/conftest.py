# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The plugin, and the compilers that load it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from allocator import Allocator
from sampling import LLVMS

import mlbridge.files


def plugin(version: int) -> Path:
    folder = os.environ.get("MLBRIDGE_REGALLOC_ADVICE_PLUGINS")
    path = Path(mlbridge.files.plugin("regalloc-advice", version))
    if folder:
        path = Path(folder) / path.name
    assert path.is_file(), f"the plugin is not there: {path}"
    return path


@pytest.fixture
def allocator(tmp_path: Path) -> Allocator:
    return Allocator(plugin(22), tmp_path)


@pytest.fixture(params=LLVMS)
def each_allocator(request: pytest.FixtureRequest, tmp_path: Path) -> Allocator:
    """Of each LLVM that it is for."""
    return Allocator(plugin(request.param), tmp_path, request.param)
