# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Serving and asking over gRPC."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlbridge
from mlbridge import files
from serving import SMALL, running

pytestmark = pytest.mark.skipif(
    files.find_component("transport", "grpc") is None, reason="built without gRPC"
)


def largest(observation: Any, _context: mlbridge.CallContext) -> int:
    return int(observation["x"].argmax())


def test_a_server_at_a_free_port_is_asked(serdes: str) -> None:
    with running(largest, "grpc:localhost:0", SMALL) as server:
        assert not server.uri.endswith(":0")
        runner = mlbridge.open(f"{server.uri}?serdes={serdes}", SMALL, deadline=20)
        for k in range(4):
            assert runner.evaluate_scalar(x=np.eye(4)[k]) == k


def test_another_process_is_served_and_prints_nothing() -> None:
    script = (
        "import sys, mlbridge; print(mlbridge.open(sys.argv[1]).evaluate_scalar(x=[0, 0, 9, 0]))"
    )
    with running(largest, "grpc:localhost:0", SMALL) as server:
        done = subprocess.run(
            [sys.executable, "-c", script, server.uri],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.stdout, done.stderr, done.returncode) == ("2\n", "", 0)


def test_a_missing_server_is_a_connection_error() -> None:
    with running(largest, "grpc:localhost:0", SMALL) as server:
        uri = server.uri
    with pytest.raises(mlbridge.Unavailable) as error:
        mlbridge.open(uri)
    assert isinstance(error.value, ConnectionError)


def test_a_wrong_token_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("open-sesame\n")
    with running(largest, f"grpc:localhost:0?token-file={token}", SMALL) as server:
        assert mlbridge.open(server.uri, SMALL).evaluate_scalar(x=[0, 1, 0, 0]) == 1
        with pytest.raises(mlbridge.InvalidArgument, match="token"):
            mlbridge.open(server.uri.split("?")[0])
