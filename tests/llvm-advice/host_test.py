# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The host with compilers that behave as LLVM's do, or not: nothing holds it for ever."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from advising import HANGS, Place

import mlbridge
from mlbridge.llvm_channel.host import InteractiveHost, default_advice
from mlbridge.llvm_channel.log import Tensor, TrainingLog

INT64 = np.dtype("int64")


def spec(name: str, kind: str = "int64_t", *shape: int) -> dict[str, Any]:
    return {"name": name, "type": kind, "port": 0, "shape": list(shape) or [1]}


INLINING: dict[str, Any] = {
    "features": [spec("a"), spec("b", "float")],
    "advice": spec("inlining_decision"),
}


class FakeCompiler:
    """Opens the channel as LLVM does: .in first."""

    def __init__(self, base: str | Path) -> None:
        self.answers = os.open(f"{base}.in", os.O_RDONLY)
        self.questions = os.open(f"{base}.out", os.O_WRONLY)

    def send(self, data: bytes | dict[str, Any]) -> None:
        line = data if isinstance(data, bytes) else json.dumps(data).encode() + b"\n"
        os.write(self.questions, line)

    def begin(self, header: dict[str, Any] = INLINING, context: str = "") -> None:
        self.send(header)
        self.send({"context": context})

    def ask(self, *values: Any, number: int = 0, size: int = 8) -> bytes:
        self.send({"observation": number})
        self.send(b"".join(np.asarray(value).tobytes() for value in values) + b"\n")
        assert select.select([self.answers], [], [], HANGS)[0], "no answer"
        return os.read(self.answers, size + 1)

    def decide(self, a: int, b: float = 0.0) -> int:
        return int.from_bytes(self.ask(np.int64(a), np.float32(b)), "little")

    def close(self) -> None:
        os.close(self.answers)
        os.close(self.questions)


@contextlib.contextmanager
def serving(base: Path, policy: Any, **options: Any) -> Iterator[InteractiveHost]:
    with InteractiveHost(base, policy, **options) as host:
        thread = threading.Thread(target=host.serve)
        thread.start()
        try:
            yield host
        finally:
            host.stop()
            thread.join(HANGS)
            assert not thread.is_alive()


@contextlib.contextmanager
def compiler(base: Path) -> Iterator[FakeCompiler]:
    made = FakeCompiler(base)
    try:
        yield made
    finally:
        made.close()


def positive(features: Mapping[str, Any], context: mlbridge.CallContext) -> int:
    return int(features["a"][0] > 0)


def test_compilers_in_sequence_with_other_headers(tmp_path: Path) -> None:
    with serving(tmp_path / "c", positive) as host:
        with compiler(tmp_path / "c") as first:
            first.begin()
            assert [first.decide(a) for a in (1, -1, 5)] == [1, 0, 1]
        swapped = {**INLINING, "features": [spec("more", "int8_t", 3), *INLINING["features"][::-1]]}
        with compiler(tmp_path / "c") as second:
            second.begin(swapped)
            assert second.ask(np.zeros(3, "int8"), np.float32(7), np.int64(9))[0] == 1
    found = host.statistics
    assert (found.compilers, found.contexts, found.decisions) == (2, 2, 4)
    assert (found.defaults, found.failures, found.broken) == (0, 0, 0)
    assert not list(tmp_path.iterdir())


