# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules to optimize."""

from __future__ import annotations

import subprocess
from pathlib import Path

SUM = """
int sum(const int *values, int count) {
  int total = 0;
  for (int i = 0; i < count; ++i)
    total += values[i] * 3;
  return total;
}
"""


def unoptimized(source: Path, *flags: str) -> Path:
    """The module of a C file, beside it, as `clang -Oz -Xclang -disable-llvm-passes` leaves it."""
    made = source.with_suffix(".bc")
    front_end = ["clang-22", "-Oz", "-Xclang", "-disable-llvm-passes", "-emit-llvm", *flags]
    subprocess.run([*front_end, "-c", "-o", made, source], check=True)
    return made
