# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Policies behind every transport and serdes: what they see and what they may answer."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlbridge
from mlbridge import Signature, TensorSpec
from serving import SMALL, running

NUMBERS = [
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bool",
]


def extremes(dtype: str) -> np.ndarray[Any, Any]:
    if dtype == "bool":
        return np.array([True, False, True, True])
    if dtype.startswith("float"):
        info = np.finfo(dtype)
        tiny = info.smallest_subnormal
        return np.array([np.nan, np.inf, -np.inf, -0.0, tiny, info.max, 1 / 3, 0.1], dtype)
    limits = np.iinfo(dtype)
    return np.array([limits.min, limits.max, 0, 1], dtype)


def test_every_type_comes_back_as_it_was(tmp_path: Path, transport: str, serdes: str) -> None:
    values = {f"{dtype}": extremes(dtype) for dtype in NUMBERS}
    texts = np.array([["", "a\0b"], ["zażółć", '\U0001f600\n"\\']], dtype=object)
    fixed = [TensorSpec(name, name, value.shape) for name, value in values.items()]
    fixed.append(TensorSpec("text", str, [2, 2]))
    dynamic = [TensorSpec(f"{s.name}s", s.dtype, [-1] * len(s.shape)) for s in fixed]
    signature = Signature(
        fixed + dynamic, [TensorSpec("out_" + s.name, s.dtype, s.shape) for s in fixed + dynamic]
    )
    values["text"] = texts
    given = {**values, **{f"{name}s": value for name, value in values.items()}}
    given["float64s"] = np.zeros(0)

    def echo(observation: Mapping[str, Any], _: mlbridge.CallContext) -> dict[str, Any]:
        return {"out_" + name: value for name, value in observation.items()}

    uri = f"{transport}:{tmp_path}/s"
    with running(echo, uri, signature, query=f"?serdes={serdes}") as server:
        runner = server.open(signature)
        for _ in range(3):
            answer = runner.evaluate(**given)
            assert list(answer) == [s.name for s in signature.outputs]
            for name, value in given.items():
                got = answer["out_" + name]
                assert got.dtype == value.dtype and got.shape == value.shape
                if value.dtype == object:
                    assert got.tolist() == value.tolist()
                else:
                    assert got.tobytes() == value.tobytes(), name


@pytest.mark.parametrize(
    ("dtype", "shape", "answer", "expected"),
    [
        ("int64", [], 3, 3),
        ("int64", [], np.int64(-3), -3),
        ("int64", [], np.array([7]), 7),
        ("int64", [], np.uint8(200), 200),
        ("int64", [1], 5, 5),
        ("uint64", [], 2**64 - 1, 2**64 - 1),
        ("int8", [], -128, -128),
        ("int64", [], True, 1),
        ("float32", [], 0.5, 0.5),
        ("float32", [], 3, 3.0),
        ("float32", [], np.float64(0.25), 0.25),
        ("float16", [], 1.5, 1.5),
        ("bool", [], np.bool_(True), True),
        ("bool", [], False, False),
        (str, [], "yes", "yes"),
        ("float64", [], float("inf"), float("inf")),
    ],
)
def test_scalar_answers(
    address: str, dtype: Any, shape: list[int], answer: Any, expected: Any
) -> None:
    signature = Signature([TensorSpec("x")], [TensorSpec("y", dtype, shape)])
    with running(lambda o, c: answer, address, signature) as server:
        got = server.open().evaluate_scalar(x=0)
        assert got == expected and type(got) is type(expected)


