# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Environments that are driven, from Python and over every transport."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlbridge
from mlbridge.driving import Step
from serving import on_a_thread, running
from wire import connected, protocol

SIGNATURE = mlbridge.Signature(
    [
        mlbridge.TensorSpec("left", "int64"),
        mlbridge.TensorSpec("trace", "float32", [None]),
        mlbridge.TensorSpec("about", "str"),
    ],
    [mlbridge.TensorSpec("take", "int64")],
)


class Countdown:
    """Counts down from the seed by what the driver takes."""

    def reset(self, unit: str, seed: int) -> Mapping[str, Any]:
        """An observation."""
        if unit == "broken":
            raise FileNotFoundError("no module 'broken'")
        self.left, self.about, self.trace = seed, unit, list[float]()
        return self.observation()

    def step(self, action: Mapping[str, Any]) -> Step[Mapping[str, Any], float]:
        """Count down, twenty times at most."""
        take = int(action["take"])
        if take <= 0:
            raise ValueError(f"cannot take {take}")
        self.left -= take
        self.trace.append(take)
        done, seen = self.left <= 0, self.observation()
        if self.about == "quiet":  # about its end
            return (None if done else seen), take / 2, done
        return seen, take / 2, done, len(self.trace) == 20

    def observation(self) -> dict[str, Any]:
        return {"left": self.left, "trace": np.array(self.trace, np.float32), "about": self.about}


@contextlib.contextmanager
def environment_at(uri: str, **options: Any) -> Iterator[threading.Thread]:
    served = (Countdown(), uri, SIGNATURE, {"actions": "7"})
    with on_a_thread(mlbridge.serve_environment, *served, **options) as state:
        yield state.thread


