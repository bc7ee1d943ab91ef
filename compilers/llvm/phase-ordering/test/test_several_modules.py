# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Several modules in one process: ../several_modules_test.cpp, which the preset dev builds."""

from __future__ import annotations

import subprocess
from pathlib import Path

from stock import BOTH

DEV = Path(__file__).resolve().parents[4] / "build/cmake/dev/compilers/llvm/phase-ordering"


@BOTH
def test_they_do_not_disturb_each_other(plugin: Path, llvm: int, tmp_path: Path) -> None:
    command = [DEV / f"several_modules_test_{llvm}", plugin]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0 and "[  PASSED  ]" in done.stdout, done.stdout + done.stderr