def test_the_policy_is_told_who_asks(tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []

    def policy(features: Mapping[str, Any], context: mlbridge.CallContext) -> float:
        asked.append((context.unit, context.episode))
        return 0.5

    header = {"features": [spec("li_size")], "advice": spec("priority", "float")}
    with serving(tmp_path / "c", policy), compiler(tmp_path / "c") as llc:
        llc.begin(header, "f")
        assert np.frombuffer(llc.ask(np.int64(3), size=4), "<f4") == [0.5]
        llc.ask(np.int64(3), number=1, size=4)
        llc.send({"context": "g"})
        llc.ask(np.int64(3), size=4)
    assert [context for context, _ in asked] == ["f", "f", "g"]
    assert asked[0][1] == asked[1][1] != asked[2][1]  # a function is an episode


def test_a_server_answers(tmp_path: Path) -> None:
    uri = f"unix:{tmp_path}/s"
    with mlbridge.Server(uri) as server:
        thread = threading.Thread(target=server.serve_forever, args=(positive,))
        thread.start()
        try:
            with serving(tmp_path / "c", uri) as host, compiler(tmp_path / "c") as opt:
                opt.begin()
                assert [opt.decide(a) for a in (1, -1)] == [1, 0]
            assert host.statistics.defaults == 0
            # And when it is gone, the default.
            server.stop()
            thread.join(HANGS)
            server.close()
            with serving(tmp_path / "c", uri) as host, compiler(tmp_path / "c") as opt:
                opt.begin()
                assert opt.decide(1) == 0
            assert uri in host.statistics.first_failure
        finally:
            server.stop()
            thread.join(HANGS)


def test_a_model_with_38_features_and_a_compiler_with_37(tmp_path: Path) -> None:
    names = [f"feature{k}" for k in range(38)]
    signature = mlbridge.Signature(
        [mlbridge.TensorSpec(name, "int64", [1]) for name in names],
        [mlbridge.TensorSpec("inlining_decision", "int64", [1])],
    )

    def policy(features: Mapping[str, Any], context: mlbridge.CallContext) -> int:
        return int(features["feature10"][0] == 0 and features["feature11"][0] == 7)

    older = {**INLINING, "features": [spec(n) for n in names if n != "feature10"]}
    values = np.full(37, 7)
    with serving(tmp_path / "c", policy, signature=signature) as host:
        with compiler(tmp_path / "c") as opt:
            opt.begin(older)
            assert opt.ask(values) == bytes(8)
            assert opt.ask(values) == bytes(8)
        with compiler(tmp_path / "c") as opt:
            opt.begin({**INLINING, "features": [spec(name) for name in names]})
            assert opt.ask(np.where(np.arange(38) == 10, 0, 7))[0] == 1
    assert "wants 'feature10', which the compiler does not send" in host.statistics.first_failure
    assert (host.statistics.defaults, host.statistics.failures) == (2, 1)
    with (
        serving(tmp_path / "c", policy, signature=signature, missing="zero") as host,
        compiler(tmp_path / "c") as opt,
    ):
        opt.begin(older)
        assert opt.ask(values)[0] == 1
    assert host.statistics.defaults == 0


def test_defaults() -> None:
    mask = np.zeros((1, 5), INT64)
    evict = Tensor("index_to_evict", INT64, (1,))
    assert default_advice(evict, {"mask": mask}) == [4]
    mask[0, 1:3] = 1
    assert default_advice(evict, {"mask": mask}) == [1]
    mask[0, 4] = 1
    assert default_advice(evict, {"mask": mask}) == [4]
    inline = Tensor("inlining_decision", INT64, (1,))
    assert default_advice(inline, {}) == [0]
    assert default_advice(inline, {"inlining_default": np.array([1])}) == [1]
    priority = Tensor("priority", np.dtype("float32"), (1,))
    assert default_advice(priority, {"li_size": np.array([12])}) == [12.0]
    assert default_advice(Tensor("other", INT64, (2,)), {}).tolist() == [0, 0]


def test_a_policy_that_does_not_return(tmp_path: Path) -> None:
    returns = threading.Event()

    def policy(features: Mapping[str, Any], context: mlbridge.CallContext) -> int:
        assert returns.wait(HANGS)
        return 1

    with serving(tmp_path / "c", policy, deadline=0.05) as host, compiler(tmp_path / "c") as opt:
        opt.begin()
        assert [opt.decide(1) for _ in range(50)] == [0] * 50
        assert host.stuck
        returns.set()
    assert host.statistics.defaults == 50
    # One deadline is lost, not one for each question.
    assert host.statistics.failures == 1


def test_one_that_is_always_late_is_not_waited_for_each_time(tmp_path: Path) -> None:
    calls = threading.Semaphore(0)
    asked = []

    def policy(features: Mapping[str, Any], context: mlbridge.CallContext) -> int:
        asked.append(1)
        assert calls.acquire(timeout=HANGS)
        return 1

    with serving(tmp_path / "c", policy, deadline=1) as host, compiler(tmp_path / "c") as opt:
        opt.begin()
        assert opt.decide(1) == 0
        for _ in range(100):
            calls.release()
        assert [opt.decide(1) for _ in range(20)] == [0] * 20
    assert len(asked) == host.statistics.failures == 1


NOT_THE_FORMAT = {
    "no JSON": b"hello\n",
    "a number": b"1\n",
    "no header first": b'{"observation":0}\n',
    "no advice": b'{"features":[]}\n',
    "an unknown type": json.dumps({**INLINING, "features": [spec("a", "int128_t")]}).encode(),
    "a negative length": json.dumps({**INLINING, "features": [spec("a", "float", -1)]}).encode(),
    "huge": json.dumps({**INLINING, "features": [spec("a", "float", 1 << 40, 9)]}).encode(),
    "a huge advice": json.dumps({**INLINING, "advice": spec("a", "float", 1 << 20)}).encode(),
    "features twice": json.dumps({**INLINING, "features": [spec("a"), spec("a")]}).encode(),
    "deep": b"[" * 60000,
    "a shape that is text": json.dumps({**INLINING, "advice": {"shape": "x"}}).encode(),
    "too many bytes": json.dumps(INLINING).encode() + b'\n{"observation":0}\n' + b"x" * 20,
    "an unknown line": json.dumps(INLINING).encode() + b'\n{"what":1}',
}


@pytest.mark.parametrize("data", NOT_THE_FORMAT.values(), ids=NOT_THE_FORMAT)
def test_what_is_not_the_format(data: bytes, tmp_path: Path) -> None:
    with serving(tmp_path / "c", positive) as host:
        with compiler(tmp_path / "c") as odd:
            odd.send(data + b"\n")
        with compiler(tmp_path / "c") as opt:
            opt.begin()
            assert opt.decide(1) == 1
    assert host.statistics.broken == 1
    assert "at byte" in host.statistics.first_broken or "header" in host.statistics.first_broken


def test_a_line_without_end_takes_no_memory(tmp_path: Path) -> None:
    with serving(tmp_path / "c", positive) as host:
        with compiler(tmp_path / "c") as odd:
            for _ in range(40):
                odd.send(b"x" * 60000)
        with compiler(tmp_path / "c") as opt:
            opt.begin()
            assert opt.decide(1) == 1
    assert "no end of line in 1048576 bytes" in host.statistics.first_broken


def test_a_compiler_that_ends_within_a_question(tmp_path: Path) -> None:
    with serving(tmp_path / "c", positive) as host:
        with compiler(tmp_path / "c") as dying:
            dying.begin()
            dying.send({"observation": 0})
            dying.send(b"\1\0\0")
        with compiler(tmp_path / "c") as opt:
            opt.begin()
            assert opt.decide(1) == 1
    assert host.statistics.broken == 1
    assert "observation 0" in host.statistics.first_broken


def test_an_answer_that_nobody_read_is_not_the_next_one_s(tmp_path: Path) -> None:
    begun = threading.Event()

    def slow(features: Mapping[str, Any], context: mlbridge.CallContext) -> int:
        assert begun.wait(HANGS)
        return positive(features, context)

    with serving(tmp_path / "c", slow, deadline=HANGS):
        with compiler(tmp_path / "c") as dying:
            dying.begin()
            dying.send({"observation": 0})
            dying.send(np.int64(5).tobytes() + bytes(4) + b"\n")
        with compiler(tmp_path / "c") as opt:
            opt.begin()
            begun.set()
            assert [opt.decide(a) for a in (-1, 1, -1)] == [0, 1, 0]


def test_an_answer_that_came_too_late_is_not_the_next_one_s(tmp_path: Path) -> None:
    with serving(tmp_path / "c", positive):
        with compiler(tmp_path / "c") as dying:
            dying.begin()
            dying.send({"observation": 0})
            dying.send(np.int64(5).tobytes() + bytes(4) + b"\n")
            assert select.select([dying.answers], [], [], HANGS)[0]
        with compiler(tmp_path / "c") as opt:
            opt.begin()
            # Answered once the header has been read, too.
            until = time.monotonic() + HANGS
            while select.select([opt.answers], [], [], 0)[0]:
                assert time.monotonic() < until, "the old answer is still there"
            assert opt.decide(-1) == 0


CHILD = """
import os, sys, time
answers = os.open(sys.argv[1] + ".in", os.O_RDONLY)
questions = os.open(sys.argv[1] + ".out", os.O_WRONLY)
another = os.open(sys.argv[1] + ".out", os.O_WRONLY)
os.write(questions, sys.argv[2].encode())
os.read(answers, 8)
"""


QUESTION = '{"observation":0}\n' + "x" * 12 + "\n"


@pytest.mark.parametrize(
    "sent",
    [
        '{"features":',
        json.dumps(INLINING) + '\n{"observation":0}\n',
        json.dumps(INLINING) + "\n" + QUESTION + QUESTION,
        json.dumps(INLINING) + "\n" + QUESTION + json.dumps(INLINING) + "\n",
        2 * (json.dumps(INLINING) + "\n"),
        json.dumps(INLINING) + '\n{"obser' + json.dumps(INLINING) + "\n",
    ],
    ids=[
        "half a header",
        "half a question",
        "two questions at once",
        "a question and another one's header",
        "two headers",
        "a header within a question",
    ],
)
def test_one_that_cannot_be_answered_is_ended(sent: str, tmp_path: Path) -> None:
    with serving(tmp_path / "c", positive, deadline=0.1):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path / "c"), sent])
        assert child.wait(HANGS) == -signal.SIGTERM
        with compiler(tmp_path / "c") as opt:
            opt.begin()
            assert opt.decide(1) == 1