@pytest.mark.parametrize(
    ("dtype", "shape", "answer", "message"),
    [
        ("int64", [], 0.5, "expected int64, got float64"),
        ("int64", [], np.array([1.0]), "expected int64, got float64"),
        ("int64", [], None, "expected int64, got None"),
        ("int64", [], "3", "expected int64, got"),
        ("int64", [], 2**63, "out of range for int64"),
        ("int64", [], np.uint64(2**63), "out of range for int64"),
        ("uint8", [], 256, "256 is out of range for uint8"),
        ("uint8", [], -1, "-1 is out of range for uint8"),
        ("uint8", [2], [1, 300], "300 is out of range for uint8"),
        ("uint64", [], -1, "-1 is out of range for uint64"),
        ("float32", [], 1e300, "out of range for float32"),
        ("float16", [2], [0, 1e6], "out of range for float16"),
        ("bool", [], 1, "expected bool, got int64"),
        ("float32", [3], [1, 2], r"expected shape \[3\], got shape \[2\]"),
        ("float32", [3], np.zeros((1, 3), np.float32), r"expected shape \[3\], got shape \[1, 3\]"),
        ("float32", [-1], 1.0, r"expected shape \[\?\], got shape \[\]"),
        (str, [2], ["a", 1], "expected string"),
        ("int64", [], {}, "output 'y' missing: got an empty mapping; the outputs are 'y'"),
        ("int64", [], {"y": 1, "z": 2}, "unknown output 'z'"),
        ("int64", [], {"action": 1, 3: 4}, "output 'y' missing: got a mapping of 'action', 3;"),
        ("float32", [2], [[1], [1, 2]], r"expected float32\[2\]"),
    ],
)
def test_an_answer_that_does_not_fit_fails_that_request_alone(
    address: str, dtype: Any, shape: list[int], answer: Any, message: str
) -> None:
    signature = Signature([TensorSpec("x")], [TensorSpec("y", dtype, shape)])
    good: Any = {"int64": 1, "bool": True}.get(
        dtype, np.ones([2 if d < 0 else d for d in shape], "f4")
    )
    if dtype is str:
        good = ["a", "b"]
    elif isinstance(good, np.ndarray) and dtype != "float32":
        good = good.astype(dtype)

    def policy(observation: Mapping[str, Any], _: mlbridge.CallContext) -> Any:
        return good if observation["x"] > 0 else answer

    with running(policy, address, signature) as server:
        runner = server.open(signature)
        with pytest.raises(mlbridge.PolicyFailed, match=message):
            runner.evaluate(x=0)
        runner.evaluate(x=1)
        assert server.finish().errors == 1


def test_several_outputs_need_a_mapping(address: str) -> None:
    signature = Signature([TensorSpec("x")], [TensorSpec("a"), TensorSpec("b", "int64")])
    answers: list[Any] = [1.0, {"a": 1.0, "b": 2}, {"a": 1.0}]

    with running(lambda o, c: answers[int(o["x"])], address, signature) as server:
        runner = server.open()
        with pytest.raises(mlbridge.PolicyFailed, match="mapping with the outputs 'a', 'b'"):
            runner.evaluate(x=0)
        assert runner.evaluate(x=1) == {"a": 1.0, "b": 2}
        with pytest.raises(mlbridge.PolicyFailed, match="output 'b' missing"):
            runner.evaluate(x=2)
        with pytest.raises(mlbridge.InvalidArgument, match="2 outputs"):
            runner.evaluate_scalar(x=1)


