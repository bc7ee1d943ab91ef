# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The plugin, and the compilers that load it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from distribution_runs import Compiler

import mlbridge.files


@pytest.fixture
def compiler(tmp_path: Path) -> Compiler:
    path = Path(mlbridge.files.plugin("loop-distribution"))
    folder = os.environ.get("MLBRIDGE_LOOP_DISTRIBUTION_PLUGINS")
    if folder:
        path = Path(folder) / path.name
    assert path.is_file(), f"the plugin is not there: {path}"
    return Compiler(path, tmp_path)
