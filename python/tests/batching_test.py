# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One policy call for many compilers."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlbridge
from mlbridge import Signature, TensorSpec
from serving import at_once

SUM = Signature([TensorSpec("x", "float32", [-1])], [TensorSpec("y", "float32", [1])])


class Serving:
    """A server that waits until so many requests are there, then serves them in batches."""

    def __init__(self, uri: str, policy: Any, signature: Signature = SUM, **options: Any) -> None:
        self.server = mlbridge.Server(uri, signature)
        self.statistics: Any = None
        self.error: BaseException | None = None
        self.options = options
        self.policy = policy
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.statistics = self.server.serve_batches(self.policy, **self.options)
        except BaseException as error:
            self.error = error

    def __enter__(self) -> Serving:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()
        self.thread.join(30)
        assert not self.thread.is_alive()
        self.server.close()


def ask(uri: str, rows: Sequence[Any]) -> list[Any]:
    """All rows at once, each from a connection of its own; answers or errors."""
    answers: list[Any] = [None] * len(rows)
    connected = threading.Barrier(len(rows))

    def one(k: int) -> None:
        try:
            runner = mlbridge.open(uri, SUM, deadline=30)
            connected.wait(30)
            answers[k] = float(runner.evaluate(x=np.asarray(rows[k], np.float32))["y"][0])
        except mlbridge.Error as error:
            answers[k] = error

    at_once(one, len(rows))
    return answers


def test_requests_that_wait_are_answered_together(address: str) -> None:
    sizes: list[int] = []

    def policy(observations: Mapping[str, Any], contexts: Sequence[mlbridge.CallContext]) -> Any:
        x = observations["x"]
        assert x.shape == (len(contexts), 3)
        assert len({c.connection for c in contexts}) == len(contexts)
        sizes.append(len(contexts))
        return x.sum(1, keepdims=True)

    # A batch is complete with eight, or else after longer than any test may take.
    with Serving(address, policy, max_batch=8, max_wait=600.0) as serving:
        answers = ask(address, [[k, k, 1] for k in range(24)])
    assert answers == [2 * k + 1 for k in range(24)]
    assert sizes == [8, 8, 8]
    statistics = serving.statistics
    assert statistics.replies == statistics.batched_requests == 24
    assert (statistics.batches, statistics.largest_batch) == (3, 8)


def test_nobody_waits_for_others_when_all_have_asked(address: str) -> None:
    sizes: list[int] = []

    def policy(observations: Mapping[str, Any], _: Sequence[mlbridge.CallContext]) -> Any:
        sizes.append(len(observations["x"]))
        return observations["x"]

    with Serving(address, policy, max_batch=8, max_wait=600.0):
        assert ask(address, [[1]]) == [1]
        assert ask(address, [[1], [2], [3]]) == [1, 2, 3]
        model = mlbridge.Model.open(address, deadline=30)
        model.bind(SUM)
        runners = [model.new_runner() for _ in range(3)]  # of one thread
        for k in range(6):
            assert runners[k % 3].evaluate(x=np.full(1, k, np.float32))["y"][0] == k
    assert sizes == [1, 3] + 6 * [1]


def test_rows_of_every_kind(address: str) -> None:
    signature = Signature(
        [TensorSpec("t", "str", [2]), TensorSpec("n", "int16"), TensorSpec("e", "float64", [0])],
        [TensorSpec("s", "str"), TensorSpec("i", "int8", [2]), TensorSpec("d", "float32", [None])],
    )

    def policy(observations: Mapping[str, Any], contexts: Sequence[mlbridge.CallContext]) -> Any:
        count = len(contexts)
        assert observations["t"].shape == (count, 2)
        assert observations["n"].dtype == np.int16 and observations["n"].shape == (count,)
        assert observations["e"].shape == (count, 0)
        n = observations["n"].tolist()
        return {
            "s": ["".join(row) for row in observations["t"]],
            "i": np.array([[k, -k] for k in n], np.int64),
            "d": [np.ones(k) for k in n],
        }

    def one(k: int) -> None:
        runner = mlbridge.open(address, signature, deadline=30)
        connected.wait(30)
        answers[k] = runner.evaluate(t=["é", str(k)], n=k, e=[])

    answers: dict[int, Any] = {}
    connected = threading.Barrier(5)
    with Serving(address, policy, signature, max_batch=5, max_wait=600.0) as serving:
        at_once(one, 5)
    assert serving.statistics.batches == 1
    for k in range(5):
        assert str(answers[k]["s"]) == f"é{k}"
        assert answers[k]["i"].tolist() == [k, -k]
        assert answers[k]["d"].tolist() == [1] * k


def test_what_on_event_raises_ends_the_serving(tmp_path: Path) -> None:
    def on_event(event: mlbridge.Event) -> None:
        raise LookupError(event.kind.name)

    uri = f"unix:{tmp_path}/s"
    with Serving(uri, lambda o, c: o["x"], on_event=on_event, max_batch=1) as serving:
        runner = mlbridge.open(uri, SUM, deadline=30)
        assert runner.evaluate(x=np.ones(1, np.float32))["y"][0] == 1
        runner = mlbridge.open(uri, SUM, deadline=1)
        runner.begin_episode("one")  # which goes with the request
        with pytest.raises(mlbridge.DeadlineExceeded):
            runner.evaluate(x=np.ones(1, np.float32))
        serving.thread.join(60)
        assert isinstance(serving.error, LookupError)


