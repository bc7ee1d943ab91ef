# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules to optimize."""

from __future__ import annotations

from pathlib import Path

import pytest
from modules import SUM, unoptimized


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three modules, as `clang -Oz -Xclang -disable-llvm-passes` leaves them."""
    folder = tmp_path_factory.mktemp("corpus")
    caller = "int twice(int x) { return sum(&x, 1) + sum(&x, 1); }\n"
    for number in range(3):
        source = folder / f"f{number}.c"
        source.write_text(SUM.replace("3", str(number + 3)) + caller)
        unoptimized(source)
    return folder