def test_a_compiler_that_waits_when_the_host_ends_is_ended(place: Place) -> None:
    asked, returns = threading.Event(), threading.Event()

    def policy(features: Mapping[str, Any], context: mlbridge.CallContext) -> int:
        asked.set()
        assert returns.wait(HANGS)
        return 1

    base = place.folder / "c"
    module = place.module(22)
    options = ["-enable-ml-inliner=release", f"-inliner-interactive-channel-base={base}"]
    with serving(base, policy, deadline=HANGS):
        command = ["opt-22", "-passes=default<O2>", *options, module, "-o", "out.bc"]
        opt = subprocess.Popen(command, cwd=place.folder)
        assert asked.wait(HANGS)
    assert opt.wait(HANGS) != 0
    returns.set()
    assert not (place.folder / "out.bc").exists()


def test_on_failure_fail(tmp_path: Path) -> None:
    def policy(features: Mapping[str, Any], context: mlbridge.CallContext) -> int:
        return 2

    with InteractiveHost(tmp_path / "c", policy, on_failure="fail") as host:
        question = json.dumps(INLINING) + '\n{"observation":0}\n' + "\0" * 12 + "\n"
        child = subprocess.Popen(
            [
                sys.executable,
                "-c",
                CHILD.replace("sys.argv[2]", repr(question)),
                str(tmp_path / "c"),
            ]
        )
        with pytest.raises(mlbridge.PolicyFailed, match="answered 2: expected 0 or 1"):
            host.serve()
        assert child.wait(HANGS) == -signal.SIGTERM


