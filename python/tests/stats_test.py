# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The statistics of a server while it runs."""

from __future__ import annotations

import json

import pytest

import mlbridge
from mlbridge.cli import main
from serving import SMALL, running


def test_a_running_server_shows_what_it_did(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(lambda o, c: 1, address, SMALL) as server:
        runner = server.open()
        for _ in range(20):
            runner.evaluate_scalar(x=[0, 0, 0, 0])
        assert main(["stats", address, "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert shown["connections"] == 2 and shown["streams"] == 1
        assert shown["requests"] == shown["replies"] == 20
        assert 0 < shown["latency-p50-us"] <= shown["latency-p99-us"] <= shown["latency-max-us"]
        assert main(["stats", address]) == 0
        assert "replies         20\n" in capsys.readouterr().out
        assert runner.evaluate_scalar(x=[0, 0, 0, 0]) == 1
        statistics = server.finish()
    assert statistics.replies == 21
    assert 0 < statistics.latency(0.5) <= statistics.latency(1.0) < 60


def test_every_number_is_one_in_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Answering:
        def statistics(self) -> dict[str, str]:
            return {"batches": "4", "batch-mean": "2.50", "name": "4 or more"}

    monkeypatch.setattr(mlbridge.Model, "open", lambda uri, deadline: Answering())
    assert main(["stats", "unix:/s", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == {"batches": 4, "batch-mean": 2.5, "name": "4 or more"}


def test_the_reason_why_there_is_nothing_to_show(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stats", address]) == 1
    assert "no server there" in capsys.readouterr().err
    assert main(["stats", "unxi:/x"]) == 1
    assert "unix" in capsys.readouterr().err
    model = mlbridge.from_function(lambda o, c: 1, SMALL)
    with pytest.raises(mlbridge.Unsupported, match="no server"):
        model.statistics()
