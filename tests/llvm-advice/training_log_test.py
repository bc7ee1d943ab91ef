# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM's training logs: those that LLVM writes are read, and those written are LLVM's."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from advising import BOTH, Place

import mlbridge
from mlbridge.cli import main
from mlbridge.llvm_channel.log import (
    LogWriter,
    Tensor,
    TrainingLog,
    from_recording,
    to_recording,
)

FEATURES = [
    Tensor("mask", np.dtype("int64"), (1, 3)),
    Tensor("progress", np.dtype("float32"), (1,)),
    Tensor("index_to_evict", np.dtype("int64"), (1,)),
]
REWARD = Tensor("reward", np.dtype("float32"), (1,))


def written(path: Path, score: Tensor | None = REWARD) -> Path:
    with LogWriter(path, FEATURES, score) as log:
        for name in ("first", "żółw"):
            log.context("a function without questions")
            log.context(name)
            for k in range(3):
                values = {"mask": [[k, 10, 1]], "progress": 0.25 * k, "index_to_evict": k}
                log.observation(values, None if score is None else 2.0 * k)
    return path


@BOTH
def test_what_llvm_writes_with_a_file_of_replies(version: int, place: Place) -> None:
    replies = [1, 0, 1, 1, 0, 0]
    (place.folder / "c.in").write_bytes(b"".join(struct.pack("<q", r) for r in replies * 10))
    (place.folder / "c.out").touch()
    options = ["-enable-ml-inliner=release", "-inliner-interactive-channel-base=c"]
    module = place.module(version)
    place.must(f"opt-{version}", "-passes=default<O2>", *options, module, "-o", "out.bc")
    log = TrainingLog(place.folder / "c.out")
    assert str(log.header.advice) == "inlining_decision: int64[1]"
    assert log.header.score is None and log.decision == ""
    (context,) = log.contexts()
    assert context.name == "" and len(context) > 5 and not log.damage
    assert set(context.observations[0]) == {tensor.name for tensor in log.header.features}
    assert (context.stacked("callee_basic_block_count") > 0).all()
    assert (context.stacked("caller_basic_block_count") > 0).all()
    assert context.rewards == [None] * len(context)


def test_the_bytes_are_llvm_s(tmp_path: Path) -> None:
    data = written(tmp_path / "log").read_bytes()
    header, _, rest = data.partition(b"\n")
    assert json.loads(header) == {
        "features": [
            {"name": "mask", "type": "int64_t", "port": 0, "shape": [1, 3]},
            {"name": "progress", "type": "float", "port": 0, "shape": [1]},
            {"name": "index_to_evict", "type": "int64_t", "port": 0, "shape": [1]},
        ],
        "score": {"name": "reward", "type": "float", "port": 0, "shape": [1]},
    }
    for name in ("first", "żółw"):
        context, _, rest = rest.partition(b"\n")
        assert json.loads(context) == {"context": name}
        for k in range(3):
            line = b'{"observation":%d}\n' % k
            values = struct.pack("<qqqfq", k, 10, 1, 0.25 * k, k)
            reward = b'\n{"outcome":%d}\n' % k + struct.pack("<f", 2.0 * k) + b"\n"
            assert rest.startswith(line + values + reward)
            rest = rest[len(line + values + reward) :]
    assert rest == b""


def test_what_is_written_is_read(tmp_path: Path) -> None:
    log = TrainingLog(written(tmp_path / "log"))
    contexts = list(log.contexts())
    assert [context.name for context in contexts] == ["first", "żółw"]
    for context in contexts:
        assert context.stacked("mask").tolist() == [[[k, 10, 1]] for k in range(3)]
        assert context.stacked("progress").tolist() == [[0.0], [0.25], [0.5]]
        assert [float(r[0]) for r in context.rewards if r is not None] == [0.0, 2.0, 4.0]
    assert log.damage == "" and log.decision == "index_to_evict"


