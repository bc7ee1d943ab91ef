# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What tests of several folders share: things that are slow to make, and programs that count cases
themselves."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from building import DEV, run
from once import SharedBuild, begin_run

ROOT = Path(__file__).resolve().parent
for folder, folders, files in os.walk(ROOT):  # what tests import lies beside them
    folders[:] = sorted(d for d in folders if d != "build" and d[0] != ".")
    if any(file.endswith("_test.py") for file in files) and "__init__.py" not in files:
        sys.path.append(folder)
RUN = pytest.StashKey[Path]()


def is_worker(config: pytest.Config) -> bool:
    """Whether this is a process of pytest-xdist's, led by another one."""
    return hasattr(config, "workerinput")


def pytest_configure(config: Any) -> None:
    config.stash[RUN] = Path(config.workerinput["run"]) if is_worker(config) else begin_run()


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_configure_node(node: Any) -> None:
    node.workerinput["run"] = str(node.config.stash[RUN])


def pytest_unconfigure(config: pytest.Config) -> None:
    if not is_worker(config):
        shutil.rmtree(config.stash[RUN], ignore_errors=True)


@pytest.fixture(scope="session")
def shared_build(pytestconfig: pytest.Config) -> SharedBuild:
    """Makes a folder once, for all processes of the run."""
    return SharedBuild(pytestconfig.stash[RUN])


@pytest.fixture(scope="session")
def prefix(shared_build: SharedBuild) -> Path:
    """The dev build installed, then moved: nothing may depend on where it was installed to."""

    def install(folder: Path) -> None:
        first = folder / "first"
        run("cmake", "--install", DEV, "--prefix", first)
        first.rename(folder / "moved prefix")

    return shared_build("installation", install) / "moved prefix"


@pytest.fixture
def judge(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Runs a program that judges cases and counts them in build/test/REPORT."""

    def judged(program: Path, report: str, *options: str | Path) -> None:
        path = ROOT / "build" / "test" / report
        path.unlink(missing_ok=True)
        command = [sys.executable, program, *options]
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False)
        assert done.returncode == 0
        counts = json.loads(path.read_text())
        assert counts["passed"] > 0 and counts["failed"] == 0
        record_property("cases", counts["passed"])

    return judged