@pytest.fixture(params=["unix", "pipe", "rendezvous"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "rendezvous":
        return f"pipe:{tmp_path}/r/"
    return f"{request.param}:{tmp_path}/s"


@pytest.mark.parametrize("serdes", ["bitstream", "json"])
def test_episodes_are_driven_to_their_end(uri: str, serdes: str) -> None:
    with environment_at(uri) as thread:
        with mlbridge.drive(f"{uri}?serdes={serdes}", deadline=20) as driver:
            assert driver.signature == SIGNATURE
            assert driver.metadata == {"actions": "7"}
            kept = []
            for seed in (3, 4):
                observation = driver.reset(f"module {seed}", seed=seed)
                assert observation["about"] == f"module {seed}"
                for i in range(seed):
                    assert not driver.done
                    assert int(observation["left"]) == seed - i
                    kept.append(observation["trace"])
                    observation, reward, done = driver.step(1)
                    assert reward == 0.5
                assert done
                assert driver.done
                assert not driver.truncated
                assert int(observation["left"]) == 0
                assert len(observation["trace"]) == seed
                assert driver.last_observations[""]["about"] == f"module {seed}"
                assert driver.steps == seed
            assert [len(trace) for trace in kept] == [0, 1, 2, 0, 1, 2, 3]
            with pytest.raises(mlbridge.InvalidArgument, match="reset first"):
                driver.step(1)
        thread.join(20)  # the driver has left
        assert not thread.is_alive()


def test_a_seed_is_an_integer_of_64_bits(uri: str) -> None:
    with environment_at(uri), mlbridge.drive(uri, deadline=20) as driver:
        for seed in (-1, 2**64):
            with pytest.raises(
                mlbridge.InvalidArgument, match=rf"the seed is {seed}, expected 0 to"
            ):
                driver.reset("m", seed=seed)
        seeds: list[Any] = ["a", 1.0, None]
        for wrong in seeds:
            with pytest.raises(TypeError, match=rf"the seed is {wrong!r}, expected an integer"):
                driver.reset("m", seed=wrong)
        assert driver.reset("m", seed=2)["left"] == 2


@pytest.mark.parametrize("serdes", ["bitstream", "json"])
def test_a_limit_is_told_with_what_is_seen_then(uri: str, serdes: str) -> None:
    with (
        environment_at(uri),
        mlbridge.drive(f"{uri}?serdes={serdes}", deadline=20) as driver,
    ):
        for _ in range(2):
            driver.reset("m", seed=100)
            assert driver.last_observations == {}
            while not driver.done:
                last = driver.step(1)
            assert (driver.truncated, driver.steps, int(last.observation["left"])) == (True, 20, 80)
            assert len(driver.last_observations[""]["trace"]) == 20
            driver.reset("m", seed=20)
            while not driver.done:
                driver.step(1)
            assert not driver.truncated, "it has ended by itself at the same time"
            driver.reset("quiet", seed=1)
            assert not driver.truncated
            assert driver.step(1) == ({}, 0.5, True)
            assert not driver.truncated
            assert driver.last_observations == {}


def test_a_driver_that_knows_nothing_of_last_observations(tmp_path: Path) -> None:
    with environment_at(f"unix:{tmp_path}/s"), connected(f"unix:{tmp_path}/s") as peer:
        peer.send(protocol.frame("hello", protocol.HELLO + protocol.text("json") * 2))
        assert peer.receive().kind == "welcome"
        inputs: list[tuple[str, int, list[int]]] = [
            ("left", 4, []),
            ("trace", 10, [-1]),
            ("about", 13, []),
        ]
        signature = protocol.signature(
            [protocol.spec(*one) for one in inputs], [protocol.spec("take", 4, [])]
        )
        peer.send(protocol.frame("open-stream", signature + protocol.text("") * 3, stream=1))
        reset = protocol.text("m") + struct.pack("<Q", 1)
        peer.send(protocol.frame("reset", reset, stream=1, request=1))
        assert peer.receive().kind == "reply"
        peer.send(protocol.frame("step", b'{"take":1}', stream=1, request=2))
        last, reward, reply = (peer.receive() for _ in range(3))
        assert (last.kind, last.flags, last.request) == ("last", 1, 2)
        assert json.loads(last.payload)["left"] == 0
        assert (reward.kind, reply.kind, reply.flags, reply.payload) == ("reward", "reply", 2, b"")


def test_what_the_environment_raises_ends_that_episode(uri: str) -> None:
    with environment_at(uri), mlbridge.drive(uri, deadline=20) as driver:
        with pytest.raises(mlbridge.PolicyFailed, match="no module 'broken'"):
            driver.reset("broken")
        driver.reset("fine", seed=3)
        with pytest.raises(mlbridge.PolicyFailed, match="cannot take -4"):
            driver.step({"take": -4})
        assert int(driver.reset("fine", seed=2)["left"]) == 2


def test_an_action_that_does_not_fit_is_refused_before_it_is_sent(uri: str) -> None:
    with environment_at(uri), mlbridge.drive(uri, deadline=20) as driver:
        driver.reset("m", seed=3)
        with pytest.raises(mlbridge.InvalidArgument, match="take"):
            driver.step({"taken": 4})
        with pytest.raises(mlbridge.InvalidArgument, match="take"):
            driver.step([1, 2])
        assert driver.step(3).done


def test_models_are_asked_and_environments_driven(uri: str, tmp_path: Path) -> None:
    with environment_at(uri), pytest.raises(mlbridge.Mismatch, match="driven, not asked"):
        mlbridge.open(uri, SIGNATURE, deadline=20)
    other = f"unix:{tmp_path}/model"
    with (
        running(lambda o, c: 1, other, SIGNATURE),
        pytest.raises(mlbridge.Mismatch, match="asked, not driven"),
    ):
        mlbridge.drive(other, deadline=20)


def test_nobody_there_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(mlbridge.Unavailable, match="no server there"):
        mlbridge.drive(f"unix:{tmp_path}/none")


CHILD = """
import os, sys
sys.path.insert(0, sys.argv[2])
import mlbridge, driving_test
driving_test.mlbridge.serve_environment(
    driving_test.Countdown(), sys.argv[1], driving_test.SIGNATURE, keep_serving=True)
"""


def test_a_killed_environment_is_noticed_and_another_takes_its_place(tmp_path: Path) -> None:
    uri = f"unix:{tmp_path}/s"
    command = [sys.executable, "-c", CHILD, uri, str(Path(__file__).parent)]
    with subprocess.Popen(command) as first:
        driver = mlbridge.drive(uri + "?wait=20s", deadline=20)
        driver.reset("m", seed=9)
        os.kill(first.pid, signal.SIGKILL)
        first.wait(20)
        with pytest.raises(mlbridge.Closed):
            driver.step(1)
        with pytest.raises(mlbridge.InvalidArgument, match="reset first"):
            driver.step(1)
    with subprocess.Popen(command) as second:
        try:
            mlbridge.drive(uri + "?wait=20s", deadline=20).close()
            assert int(driver.reset("m", seed=5)["left"]) == 5
            assert driver.step(5).done
            driver.close()
        finally:
            second.kill()
            second.wait(20)
