# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Several modules in one process: ../several_modules_test.cpp, which the preset dev builds."""

from __future__ import annotations

from pathlib import Path

from stock import BOTH, Compiler

DEV = Path(__file__).resolve().parents[4] / "build/cmake/dev/compilers/llvm/phase-ordering"


@BOTH
def test_they_do_not_disturb_each_other(compiler: Compiler) -> None:
    done = compiler.run(DEV / f"several_modules_test_{compiler.llvm}", compiler.plugin, check=False)
    assert done.returncode == 0 and "[  PASSED  ]" in done.stdout, done.stdout + done.stderr
