# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recorded conversations: what is kept, what damage costs, and playing them again."""

from __future__ import annotations

import contextlib
import itertools
import signal
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlbridge
from mlbridge import PolicyFailed, Recording, Signature, TensorSpec
from mlbridge.cli import main
from mlbridge.recording import write
from serving import running

SIGNATURE = Signature(
    [
        TensorSpec("x", "float32", [-1], [64]),
        TensorSpec("mask", "bool", [2]),
        TensorSpec("name", str),
    ],
    [TensorSpec("action", "int64"), TensorSpec("scores", "float16", [2])],
)


@contextlib.contextmanager
def served(serve: Callable[..., Any], *arguments: Any) -> Iterator[None]:
    """Runs mlbridge.forward or replay on a thread."""
    ready, servers, failed = threading.Event(), [], []

    def begin(server: mlbridge.Server) -> None:
        servers.append(server)
        ready.set()

    def run() -> None:
        try:
            serve(*arguments, ready=begin)
        except BaseException as error:
            failed.append(error)
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(60)
    try:
        if failed:
            raise failed[0]
        yield
    finally:
        for server in servers:
            server.stop()
        thread.join(60)
        assert not thread.is_alive()


def features(k: float) -> dict[str, Any]:
    x = np.array([k, np.nan, -0.0], np.float32)[: int(k) + 1]
    return {"x": x, "mask": [True, False], "name": f"f{k}\0ü"}


def session(uri: str) -> list[tuple[Any, ...]]:
    """Two episodes, each of three steps; the middle one of the second fails."""
    runner = mlbridge.open(uri, SIGNATURE, agent="inliner", deadline=30)
    answers: list[tuple[Any, ...]] = []
    for episode in ("one", "two"):
        runner.begin_episode(episode, f"{episode}.c")
        for k in range(3):
            try:
                found = runner.evaluate(**features(k))
                answers.append((int(found["action"]), found["scores"].tolist()))
            except PolicyFailed as error:
                answers.append((str(error),))
            runner.reward(k + 0.5)
            runner.reward(10)
        runner.end_episode("" if episode == "one" else "miscompiled")
    return answers


def counting() -> Callable[..., Any]:
    """Never answers alike twice."""
    numbers = itertools.count()

    def policy(observation: Mapping[str, Any], context: mlbridge.CallContext) -> Any:
        number = next(numbers)
        if number == 4:
            raise ValueError("no idea")
        return {"action": number, "scores": [number / 2, -np.inf]}

    return policy


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[Path, list[tuple[Any, ...]]]:
    model, at = f"unix:{tmp_path}/m", f"unix:{tmp_path}/p"
    with (
        running(counting(), model, SIGNATURE, metadata={"note": "shown"}),
        served(mlbridge.forward, f"{model}?record={tmp_path}/recordings", at),
    ):
        answers = session(at)
        assert mlbridge.Model.open(at).metadata["note"] == "shown"
    (path,) = (tmp_path / "recordings").iterdir()
    return path, answers


def test_episodes_come_back_as_arrays(recorded: tuple[Path, list[tuple[Any, ...]]]) -> None:
    recording = Recording(recorded[0])
    assert recording.signature == SIGNATURE and recording.metadata["note"] == "shown"
    one, two = recording.episodes()
    assert recording.damage == ""
    assert (one.agent, one.episode, one.unit, len(one)) == ("inliner", "one", "one.c", 3)
    assert one.signature == SIGNATURE
    assert one.outcome is not None and one.outcome.ok
    for k, observation in enumerate(one.observations):
        expected = features(k)
        assert observation["x"].dtype == np.float32
        assert observation["x"].tobytes() == expected["x"].tobytes()
        assert observation["mask"].tolist() == [True, False]
        assert observation["name"].item() == expected["name"]
    assert one.stacked("action").tolist() == [0, 1, 2]
    assert one.stacked("scores").dtype == np.float16
    assert one.rewards.tolist() == [10.5, 11.5, 12.5]
    assert one.times == sorted(one.times) and min(one.waits) > 0
    assert len(two) == 2 and two.stacked("action").tolist() == [3, 5]
    ((step, failure),) = two.failures
    assert step == 1 and "no idea" in failure.message
    assert two.rewards.tolist() == [22.0, 12.5]  # what came after the failure counts before
    assert two.outcome is not None and "miscompiled" in two.outcome.message


def test_a_replay_answers_alike(
    recorded: tuple[Path, list[tuple[Any, ...]]], tmp_path: Path, transport: str
) -> None:
    path, answers = recorded
    at = f"{transport}:{tmp_path}/r"
    with served(mlbridge.replay, path, at):
        assert session(at) == answers
        runner = mlbridge.open(at, deadline=30)
        assert runner.model.metadata["note"] == "shown"
        # Another agent and place: any equal inputs do.
        assert runner.evaluate(**features(2))["action"] in (2, 5)
        runner.begin_episode("one", "one.c")
        with pytest.raises(PolicyFailed, match=r"step 0 of unit 'one\.c'.*with other inputs"):
            runner.evaluate(**{**features(0), "name": "new"})
        runner.begin_episode("three", "three.c")
        with pytest.raises(PolicyFailed, match=r"\.mlbrec: step 0.*not recorded"):
            runner.evaluate(**{**features(0), "name": "new"})


