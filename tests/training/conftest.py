# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A module to learn on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SOURCE = """
int sum(const int *values, int count) {
  int total = 0;
  for (int i = 0; i < count; ++i)
    total += values[i] * 3;
  return total;
}
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("corpus") / "sum.c"
    source.write_text(SOURCE)
    flags = ["-Oz", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c", "-o"]
    made = source.with_suffix(".bc")
    subprocess.run(["clang-22", *flags, str(made), str(source)], check=True)
    return made