def test_where_a_channel_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file.in").write_text("precious")
    with pytest.raises(mlbridge.InvalidArgument, match=r"file\.in is there already"):
        InteractiveHost(tmp_path / "file", positive)
    assert (tmp_path / "file.in").read_text() == "precious"
    with pytest.raises(mlbridge.NotFound, match="No such file"):
        InteractiveHost(tmp_path / "none" / "c", positive)
    with (
        InteractiveHost(tmp_path / "c", positive) as host,
        pytest.raises(mlbridge.Busy, match="another host answers there"),
    ):
        assert oct((tmp_path / "c.in").stat().st_mode)[-3:] == "600"
        InteractiveHost(tmp_path / "c", positive)
    assert not list(tmp_path.glob("c.*"))
    assert host.statistics.compilers == 0


def test_the_channel_of_a_host_that_is_gone_is_taken_over(tmp_path: Path) -> None:
    for side in ("in", "out"):
        os.mkfifo(tmp_path / f"c.{side}", 0o600)
    with serving(tmp_path / "c", positive), compiler(tmp_path / "c") as opt:
        opt.begin()
        assert opt.decide(1) == 1


def test_logs_of_what_was_decided(tmp_path: Path) -> None:
    with serving(tmp_path / "c", positive, log=tmp_path / "log"):
        for context in ("", "f"):
            with compiler(tmp_path / "c") as opt:
                opt.begin(context=context)
                assert [opt.decide(a, 0.5) for a in (3, -3)] == [1, 0]
    logs = [TrainingLog(path) for path in sorted((tmp_path / "log").iterdir())]
    assert len(logs) == 2
    for log, function in zip(logs, ("", "f"), strict=True):
        (found,) = log.contexts()
        assert (found.name, log.damage, log.decision) == (function, "", "inlining_decision")
        assert found.stacked("a").tolist() == [[3], [-3]]
        assert found.stacked("b").tolist() == [[0.5], [0.5]]
        assert found.stacked("inlining_decision").tolist() == [[1], [0]]
        assert found.rewards == [None, None]


