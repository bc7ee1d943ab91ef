# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Environments in processes of their own, and what happens when they die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import mlbridge
from mlbridge.gym.worker import FAULTS, Worker, pause

TESTS = Path(__file__).parents[2] / "python" / "tests"
CHILD = """
import sys
sys.path.insert(0, sys.argv[2])
import mlbridge, driving_test
mlbridge.serve_environment(
    driving_test.Countdown(), sys.argv[1], driving_test.SIGNATURE, keep_serving=True)
"""


def start(address: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", CHILD, address, str(TESTS)])


@contextmanager
def working(address: str, wait: float = 30.0) -> Iterator[Worker]:
    worker = Worker(address, start, 20, wait)
    try:
        yield worker
    finally:
        worker.drop()


@pytest.mark.parametrize("transport", ["unix", "pipe"])
def test_a_worker_that_was_killed_in_mid_episode_is_started_again(
    transport: str, tmp_path: Path
) -> None:
    with working(f"{transport}:{tmp_path}/w") as worker:
        driver = worker.driver()
        driver.reset("m", seed=9)
        assert worker.process is not None and worker.driver() is driver
        killed = worker.process.pid
        os.kill(killed, signal.SIGKILL)
        worker.process.wait()
        with pytest.raises(FAULTS):
            driver.step(1)
        worker.drop()
        assert worker.driver().reset("m", seed=9)["about"] == "m"
        assert worker.process is not None and worker.process.pid != killed


def test_an_error_of_the_environment_is_no_fault_of_the_worker(tmp_path: Path) -> None:
    with working(f"unix:{tmp_path}/w") as worker:
        with pytest.raises(mlbridge.PolicyFailed, match="no module 'broken'") as raised:
            worker.driver().reset("broken")
        assert not isinstance(raised.value, FAULTS)
        assert worker.driver().reset("m", seed=1)


def test_a_worker_that_never_comes_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(mlbridge.Unavailable):
        Worker(f"unix:{tmp_path}/none", None, None, 0).driver()


def test_back_off_grows_to_its_cap() -> None:
    assert all(0 <= pause(1) <= 0.1 for _ in range(100))
    assert max(pause(4) for _ in range(200)) > 0.4
    assert all(pause(1000) <= 5 for _ in range(100))
