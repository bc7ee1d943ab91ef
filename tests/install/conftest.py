# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The wheel of the package."""

from __future__ import annotations

from pathlib import Path

import pytest
from building import ROOT


@pytest.fixture(scope="session")
def wheel() -> Path:
    """The one that is installed in build/venv."""
    (file,) = (ROOT / "build" / "wheels").glob("ml_compiler_bridge-*.whl")
    return file
