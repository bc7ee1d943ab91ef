# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The notebook of examples/: short, and it works. Nightly: needs build/venv-train."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook" / "phase_ordering.ipynb"


def code() -> str:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def test_it_has_at_most_forty_lines() -> None:
    assert sum(bool(line.strip()) for line in code().splitlines()) <= 40


@pytest.mark.nightly
@pytest.mark.training
def test_it_runs(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", code()],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=600,
        env={**os.environ, "PATH": path},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "step 0: " in done.stdout and "over_oz" in done.stdout
