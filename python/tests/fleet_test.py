# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Several servers of one model over gRPC: asking them, draining one, and their statistics."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import mlbridge
from mlbridge import files
from mlbridge.cli import main
from mlbridge.cli.stats import servers_of
from mlbridge.policy_files import load
from serving import SMALL, Running, running

pytestmark = pytest.mark.skipif(
    files.find_component("transport", "grpc") is None, reason="built without gRPC"
)


@contextlib.contextmanager
def fleet(count: int, policy: Any = lambda o, c: 1, **options: Any) -> Iterator[list[Running]]:
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(running(policy, "grpc:127.0.0.1:0", SMALL, **options))
            for _ in range(count)
        ]


def uri_of(servers: list[Running], *more: str) -> str:
    return "grpc:" + ",".join([s.uri.removeprefix("grpc:") for s in servers] + list(more))


def free_place() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{one.getsockname()[1]}"


def test_stats_have_a_row_for_each_server_and_the_sum(capsys: pytest.CaptureFixture[str]) -> None:
    with fleet(3) as servers:
        for number, server in enumerate(servers):
            runner = server.open(SMALL)
            for _ in range(number + 1):
                runner.evaluate_scalar(x=[0, 0, 0, 0])
        assert main(["stats", uri_of(servers)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines] == [
            "server",
            *(s.uri.removeprefix("grpc:") for s in servers),
            "sum",
        ]
        replies = lines[0].split().index("replies")
        assert [int(line.split()[replies]) for line in lines[1:]] == [1, 2, 3, 6]
        assert main(["stats", uri_of(servers), "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert [row["replies"] for row in shown["servers"].values()] == [1, 2, 3]
        assert shown["sum"]["replies"] == 6 and shown["sum"]["servers"] == 3
        assert shown["sum"]["latency-max-us"] == max(
            row["latency-max-us"] for row in shown["servers"].values()
        )
        assert "latency-p50-us" not in shown["sum"]


def test_stats_name_a_server_that_does_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    missing = free_place()
    with fleet(1) as servers:
        assert main(["stats", uri_of(servers, missing), "--json"]) == 1
        said = capsys.readouterr()
        shown = json.loads(said.out)
        assert "no server there" in shown["servers"][missing]["error"]
        assert shown["sum"]["servers"] == 1
        assert said.err.startswith(f"mlbridge stats: {missing}: ")
        assert main(["stats", uri_of(servers, missing)]) == 1
        assert f"{missing}    no answer" in capsys.readouterr().out
        assert main(["stats", uri_of(servers, "")]) == 1
        assert "is empty" in capsys.readouterr().err
    assert main(["stats", "grpc:nowhere.invalid:7,elsewhere.invalid:8?insecure=yes"]) == 1
    assert "'nowhere.invalid' has no address" in capsys.readouterr().err


def test_a_name_stands_for_each_of_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: str, port: object, **_: object) -> list[Any]:
        if host != "fleet":
            raise socket.gaierror("no such name")
        return [(0, 0, 0, "", (one, 0)) for one in ("192.0.2.1", "192.0.2.2", "2001:db8::1")]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert servers_of("grpc:fleet:7?tls-ca=ca.pem") == {
        "fleet:7 (192.0.2.1)": "grpc:192.0.2.1:7?tls-ca=ca.pem&tls-name=fleet",
        "fleet:7 (192.0.2.2)": "grpc:192.0.2.2:7?tls-ca=ca.pem&tls-name=fleet",
        "fleet:7 ([2001:db8::1])": "grpc:[2001:db8::1]:7?tls-ca=ca.pem&tls-name=fleet",
    }
    assert servers_of("grpc:192.0.2.1:7") is None
    assert servers_of("unix:a,b") is None
    listed = servers_of("grpc:localhost:7,gone:8?tls-ca=x&tls-name=y")
    assert listed == {
        "localhost:7": "grpc:localhost:7?tls-ca=x&tls-name=y",
        "gone:8": "grpc:gone:8?tls-ca=x&tls-name=y",
    }


def test_draining_waits_for_an_episode_and_no_longer() -> None:
    with fleet(1) as (server,):
        runner = server.open(SMALL)
        runner.begin_episode("e")
        assert runner.evaluate_scalar(x=[0, 0, 0, 0]) == 1
        server.server.drain(3600)
        assert runner.evaluate_scalar(x=[0, 0, 0, 0]) == 1
        with pytest.raises(mlbridge.Unavailable, match="about to stop"):
            server.open(SMALL)
        runner.end_episode()
        server.thread.join(60)
        assert server.server.stopped
    with fleet(1) as (server,):
        runner = server.open(SMALL)
        runner.begin_episode("e")
        assert runner.evaluate_scalar(x=[0, 0, 0, 0]) == 1
        server.server.drain(0)
        server.thread.join(60)
        assert server.server.stopped


def test_draining_ends_with_a_compiler_of_any_transport(address: str) -> None:
    with running(lambda o, c: 1, address, SMALL) as server:
        runner = server.open(SMALL)
        assert runner.evaluate_scalar(x=[0, 0, 0, 0]) == 1
        server.server.drain(3600)
        server.thread.join(60)
        assert server.server.stopped


def test_a_request_in_work_is_answered_while_draining() -> None:
    asked, release = threading.Event(), threading.Event()

    def slow(observation: Any, context: mlbridge.CallContext) -> int:
        asked.set()
        release.wait(60)
        return 7

    with fleet(2, slow) as servers:
        answers: list[Any] = []
        runner = mlbridge.open(uri_of(servers), SMALL, deadline=60)
        work = threading.Thread(
            target=lambda: answers.append(runner.evaluate_scalar(x=[0, 0, 0, 0]))
        )
        work.start()
        asked.wait(60)
        for server in servers:
            server.server.drain(3600)
        release.set()
        work.join(60)
        assert answers == [7]


def test_a_policy_says_that_it_keeps_nothing(tmp_path: Any) -> None:
    file = tmp_path / "policy.py"
    file.write_text("stateless = True\ndef policy(observation, context):\n    return 1\n")
    assert load(f"{file}:policy").stateless
    file.write_text("def other(observation, context):\n    return 1\n")
    assert not load(f"{file}:other").stateless
