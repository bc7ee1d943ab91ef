# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The transports that tests are run over."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["unix", "shm", "pipe"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["bitstream", "json", "protobuf"])
def serdes(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"unix:{tmp_path}/s"
