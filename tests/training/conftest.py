# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A module to learn on."""

from __future__ import annotations

from pathlib import Path

import pytest
from modules import SUM, unoptimized


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("corpus") / "sum.c"
    source.write_text(SUM)
    return unoptimized(source)
