# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An installation prefix of the dev build, and a virtual environment that holds nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from building import DEV, ROOT, run


@pytest.fixture(scope="session")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library installed, then moved: nothing may depend on where it was installed to."""
    first = tmp_path_factory.mktemp("install") / "first"
    run("cmake", "--install", DEV, "--prefix", first)
    moved = first.with_name("moved prefix")
    first.rename(moved)
    return moved


@pytest.fixture(scope="session")
def wheel() -> Path:
    """The one that is installed in build/venv."""
    (file,) = (ROOT / "build" / "wheels").glob("mlbridge-*.whl")
    return file


@pytest.fixture(scope="session")
def empty_venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", folder)
    return folder