def test_other_shapes_are_other_calls(address: str) -> None:
    shapes: list[tuple[int, ...]] = []

    def policy(observations: Mapping[str, Any], _: Sequence[mlbridge.CallContext]) -> Any:
        shapes.append(observations["x"].shape)
        return {"y": [[row.sum()] for row in observations["x"]]}

    with Serving(address, policy, max_batch=6, max_wait=600.0):
        answers = ask(address, [np.ones(n) for n in (2, 3, 2, 3, 3, 0)])
    assert answers == [2, 3, 2, 3, 3, 0]
    assert sorted(shapes) == [(1, 0), (2, 2), (3, 3)]


def test_padding_makes_one_call_of_all_shapes(address: str) -> None:
    def policy(observations: Mapping[str, Any], _: Sequence[mlbridge.CallContext]) -> Any:
        x, shape = observations["x"], observations["x.shape"]
        assert x.shape == (4, 5) and shape.dtype == np.int64
        inside = np.arange(5) < shape
        assert (x[~inside] == -1).all()
        return (x * inside).sum(1, keepdims=True)

    with Serving(address, policy, max_batch=4, max_wait=600.0, pad=-1):
        assert ask(address, [np.ones(n) for n in (5, 1, 0, 2)]) == [5, 1, 0, 2]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda x: x[:1], "output 'y' has 1 rows for 2 requests"),
        (lambda x: 3.0, "output 'y' has no rows for 2 requests"),
        (lambda x: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda x: {"z": x}, "output 'y' missing"),
    ],
)
def test_a_policy_that_fails_fails_its_batch_and_the_server_lives(
    address: str, answer: Any, message: str
) -> None:
    def policy(observations: Mapping[str, Any], _: Sequence[mlbridge.CallContext]) -> Any:
        x = observations["x"]
        return answer(x) if x.shape[1] == 1 else x.sum(1, keepdims=True)

    with Serving(address, policy, max_batch=2, max_wait=600.0):
        for error in ask(address, [[1], [2]]):
            assert isinstance(error, mlbridge.PolicyFailed) and message in str(error)
        assert ask(address, [[1, 2], [3, 4]]) == [3, 7]


def test_one_answer_that_does_not_fit_fails_alone(address: str) -> None:
    def policy(observations: Mapping[str, Any], _: Sequence[mlbridge.CallContext]) -> Any:
        return [[1.0] if row[0] > 0 else [1.0, 2.0] for row in observations["x"]]

    with Serving(address, policy, max_batch=2, max_wait=600.0):
        good, bad = ask(address, [[1], [-1]])
        assert good == 1
        assert isinstance(bad, mlbridge.PolicyFailed)


def test_a_compiler_that_is_gone_harms_no_other(address: str) -> None:
    asked = threading.Event()
    gone = threading.Event()

    def policy(observations: Mapping[str, Any], _: Sequence[mlbridge.CallContext]) -> Any:
        asked.set()
        assert gone.wait(60)
        return observations["x"]

    client = (
        "import sys, mlbridge\n"
        "s = mlbridge.TensorSpec\n"
        "i, o = [s('x', 'float32', [-1])], [s('y', 'float32', [1])]\n"
        "mlbridge.open(sys.argv[1], mlbridge.Signature(i, o), deadline=60).evaluate(x=[1.0])\n"
    )
    with Serving(address, policy, max_batch=2, max_wait=600.0):
        victim = subprocess.Popen([sys.executable, "-c", client, address])
        answers: list[Any] = []
        other = threading.Thread(target=lambda: answers.extend(ask(address, [[7]])))
        other.start()
        assert asked.wait(60)
        victim.kill()
        victim.wait()
        gone.set()
        other.join(60)
        assert answers == [7]
        assert ask(address, [[1], [2]]) == [1, 2]


def test_events_come_in_the_order_of_their_stream(tmp_path: Path) -> None:
    seen: list[str] = []

    def policy(observations: Mapping[str, Any], contexts: Sequence[mlbridge.CallContext]) -> Any:
        seen.append("request")
        return observations["x"]

    uri = f"pipe:{tmp_path}/many/"
    with Serving(uri, policy, on_event=lambda event: seen.append(event.kind.name)):
        runner = mlbridge.open(uri, SUM, deadline=30)
        runner.begin_episode("one")
        runner.evaluate(x=np.zeros(1, np.float32))
        runner.reward(1.0)
        runner.end_episode()
        runner.evaluate(x=np.zeros(1, np.float32))
    assert seen == ["EPISODE_BEGIN", "request", "REWARD", "EPISODE_END", "request"]


@pytest.mark.parametrize(
    "options", [{"max_batch": 0}, {"max_wait": -1.0}, {"max_wait": float("nan")}]
)
def test_limits_that_make_no_sense(address: str, options: Any) -> None:
    with mlbridge.Server(address, SUM) as server, pytest.raises(ValueError, match="must be"):
        server.serve_batches(lambda o, c: 0, **options)
