# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An installation prefix of the dev build, and a virtual environment that holds nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEV = ROOT / "build" / "cmake" / "dev"


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Runs a program that must succeed; its output."""
    done = subprocess.run(
        [str(c) for c in command], cwd=cwd, capture_output=True, text=True, timeout=800, check=False
    )
    assert done.returncode == 0, f"{command} gave {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library installed, then moved: nothing may depend on where it was installed to."""
    first = tmp_path_factory.mktemp("install") / "first"
    run("cmake", "--install", DEV, "--prefix", first)
    moved = first.with_name("moved prefix")
    first.rename(moved)
    return moved


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--no-deps"]
    run(*pip, "--no-build-isolation", "-w", folder, ROOT)
    (file,) = folder.glob("mlbridge-*.whl")
    return file


@pytest.fixture(scope="session")
def empty_venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", folder)
    return folder