def test_what_is_whole_is_kept_of_a_file_cut_anywhere(
    recorded: tuple[Path, list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    data = recorded[0].read_bytes()
    whole = list(Recording(recorded[0]).records())
    cut = tmp_path / "cut.mlbrec"
    before = 0
    for size in range(0, len(data), 7):
        cut.write_bytes(data[:size])
        try:
            recording = Recording(cut)
        except mlbridge.InvalidModel:
            assert before == 0
            continue
        records = list(recording.records())
        assert len(records) >= before and len(records) <= len(whole)
        assert [r.kind for r in records] == [r.kind for r in whole[: len(records)]]
        before = len(records)
        steps = sum(len(episode) for episode in recording.episodes())
        assert steps == sum(r.kind == "reply" for r in records)
    assert before == len(whole) - 1


def test_altered_bytes_end_the_records(
    recorded: tuple[Path, list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    data = recorded[0].read_bytes()
    whole = list(Recording(recorded[0]).records())
    bad = tmp_path / "bad.mlbrec"
    for at in range(8, len(data), 11):
        bad.write_bytes(data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :])
        try:
            recording = Recording(bad)
        except mlbridge.InvalidModel as error:
            assert "bad.mlbrec" in str(error)
            continue
        assert len(list(recording.records())) < len(whole)
        assert recording.damage.startswith("at byte ")


def test_a_request_in_work_when_the_recorder_is_killed_is_kept(tmp_path: Path) -> None:
    asked, end = threading.Event(), threading.Event()

    def policy(*_: Any) -> Any:
        asked.set()
        assert end.wait(60)
        return {"action": 1, "scores": [0, 0]}

    at = f"unix:{tmp_path}/p"
    with running(policy, f"unix:{tmp_path}/m", SIGNATURE) as model:
        command = ["serve", f"{model.uri}?record={tmp_path}/recordings", "--at", at]
        process = subprocess.Popen(
            [sys.executable, "-m", "mlbridge", *command], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.readline().decode() == f"ready {at}\n"
        errors: list[mlbridge.Error] = []

        def ask() -> None:
            try:
                mlbridge.open(at, deadline=60).evaluate(**features(1))
            except mlbridge.Error as error:
                errors.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        assert asked.wait(60)
        process.kill()
        process.communicate()
        thread.join(60)
        end.set()
    assert len(errors) == 1
    (path,) = (tmp_path / "recordings").iterdir()
    kinds = [record.kind for record in Recording(path).records()]
    assert kinds == ["recording", "stream", "request"]


FULL = """
import resource, signal, sys
from mlbridge.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
sys.exit(main(sys.argv[1:]))
"""


def test_a_full_disk_ends_the_recording_alone_and_is_said(tmp_path: Path) -> None:
    at = f"unix:{tmp_path}/r"
    signature = Signature([TensorSpec("x", "float32", [4])], [TensorSpec("y", "float32")])
    with running(lambda o, c: o["x"].sum(), f"unix:{tmp_path}/m", signature) as model:
        asked = f"{model.uri}?record={tmp_path}/recordings"
        process = subprocess.Popen(
            [sys.executable, "-c", FULL, "serve", asked, "--at", at],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None and process.stdout.readline().startswith("ready")
        runner = mlbridge.open(at, signature, deadline=60)
        for k in range(60):
            assert runner.evaluate_scalar(x=[1, 2, 3, k]) == 6 + k
            runner.reward(1.0)
        process.send_signal(signal.SIGTERM)
        said, complaint = process.communicate(timeout=60)
    assert process.returncode == 1
    assert complaint == (
        f"mlbridge serve: not everything is recorded: {tmp_path}/recordings: File too large\n"
    )
    assert dict(map(str.split, said.splitlines()))["replies"] == "60"
    (path,) = (tmp_path / "recordings").iterdir()
    recording = Recording(path)
    kept = [r for r in recording.records() if r.kind == "request"]
    assert 0 < len(kept) < 60 and not recording.damage
    assert path.stat().st_size <= 8192


def test_episodes_can_be_written_and_read_again(
    recorded: tuple[Path, list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    episodes = list(Recording(recorded[0]).episodes())
    write(tmp_path / "again.mlbrec", episodes, SIGNATURE, model="function:f")
    again = Recording(tmp_path / "again.mlbrec")
    assert (again.signature, again.model) == (SIGNATURE, "function:f")
    for one, other in zip(episodes, again.episodes(), strict=True):
        assert (one.agent, one.episode, one.unit, one.outcome) == (
            (other.agent, other.episode, other.unit, other.outcome)
        )
        assert one.signature == other.signature
        assert one.rewards.tolist() == other.rewards.tolist()
        for before, after in zip(one.observations, other.observations, strict=True):
            assert all(before[name].dtype == after[name].dtype for name in before)
            assert all(before[name].tobytes() == after[name].tobytes() for name in ("x", "mask"))
            assert before["name"] == after["name"]
        assert one.stacked("scores").tobytes() == other.stacked("scores").tobytes()
    assert not again.damage
    with pytest.raises(mlbridge.InvalidArgument, match="is there already"):
        write(tmp_path / "again.mlbrec", episodes)
    with pytest.raises(mlbridge.NotFound, match="cannot be written"):
        write(tmp_path / "none" / "again.mlbrec", episodes)


def test_compilers_at_once_and_a_model_that_takes_any_signature(tmp_path: Path) -> None:
    def policy(observation: Mapping[str, Any], context: mlbridge.CallContext) -> float:
        return float(sum(value.sum() for value in observation.values()))

    at = f"unix:{tmp_path}/p"
    with (
        running(policy, f"unix:{tmp_path}/m") as model,
        served(mlbridge.forward, f"{model.uri}?record={tmp_path}/recordings", at),
    ):
        runners = [mlbridge.open(at, output="float64", deadline=30) for _ in range(6)]
        for k, runner in enumerate(runners):
            name = "ab"[k % 2]
            assert runner.evaluate_scalar(**{name: np.full(k, 2.0)}) == 2 * k
    (path,) = (tmp_path / "recordings").iterdir()
    episodes = list(Recording(path).episodes())
    assert [len(episode) for episode in episodes] == [1] * 6
    assert [next(iter(e.observations[0])) for e in episodes] == ["a", "b"] * 3
    with served(mlbridge.replay, path, at):
        runner = mlbridge.open(at, output="float64", deadline=30)
        assert runner.evaluate_scalar(b=np.full(3, 2.0)) == 6


def test_the_commands_end_with_a_signal_and_say_why_they_cannot_begin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = f"unix:{tmp_path}/p"
    with running(counting(), f"unix:{tmp_path}/m", SIGNATURE) as model:
        asked = f"{model.uri}?record={tmp_path}/recordings"
        for kind in ("serve", "replay"):
            served = (
                [asked] if kind == "serve" else [*map(str, (tmp_path / "recordings").iterdir())]
            )
            process = subprocess.Popen(
                [sys.executable, "-m", "mlbridge", kind, *served, "--at", at],
                stdout=subprocess.PIPE,
                text=True,
            )
            assert process.stdout is not None
            assert process.stdout.readline() == f"ready {at}\n"
            assert mlbridge.open(at, deadline=30).evaluate(**features(0))["action"] == 0
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=60)
            assert process.returncode == 0 and "replies" in output
            assert not (tmp_path / "p").exists()
        assert main(["serve", f"{model.uri}?record=/proc/nowhere", "--at", at]) == 1
        assert "cannot be written" in capsys.readouterr().err
        assert main(["serve", asked, "--batch", "2", "--at", at]) == 2
        assert "--batch is not for the URI of a model" in capsys.readouterr().err
        assert main(["serve", f"unix:{tmp_path}/none?record=new", "--at", at]) == 1
        assert "no server there" in capsys.readouterr().err
    assert main(["replay", f"{tmp_path}/none", "--at", at]) == 1
    assert "none: cannot be read: No such file" in capsys.readouterr().err
    (tmp_path / "other").write_bytes(b"\x7fELF and so on")
    assert main(["replay", f"{tmp_path}/other", "--at", at]) == 1
    assert "other is not a recording of mlbridge" in capsys.readouterr().err


def test_what_a_later_release_adds_is_skipped_and_another_version_is_named(
    recorded: tuple[Path, list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    data = recorded[0].read_bytes()
    text = b'{"kind": "of the future", "time": 9, "tensors": [], "more": {"a": [1]}}'
    record = struct.pack("<IQI", len(text), 0, zlib.crc32(text)) + text
    later = tmp_path / "later.mlbrec"
    later.write_bytes(data + record)
    recording = Recording(later)
    assert len(list(recording.episodes())) == len(list(Recording(recorded[0]).episodes()))
    assert not recording.damage
    later.write_bytes(b"MLBREC2\n" + data[8:])
    with pytest.raises(mlbridge.InvalidModel, match="of version 2; expected version 1"):
        Recording(later)


def test_a_wait_that_the_library_has_recorded_is_that_of_the_reply_alone(tmp_path: Path) -> None:
    """The wait lacks the time it takes to write the request."""
    network = Path(__file__).parents[2] / "models" / "register-allocation" / "task.onnx"
    with contextlib.closing(mlbridge.open(f"native:{network}?record={tmp_path}")) as model:
        inputs = {s.name: np.ones(s.shape, s.dtype) for s in model.signature.inputs}
        for _ in range(20):
            model.evaluate(**inputs)
    (file,) = tmp_path.iterdir()
    recording = Recording(file)
    came = {r.fields["number"]: r.time for r in recording.records() if r.kind == "request"}
    replies = [r for r in recording.records() if r.kind == "reply"]
    (episode,) = recording.episodes()
    assert episode.waits == [r.fields["wait"] for r in replies]
    assert all(0 < r.fields["wait"] < r.time - came[r.fields["number"]] for r in replies)
