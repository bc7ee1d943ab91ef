# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How pytest-xdist shares out the tests, and programs that count cases themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent
# Folders whose tests share what is slow to make, so one process runs all of a folder.
TOGETHER = ("examples", "tests/compat", "tests/tensorflow")
# Folders whose tests share nothing; of other folders one process runs a whole file.
APART = ("compilers/llvm/phase-ordering/test", "demo", "tests/docs", "tests/random-networks")


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        file = item.path.relative_to(ROOT)
        folder = next((f for f in TOGETHER if file.is_relative_to(f)), str(file))
        if not any(file.is_relative_to(f) for f in APART):
            item.add_marker(pytest.mark.xdist_group(folder.replace("/", "-")))


@pytest.fixture
def judge(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Runs a program that judges cases and counts them in build/test/REPORT."""

    def run(program: Path, report: str, *options: str | Path) -> None:
        path = ROOT / "build" / "test" / report
        path.unlink(missing_ok=True)
        command = [sys.executable, program, *options]
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False)
        assert done.returncode == 0
        counts = json.loads(path.read_text())
        assert counts["passed"] > 0 and counts["failed"] == 0
        record_property("cases", counts["passed"])

    return run