def test_what_is_whole_of_a_log_that_is_cut_off(tmp_path: Path) -> None:
    whole = written(tmp_path / "log").read_bytes()
    cut, most = tmp_path / "cut", 0
    for length in range(len(whole)):
        cut.write_bytes(whole[:length])
        if b"\n" not in whole[:length]:
            with pytest.raises(mlbridge.InvalidModel, match="not a training log of LLVM"):
                TrainingLog(cut)
            continue
        log = TrainingLog(cut)
        count = sum(len(context) for context in log.contexts())
        assert most <= count <= 6
        most = count
        ends = whole[:length].endswith(b"\n") and whole[length : length + 1] == b"{"
        assert bool(log.damage) or ends
    assert most == 6 and "cut off after" in log.damage


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "it is empty"),
        (b"MLBREC1\n", "this is a recording"),
        (b'{"context":""}\n', "there is no header before it"),
        (b'{"features":[{"name":"a","type":"half","shape":[1]}]}\n', "the unknown type 'half'"),
    ],
)
def test_what_is_no_log(data: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(data)
    with pytest.raises(mlbridge.InvalidModel, match=says):
        TrainingLog(tmp_path / "log")


def test_from_and_to_recordings(tmp_path: Path) -> None:
    log = written(tmp_path / "log")
    assert to_recording(log, tmp_path / "r.mlbrec") == ""
    recording = mlbridge.Recording(tmp_path / "r.mlbrec")
    assert str(recording.signature) == (
        "(mask: int64[1, 3], progress: float32[1]) -> (index_to_evict: int64[1])"
    )
    episodes = list(recording.episodes())
    assert [episode.unit for episode in episodes] == ["first", "żółw"]
    for episode in episodes:
        assert episode.stacked("index_to_evict").tolist() == [[0], [1], [2]]
        assert episode.rewards.tolist() == [0.0, 2.0, 4.0]
        assert episode.outcome is not None and episode.outcome.ok
    assert from_recording(tmp_path / "r.mlbrec", tmp_path / "again") == ""
    assert (tmp_path / "again").read_bytes() == log.read_bytes()
    from_recording(tmp_path / "r.mlbrec", tmp_path / "bare", score=None)
    bare = written(tmp_path / "expected", None)
    assert (tmp_path / "bare").read_bytes() == bare.read_bytes()


def test_damage_is_passed_on(tmp_path: Path) -> None:
    log = written(tmp_path / "log")
    log.write_bytes(log.read_bytes()[:-3])
    assert "cut off" in to_recording(log, tmp_path / "r.mlbrec")
    assert len(list(mlbridge.Recording(tmp_path / "r.mlbrec").episodes())) == 2


def test_what_a_log_cannot_hold(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "log", FEATURES) as log:
        for values, says in [
            ({"mask": [1, 2, 3], "progress": 0.0}, "no value of 'index_to_evict'"),
            ({"mask": [1, 2], "progress": 0.0, "index_to_evict": 0}, r"got int64\[2\]"),
            ({"mask": [1, 2, 3], "progress": 0.0, "index_to_evict": 0.5}, "got float64"),
        ]:
            with pytest.raises(mlbridge.InvalidArgument, match=says):
                log.observation(values)
        with pytest.raises(mlbridge.InvalidArgument, match="no score"):
            log.observation({"mask": [1, 2, 3], "progress": 0.0, "index_to_evict": 0}, 1.0)
    with pytest.raises(mlbridge.InvalidArgument, match="is there already"):
        LogWriter(tmp_path / "log", FEATURES)
    with pytest.raises(mlbridge.InvalidArgument, match="no feature is the decision"):
        LogWriter(tmp_path / "other", FEATURES[:1]).close()
        to_recording(tmp_path / "other", tmp_path / "r.mlbrec")


def test_what_was_asked_at_a_channel_has_no_decisions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As LLVM leaves it in a file BASE.out, if BASE.in is a file of answers."""
    asked = tmp_path / "c.out"
    whole = written(tmp_path / "log").read_bytes().splitlines(keepends=True)
    features = json.loads(whole[0])["features"][:-1]
    advice = json.loads(whole[0])["features"][-1]
    asked.write_text(json.dumps({"features": features, "advice": advice}) + "\n")
    with pytest.raises(mlbridge.InvalidArgument, match="the answers are not in it"):
        to_recording(asked, tmp_path / "r.mlbrec")
    assert main(["log", str(asked)]) == 0
    assert "index_to_evict  not logged: asked at a channel" in capsys.readouterr().out


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = str(written(tmp_path / "log"))
    assert main(["log", log, "--json", "-o", str(tmp_path / "r.mlbrec")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["contexts"], found["observations"], found["rewards"]) == (2, 6, 6)
    assert found["index_to_evict"] == {"0": 2, "1": 2, "2": 2}
    assert (tmp_path / "r.mlbrec").exists()
    Path(log).write_bytes(Path(log).read_bytes()[:-20])
    assert main(["log", log]) == 1
    out, err = capsys.readouterr()
    assert "observations    5" in out or "observations" in out
    assert "cut off" in err