def test_one_that_asks_nothing_has_no_log(tmp_path: Path) -> None:
    with serving(tmp_path / "c", positive, log=tmp_path / "log") as host:
        with compiler(tmp_path / "c") as opt:
            opt.begin()
        with compiler(tmp_path / "c") as opt:
            opt.begin()
            assert opt.decide(1) == 1
    assert host.statistics.compilers == 2
    (log,) = (tmp_path / "log").iterdir()
    assert [len(context) for context in TrainingLog(log).contexts()] == [1]


def test_serve_until_a_signal(place: Place) -> None:
    base = place.folder / "c"
    words = ["serve", "policy.py:inline", "--at", f"llvm-interactive:{base}", "--json"]
    server = subprocess.Popen(
        [sys.executable, "-m", "mlbridge", *words],
        cwd=place.folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    assert server.stdout.readline() == f"ready llvm-interactive:{base}\n"
    module = place.module(22)
    options = ["-enable-ml-inliner=release", f"-inliner-interactive-channel-base={base}"]
    for _ in range(2):
        place.must("opt-22", "-passes=default<O2>", *options, module, "-o", "out.bc")
    server.send_signal(signal.SIGTERM)
    found = json.loads(server.communicate(timeout=HANGS)[0])
    assert server.returncode == 0
    assert found["compilers"] == 2 and found["decisions"] > 10 and found["defaults"] == 0
    assert not list(place.folder.glob("c.*"))


def test_a_server_that_is_killed_ends_the_compiler(place: Place) -> None:
    base, asked = place.folder / "c", place.folder / "asked"
    os.mkfifo(asked)
    words = ["serve", "policy.py:silent", "--at", f"llvm-interactive:{base}", "--deadline", "60s"]
    server = subprocess.Popen(
        [sys.executable, "-m", "mlbridge", *words],
        cwd=place.folder,
        env={**place.env, "ASKED": str(asked)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None and server.stdout.readline().startswith("ready")
    module = place.module(22)
    options = ["-enable-ml-inliner=release", f"-inliner-interactive-channel-base={base}"]
    command = ["opt-22", "-passes=default<O2>", *options, module, "-o", "out.bc"]
    opt = subprocess.Popen(command, cwd=place.folder)
    asked.read_bytes()  # until the policy has opened and closed it
    server.kill()
    server.communicate(timeout=HANGS)
    assert opt.wait(HANGS) != 0
