# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Many environments at once, and what happens when they die."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import mlbridge
from mlbridge.workers import addresses, pause

HERE = Path(__file__).parent
CHILD = """
import sys
sys.path.insert(0, sys.argv[2])
import mlbridge, test_driving
mlbridge.serve_environment(
    test_driving.Countdown(), sys.argv[1], test_driving.SIGNATURE, keep_serving=True)
"""


def start(number: int, address: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", CHILD, address, str(HERE)])


def play(driver: mlbridge.Driver, task: int, generator: random.Random) -> list[int]:
    """Counts down in random steps."""
    taken = []
    observation = driver.reset(f"task {task}", seed=10 + task)
    while not driver.done:
        assert observation["about"] == f"task {task}"
        taken.append(generator.randint(1, 3))
        observation, _, _ = driver.step(taken[-1])
    return [task, *taken]


@pytest.fixture(params=["unix", "pipe"])
def pattern(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{request.param}:{tmp_path}/w{{}}"


def test_the_same_seed_gives_the_same_results_whoever_plays(pattern: str) -> None:
    runs = []
    for count in (1, 3):
        with mlbridge.Workers[int, list[int]](pattern, start, count=count, seed=5) as workers:
            runs.append([*workers.map(play, range(4)), *workers.map(play, range(4))])
            assert workers.statistics.episodes == 8
            assert workers.statistics.restarts == 0
    assert runs[0] == runs[1]
    assert [result[0] for result in runs[0]] == [*range(4), *range(4)]
    assert runs[0][0] != runs[0][4], "each task has numbers of its own"


def test_workers_killed_in_mid_episode_are_started_again(pattern: str) -> None:
    killed: set[int] = set()
    lock = threading.Lock()

    with mlbridge.Workers[int, list[int]](pattern, start, count=3, deadline=20, seed=5) as workers:

        def play_and_kill(
            driver: mlbridge.Driver, task: int, generator: random.Random
        ) -> list[int]:
            driver.reset("m", seed=9)
            driver.step(1)
            with lock:
                pids = {p.pid for p in workers.processes if p is not None} - killed
                number = driver.uri.split("?")[0].rpartition("w")[2]
                process = workers.processes[int(number)]
                if len(killed) < 3 and process is not None and process.pid in pids:
                    killed.add(process.pid)
                    os.kill(process.pid, signal.SIGKILL)
            return play(driver, task, generator)

        results = list(workers.map(play_and_kill, range(12)))
        assert len(killed) == 3
        assert workers.statistics.episodes == 12
        assert workers.statistics.faults == 3
        assert workers.statistics.begun == 15
        assert 1 <= workers.statistics.restarts <= 3, "those that were needed again"
    with mlbridge.Workers[int, list[int]](pattern, start, count=1, seed=5) as workers:
        assert results == list(workers.map(play, range(12)))


def test_what_a_task_raises_is_raised_in_its_turn(pattern: str) -> None:
    def fail(driver: mlbridge.Driver, task: int, generator: random.Random) -> int:
        if task == 2:
            driver.reset("broken")
        return task

    with mlbridge.Workers[int, int](pattern, start, count=2) as workers:
        results = workers.map(fail, range(9))
        assert next(results) == 0
        assert next(results) == 1
        with pytest.raises(mlbridge.PolicyFailed, match="no module 'broken'"):
            next(results)


def test_a_worker_that_never_comes_is_given_up(tmp_path: Path) -> None:
    with mlbridge.Workers[int, Any]([f"unix:{tmp_path}/none"], wait=0, retries=2) as workers:
        with pytest.raises(mlbridge.Unavailable):
            next(workers.map(play, [1]))
        assert workers.statistics.begun == 3


def test_patterns_of_addresses() -> None:
    assert addresses("unix:/tmp/w{}.sock", 2) == ["unix:/tmp/w0.sock", "unix:/tmp/w1.sock"]
    assert addresses("grpc:localhost:{5000}?x=1", 2)[1] == "grpc:localhost:5001?x=1"
    with pytest.raises(mlbridge.InvalidArgument, match="expected one"):
        addresses("unix:/tmp/w", 2)


def test_back_off_grows_to_its_cap() -> None:
    assert all(0 <= pause(1) <= 0.1 for _ in range(100))
    assert max(pause(4) for _ in range(200)) > 0.4
    assert all(pause(1000) <= 5 for _ in range(100))
