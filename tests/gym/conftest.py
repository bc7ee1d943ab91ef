# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules to optimize."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SUM = """
int sum(const int *values, int count) {
  int total = 0;
  for (int i = 0; i < count; ++i)
    total += values[i] * 3;
  return total;
}
int twice(int x) { return sum(&x, 1) + sum(&x, 1); }
"""


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three modules, as `clang -Oz -Xclang -disable-llvm-passes` leaves them."""
    folder = tmp_path_factory.mktemp("corpus")
    for number in range(3):
        source = folder / f"f{number}.c"
        source.write_text(SUM.replace("3", str(number + 3)))
        flags = ["-Oz", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c", "-o"]
        module = source.with_suffix(".bc")
        subprocess.run(["clang-22", *flags, str(module), str(source)], check=True)
    return folder
