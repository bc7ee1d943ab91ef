# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A server with too much of something."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import mlbridge
from mlbridge.cli import main
from serving import SMALL, running
from wire import connected, protocol


def first(observation: Mapping[str, Any], context: mlbridge.CallContext) -> int:
    return int(observation["x"][0])


def test_every_limit_is_an_option(address: str) -> None:
    limits: dict[str, Any] = {
        "max_connections": 5,
        "max_streams": 6,
        "max_message": 1000,
        "max_queued": 7,
        "max_queued_bytes": 8,
        "max_events": 9,
        "max_tensors": 10,
        "max_control": 4096,
        "max_connection_memory": 1 << 20,
        "max_memory": 1 << 21,
        "max_unsent": 1 << 20,
        "turn_frames": 1,
        "turn_bytes": 1,
        "handshake_time": "3s",
    }
    with mlbridge.Server(address, **limits) as server:
        assert server.statistics.over_limit == 0 == server.statistics.events_dropped
    for value in (2.5, timedelta(seconds=3)):
        mlbridge.Server(address, handshake_time=value).close()
    with pytest.raises(TypeError, match="no limit 'max_fun'"):
        mlbridge.Server(address, max_fun=1)
    with pytest.raises(mlbridge.InvalidArgument, match="max_events is -1, expected 0 to"):
        mlbridge.Server(address, max_events=-1)


def test_who_goes_beyond_a_limit_is_closed_told_and_counted(address: str) -> None:
    with running(first, address, SMALL, max_control=2000) as state:
        with connected(address) as peer:
            peer.send(
                protocol.GOOD["hello"],
                protocol.frame("open-stream", protocol.SUM + bytes(3000), stream=1),
            )
            code, text = peer.until("error").error()
            assert code == mlbridge.Code.LIMIT_EXCEEDED and "2000" in text
            assert peer.is_closed()
        assert state.open(SMALL).evaluate_scalar(x=[7, 0, 0, 0]) == 7
        assert state.server.statistics.over_limit == 1
        model = mlbridge.Model.open(state.uri)
        assert model.statistics()["over-limit"] == "1"


def test_serve_takes_limits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.py").write_text("def p(o, c): return 0\n")
    command = ["serve", f"{tmp_path}/p.py:p", "--at", f"unix:{tmp_path}/s"]
    for wrong in ("max_connections", "max_connections=-1", "max_fun=1"):
        assert main([*command, "--limit", wrong]) in (1, 2)
        assert wrong.partition("=")[0] in capsys.readouterr().err


def test_a_request_that_cannot_be_held_fails_alone(address: str) -> None:
    def hungry(observation: Mapping[str, Any], context: mlbridge.CallContext) -> int:
        if observation["x"][0] == 1:
            raise MemoryError
        return 5

    with running(hungry, address, SMALL) as state:
        runner = state.open(SMALL)
        with pytest.raises(mlbridge.Error):
            runner.evaluate_scalar(x=[1, 0, 0, 0])
        assert runner.evaluate_scalar(x=[0, 0, 0, 0]) == 5


UNDER_A_LIMIT = """
import resource, sys
import mlbridge
server = mlbridge.Server(sys.argv[1], max_connection_memory=1 << 40, max_memory=1 << 40,
                         max_message=1 << 30, max_queued_bytes=1 << 30)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20), used + (200 << 20)))
print("ready", flush=True)
server.serve_forever(lambda o, c: {"n": 3})
"""


def test_under_a_limit_of_memory_the_server_goes_on(address: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", UNDER_A_LIMIT, address], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        texts = mlbridge.Signature(
            [mlbridge.TensorSpec("s", str, [None])], [mlbridge.TensorSpec("n", "int64")]
        )
        good = mlbridge.open(address, texts, deadline=60)
        assert good.evaluate_scalar(s=["a"]) == 3
        refused = 0
        # Somewhere the message is too long, then what is decoded of it, then what Python makes.
        for count in (*range(3_000_000, 8_000_000, 1_000_000), 20_000_000):
            greedy = mlbridge.open(address, texts, deadline=60)
            try:
                assert greedy.evaluate_scalar(s=[""] * count) == 3
            except mlbridge.Error:
                refused += 1
            assert process.poll() is None
            assert good.evaluate_scalar(s=["a", "b"]) == 3
        assert refused >= 2
    finally:
        process.kill()
        process.wait(30)


OPEN = protocol.frame(
    "open-stream",
    protocol.signature([protocol.spec("x", 10, [4])], [protocol.spec("action", 4, [])])
    + protocol.text("") * 3,
    stream=1,
)


def test_what_a_context_says_outlives_the_next_episode(address: str) -> None:
    with mlbridge.Server(address, SMALL) as server, connected(address) as peer:
        peer.send(
            protocol.GOOD["hello"],
            OPEN,
        )
        for letter in "abc":
            peer.send(
                protocol.frame(
                    "episode-begin",
                    protocol.text(letter * 100) + protocol.text(letter * 1000),
                    stream=1,
                )
            )
        events = [server.next(timeout=20) for _ in range(3)]
        for event, letter in zip(events, "abc", strict=True):
            assert event is not None
            assert event.context.episode == letter * 100  # made only now
            assert event.context.unit == letter * 1000


def test_events_beyond_the_queue_are_dropped_and_the_connection_lives(address: str) -> None:
    with mlbridge.Server(address, SMALL, max_events=16) as server, connected(address) as peer:
        peer.send(
            protocol.GOOD["hello"],
            OPEN,
            b"".join(
                protocol.frame("reward", k.to_bytes(8, "little"), stream=1) for k in range(100)
            ),
        )
        first_one = server.next(timeout=20)  # the helper thread reads the rest meanwhile
        assert first_one is not None and first_one.kind is mlbridge.EventKind.REWARD
        limit = time.monotonic() + 60
        taken = 1
        while taken + server.statistics.events_dropped < 100 and time.monotonic() < limit:
            taken += server.next(timeout=0.1) is not None
        assert taken + server.statistics.events_dropped == 100
        peer.send(protocol.frame("ping", b"x", request=9))
        assert server.next(timeout=0.1) is None
        assert peer.until("pong").request == 9
