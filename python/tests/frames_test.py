# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recordings as tables."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import mlbridge
from mlbridge import InvalidModel
from mlbridge.frames import steps
from serving import SMALL, running


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Two episodes of two and one requests, and a request outside of episodes."""
    up = threading.Event()
    servers: list[mlbridge.Server] = []

    def ready(server: mlbridge.Server) -> None:
        servers.append(server)
        up.set()

    with running(lambda o, _: int(o["x"].sum()), f"unix:{tmp_path}/p", SMALL) as policy:
        thread = threading.Thread(
            target=mlbridge.forward,
            args=(f"{policy.uri}?record={tmp_path}/recordings", f"unix:{tmp_path}/r"),
            kwargs={"ready": ready},
        )  # fmt: skip
        thread.start()
        assert up.wait(20)
        with mlbridge.open(servers[0].address, SMALL, deadline=20) as runner:
            for episode, count in (("a", 2), ("b", 1)):
                runner.begin_episode(episode, "f.c")
                for k in range(count):
                    runner.evaluate_scalar(x=[k, 1, 2, 3])
                    runner.reward(0.5)
                runner.end_episode()
            runner.evaluate_scalar(x=[0, 0, 0, 0])  # once it is answered, all before is recorded
        servers[0].stop()
        thread.join(20)
    (file,) = (tmp_path / "recordings").iterdir()
    return file


def test_a_row_for_each_request(recorded: Path) -> None:
    table = steps(recorded)
    assert table.num_rows == 4
    rows = table.slice(0, 3).to_pylist()
    assert [row["episode"] for row in rows] == ["a", "a", "b"]
    assert [row["step"] for row in rows] == [0, 1, 0]
    assert [row["action"] for row in rows] == [6, 7, 6]
    assert rows[1]["x"] == [1, 1, 2, 3] and rows[1]["unit"] == "f.c"
    assert table["reward"].to_pylist() == [0.5, 0.5, 0.5, 0.0]
    assert table["outcome"].to_pylist() == ["OK", "OK", "OK", None]
    assert all(row["wait"] > 0 and row["time"] > 0 for row in rows)


def test_a_damaged_recording(recorded: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = steps(recorded)
    data = recorded.read_bytes()
    recorded.write_bytes(data[:-3])
    assert steps(recorded).num_rows >= whole.num_rows - 1, "what is before the damage"
    assert "what is before" in caplog.text
    recorded.write_bytes(b"no recording")
    with pytest.raises(InvalidModel):
        steps(recorded)