def test_a_policy_that_raises_gives_its_compiler_the_text(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    def policy(observation: Mapping[str, Any], _: mlbridge.CallContext) -> int:
        if observation["x"][0] < 0:
            raise KeyError("no such\nfeature")
        return int(observation["x"].sum())

    with running(policy, address, SMALL) as server:
        runner = server.open()
        for _ in range(2):
            with pytest.raises(mlbridge.PolicyFailed, match=r"policy raised KeyError: 'no such"):
                runner.evaluate(x=[-1, 0, 0, 0])
            assert runner.status.code is mlbridge.Code.POLICY_FAILED
            assert runner.evaluate_scalar(x=[1, 2, 3, 4]) == 10
            assert runner.status.ok
        statistics = server.finish()
    assert (statistics.requests, statistics.replies, statistics.errors) == (4, 2, 2)
    assert "Traceback" in caplog.text and caplog.records[0].name == "mlbridge"


def test_an_exception_that_cannot_be_printed(address: str) -> None:
    class Rude(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    def policy(*_: Any) -> Any:
        raise Rude

    with running(policy, address, SMALL) as server:
        runner = server.open()
        for _ in range(2):
            with pytest.raises(mlbridge.PolicyFailed, match="Rude"):
                runner.evaluate()


def test_the_context_says_who_asks(address: str) -> None:
    seen: list[mlbridge.CallContext] = []

    def policy(_: Any, context: mlbridge.CallContext) -> int:
        seen.append(context)
        return 0

    with running(policy, address, SMALL) as server:
        first = server.open(episode="e1", unit="a.c", agent="inliner")
        first.evaluate()
        first.evaluate()
        second = first.model.new_runner(episode="e2", unit="b.c")
        second.evaluate()
        first.evaluate()
    told = [(c.episode, c.unit, c.agent, c.step) for c in seen]
    assert told == [
        ("e1", "a.c", "inliner", 0),
        ("e1", "a.c", "inliner", 1),
        ("e2", "b.c", "inliner", 0),
        ("e1", "a.c", "inliner", 2),
    ]
    assert seen[0].connection == seen[2].connection and seen[0].stream != seen[2].stream
    assert "e1" in repr(seen[0])


def test_the_policy_runs_on_the_serving_thread(address: str) -> None:
    threads = set()

    def policy(*_: Any) -> int:
        threads.add(threading.current_thread())
        return 0

    with running(policy, address, SMALL) as server:
        for _ in range(3):
            server.open().evaluate()
        assert threads == {server.thread}


def test_episodes_are_told(address: str) -> None:
    events: list[tuple[Any, ...]] = []

    def on_event(event: mlbridge.Event) -> None:
        kind = event.kind
        if kind is mlbridge.EventKind.EPISODE_BEGIN:
            events.append(("begin", event.context.episode, event.context.unit))
        elif kind is mlbridge.EventKind.REWARD:
            events.append(("reward", event.context.episode, event.reward))
        elif kind is mlbridge.EventKind.EPISODE_END:
            events.append(("end", event.context.episode, event.outcome.code, event.outcome.message))
            done.set()

    done = threading.Event()
    with running(lambda o, c: 1, address, SMALL, on_event=on_event) as server:
        runner = server.open()
        runner.begin_episode("e7", "m.c")
        runner.evaluate()
        runner.reward(0.25)
        runner.end_episode()
        assert done.wait(20)
        done.clear()
        runner.begin_episode("e8", "n.c")
        runner.evaluate()
        del runner  # the compiler goes away
        assert done.wait(20)
    assert events[:3] == [("begin", "e7", "m.c"), ("reward", "e7", 0.25), ("end", "e7", 0, "")]
    assert events[3] == ("begin", "e8", "n.c")
    assert events[4][:3] == ("end", "e8", mlbridge.Code.CLOSED)


def test_what_on_event_raises_ends_the_serving(address: str) -> None:
    def on_event(_: mlbridge.Event) -> None:
        raise ZeroDivisionError("trainer bug")

    with running(lambda o, c: 1, address, SMALL, on_event=on_event) as server:
        runner = server.open()
        runner.begin_episode("e")
        runner.end_episode()  # what was said before is sent with this at the latest
        server.thread.join(20)
        with pytest.raises(ZeroDivisionError, match="trainer bug"):
            server.finish()


def test_stop_predicate_and_statistics(address: str) -> None:
    count = 0

    def policy(*_: Any) -> int:
        nonlocal count
        count += 1
        return count

    def client(server: mlbridge.Server) -> None:
        def run() -> None:
            runner = mlbridge.open(address, deadline=20)
            answers.extend(runner.evaluate_scalar() for _ in range(3))

        threads.append(threading.Thread(target=run))
        threads[0].start()

    answers: list[int] = []
    threads: list[threading.Thread] = []
    statistics = mlbridge.serve(policy, address, SMALL, ready=client, stop=lambda: count == 3)
    threads[0].join(20)
    assert answers == [1, 2, 3]
    assert statistics.replies == 3 and statistics.connections == 1
    assert not Path(address.partition(":")[2]).exists()


def test_metadata_and_any_signature(address: str) -> None:
    with running(
        lambda o, c: dict.fromkeys(("a",), 1), address, None, metadata={"actions": "π=3"}
    ) as server:
        model = mlbridge.Model.open(server.uri)
        assert model.metadata == {"actions": "π=3"}
        assert model.model_signature is None
        with pytest.raises(mlbridge.InvalidArgument, match="takes any signature"):
            server.open()
        for shape in ([2], [3]):
            signature = Signature([TensorSpec("q", "int8", shape)], [TensorSpec("a", "uint8")])
            assert server.open(signature).evaluate_scalar() == 1


def test_a_mismatch_names_both_sides(address: str) -> None:
    other = Signature([TensorSpec("x", "float32", [5])], [TensorSpec("action", "int64")])
    with (
        running(lambda o, c: 1, address, SMALL) as server,
        pytest.raises(mlbridge.Mismatch, match=r"float32\[5\].*float32\[4\]|\[4\].*\[5\]"),
    ):
        server.open(other)


def test_step_by_step_serving(address: str) -> None:
    with mlbridge.Server(address, SMALL) as server:
        assert server.address == address and server.next(timeout=0) is None

        def ask() -> None:
            runner = mlbridge.open(address, deadline=20)
            answers.append(runner.evaluate_scalar(x=[1, 2, 3, 4]))
            for _ in range(2):
                try:
                    runner.evaluate()
                except mlbridge.PolicyFailed as error:
                    answers.append(str(error))

        answers: list[Any] = []
        thread = threading.Thread(target=ask)
        thread.start()
        event = server.next()
        assert event is not None and event.kind is mlbridge.EventKind.REQUEST
        with pytest.raises(mlbridge.PolicyFailed, match="expected int64"):
            event.reply("nonsense")  # not sent: it can still be answered
        assert event.inputs["x"].tolist() == [1, 2, 3, 4]
        assert event.signature == SMALL
        event.reply(4)
        with pytest.raises(mlbridge.InvalidArgument, match="already"):
            event.reply(5)
        assert event.inputs["x"].tolist() == [1, 2, 3, 4]
        refused = server.next()
        assert refused is not None
        refused.fail("not today")
        dropped = server.next()
        assert dropped is not None
        del dropped
        thread.join(20)
        assert answers[0] == 4
        assert "not today" in answers[1] and "no answer" in answers[2]
        server.stop()
        with pytest.raises(mlbridge.Cancelled):
            server.next()
    assert server.closed
    with pytest.raises(mlbridge.Closed):
        server.next()
    server.stop()
    server.close()


def test_a_server_belongs_to_one_thread(address: str) -> None:
    with running(lambda o, c: 1, address, SMALL) as server:
        server.open().evaluate()
        with pytest.raises(mlbridge.InvalidArgument, match="another thread"):
            server.server.next()


@pytest.mark.parametrize(
    "uri", ["unix:", "nix:/tmp/x", "unix:/no/such/folder/s", "tcp", "unix:" + "x" * 200, "onnx:f"]
)
def test_where_nobody_can_listen(uri: str) -> None:
    with pytest.raises(mlbridge.Error) as caught:
        mlbridge.Server(uri, SMALL)
    assert len(str(caught.value)) > 10


def test_something_else_lies_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    (tmp_path / "f.in").write_text("precious")
    for uri in (f"unix:{tmp_path}/file", f"pipe:{tmp_path}/f"):
        with pytest.raises(mlbridge.InvalidArgument):
            mlbridge.Server(uri, SMALL)
    assert (tmp_path / "file").read_text() == (tmp_path / "f.in").read_text() == "precious"
    with (
        running(lambda o, c: 1, f"unix:{tmp_path}/s", SMALL),
        pytest.raises(mlbridge.Busy),
    ):
        mlbridge.Server(f"unix:{tmp_path}/s", SMALL)


def test_sockets_and_fifos_are_private(tmp_path: Path, transport: str) -> None:
    with running(lambda o, c: 1, f"{transport}:{tmp_path}/s", SMALL):
        made = list(tmp_path.iterdir())
        assert made and all(path.stat().st_mode & 0o777 == 0o600 for path in made)
    assert not list(tmp_path.iterdir())


def test_features_set_by_name_make_the_signature(address: str) -> None:
    seen: list[str] = []

    def policy(observation: Mapping[str, Any], _: mlbridge.CallContext) -> float:
        seen.append(", ".join(f"{k}: {v.dtype}{list(v.shape)}" for k, v in observation.items()))
        return float(observation["a"].sum()) + float(observation["b"])

    with running(policy, address) as server:
        runner = server.open(output="float32")
        with pytest.raises(mlbridge.InvalidArgument, match="no signature yet"):
            runner.inputs["a"]
        assert runner.evaluate_scalar(a=np.ones((2, 3), np.float32), b=2) == 8
        assert runner.evaluate_scalar(b=5) == 11
        assert runner.evaluate(a=np.zeros((2, 3)))["output"].dtype == np.float32
        with pytest.raises(mlbridge.InvalidArgument, match="input 'b'"):
            runner.evaluate(b=0.5)
    assert set(seen) == {"a: float32[2, 3], b: int64[]"}


def test_close_ends_the_serving_with_the_request_in_work(address: str) -> None:
    path = Path(address.partition(":")[2])

    def policy(*_: Any) -> int:
        server.server.close()
        return 7

    with running(policy, address, SMALL) as server:
        assert path.exists()
        assert server.open().evaluate_scalar() == 7
        server.thread.join(20)
        assert not server.thread.is_alive() and server.server.closed
        assert not path.exists()
        assert server.finish().replies == 1
