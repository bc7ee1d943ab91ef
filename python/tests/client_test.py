# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models and runners from Python, without a server where none is needed."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlbridge
from mlbridge import Signature, TensorSpec
from serving import SMALL, at_once, running

VARIABLE = Signature(
    [TensorSpec("nodes", "float32", [None, 2], [4, 0]), TensorSpec("names", str, [2])],
    [TensorSpec("total", "float64")],
)


def total(observation: Mapping[str, Any], _: mlbridge.CallContext) -> float:
    return float(observation["nodes"].sum()) + len("".join(observation["names"]))


def runner_of(policy: Any, signature: Signature) -> mlbridge.Runner:
    model = mlbridge.from_function(policy, signature)
    model.bind(signature)
    return model.new_runner()


def test_inputs_are_the_buffers_themselves() -> None:
    runner = runner_of(lambda o, c: int(o["x"].argmax()), SMALL)
    x = runner.inputs["x"]
    assert x.dtype == np.float32 and x.shape == (4,) and x.flags.writeable
    x[2] = 1
    assert runner.evaluate_scalar() == 2
    runner.inputs["x"] = [9, 0, 0, 0]
    assert x[0] == 9
    assert runner.evaluate(x=np.array([0, 1, 0, 0], np.float64)) == {"action": 1}
    assert list(runner.inputs) == ["x"] and len(runner.inputs) == 1 and "x" in runner.inputs
    assert runner.signature == SMALL and runner.model.signature == SMALL
    del runner
    x[:] = 5  # keeps the buffer
    assert x.sum() == 20


def test_names_that_are_no_text_are_refused() -> None:
    runner = runner_of(lambda o, c: 1, SMALL)
    features: dict[str, Any] = {"\ud800": [1] * 4}
    for ask in (runner.evaluate, runner.evaluate_scalar):
        with pytest.raises(mlbridge.InvalidArgument, match=r"no input .*'\\ud800'"):
            ask(**features, x=[1] * 4)
    with pytest.raises(mlbridge.InvalidArgument, match="no input"):
        runner.evaluate(**{"\udcff": 1})
    with pytest.raises(mlbridge.InvalidArgument, match=r"'\\ud800'"):
        mlbridge.Model.open("unix:/nowhere", deadline="\ud800")
    assert runner.evaluate_scalar(x=[1] * 4) == 1


def test_what_a_policy_raises_is_told_whatever_its_text_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, "mlbridge")  # no worker of pytest-xdist could send this text

    def policy(observation: Mapping[str, Any], _: mlbridge.CallContext) -> int:
        raise ValueError("\ud800\0x")

    with pytest.raises(mlbridge.PolicyFailed) as caught:
        runner_of(policy, SMALL).evaluate(x=[1] * 4)
    assert "policy raised ValueError: \\ud800\0x" in caught.value.message


def test_inputs_of_dynamic_shape_and_strings() -> None:
    runner = runner_of(total, VARIABLE)
    with pytest.raises(mlbridge.InvalidArgument, match="no shape yet"):
        runner.inputs["nodes"]
    nodes = runner.resize("nodes", [3, 2])
    nodes[:] = 1
    runner.inputs["names"][1] = "abc"
    assert runner.evaluate_scalar() == 9
    bigger = runner.resize("nodes", [4, 2])
    bigger[:] = 2
    nodes[:] = 100  # an old array is no longer read
    assert runner.evaluate_scalar() == 19
    assert runner.evaluate_scalar(nodes=np.ones((1, 2)), names=["", "xy"]) == 4
    for shape in ([5, 2], [3, 3], [3], [-1, 2]):
        with pytest.raises(mlbridge.InvalidArgument, match="nodes"):
            runner.resize("nodes", shape)
    with pytest.raises(mlbridge.InvalidArgument, match="nodes"):
        runner.evaluate(nodes=np.ones((5, 2)))


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"y": 1}, r"no input 'y' in the signature \(x: float32\[4\]\)"),
        ({"x": [1, 2, 3]}, r"input 'x': expected shape \[4\], got shape \[3\]"),
        ({"x": "text"}, "input 'x': expected"),
        ({"x": None}, "input 'x': expected"),
        ({"x": [1e300, 0, 0, 0]}, "out of range"),
        ({"x": np.zeros(4, complex)}, "got complex128"),
    ],
)
def test_wrong_inputs(features: dict[str, Any], message: str) -> None:
    runner = runner_of(lambda o, c: 1, SMALL)
    with pytest.raises(mlbridge.InvalidArgument, match=message):
        runner.evaluate(**features)
    assert runner.evaluate_scalar(x=[1, 2, 3, 4]) == 1


@pytest.mark.parametrize(
    ("uri", "error", "message"),
    [
        ("onxx:policy.onnx", ValueError, "onnx"),
        ("", ValueError, "URI|scheme"),
        ("policy.onnx", ValueError, "URI|scheme"),
        ("unix:", ValueError, "unix"),
        ("unix:/no/such/socket", ConnectionError, "/no/such/socket"),
        ("unix:/" + "x" * 200, ValueError, "107"),
        ("pipe:/no/such/pipe", ConnectionError, "/no/such/pipe"),
        ("unix:/no/such/socket?serds=json", ValueError, "serdes"),
        ("unix:/no/such/socket?deadline=soon", ValueError, "soon"),
        ("unix:/no/such/socket?serdes=xml", mlbridge.Error, "xml"),
        ("function:no-such-function", FileNotFoundError, "no-such-function"),
        ("../../evil:x", ValueError, "URI|scheme"),
    ],
)
def test_uris_that_open_nothing(uri: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        mlbridge.open(uri, SMALL, deadline=5)
    assert isinstance(caught.value, mlbridge.Error)


def test_a_regular_file_where_a_socket_or_fifo_should_be(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("")
    (tmp_path / "f.in").write_text("")
    (tmp_path / "f.out").write_text("")
    for uri in (f"unix:{tmp_path}/s", f"pipe:{tmp_path}/f"):
        with pytest.raises(mlbridge.Error):
            mlbridge.open(uri, SMALL, deadline=5)


def test_deadlines(address: str) -> None:
    released = threading.Event()

    def policy(*_: Any) -> int:
        released.wait(30)
        return 1

    with running(policy, address, SMALL) as server:
        runner = server.open(deadline=timedelta(milliseconds=100))
        try:
            with pytest.raises(TimeoutError):
                runner.evaluate()
            with pytest.raises(mlbridge.Error):  # the circuit is open: at once
                runner.evaluate()
            assert runner.status.next_step is mlbridge.NextStep.RETRY
        finally:
            released.set()
    for nonsense in (-1, "soon", "1 parsec", float("nan")):
        with pytest.raises(mlbridge.InvalidArgument):
            mlbridge.open(address, SMALL, deadline=nonsense)
    with pytest.raises(TypeError):
        mlbridge.open(address, SMALL, deadline=[])  # type: ignore[arg-type]


def test_deadlines_without_limit(address: str) -> None:
    for endless in (float("inf"), 1e300, 9.2e9, 2**62, timedelta.max):
        with running(lambda *_: 3, address, SMALL) as server:
            model = mlbridge.Model.open(server.uri, deadline=endless)
            model.bind(SMALL)
            runners = [model.new_runner() for _ in range(4)]
            assert [runner.evaluate_scalar() for runner in runners] == [3] * 4
        with running(lambda *_: 4, address, SMALL):
            for runner in runners:  # each of them finds out that the first server has gone
                try:
                    assert runner.evaluate_scalar() == 4
                except mlbridge.Closed:
                    assert runner.evaluate_scalar() == 4


def test_waiting_for_a_server_that_is_starting(address: str) -> None:
    answers: list[int] = []

    def client() -> None:
        waiting.set()
        answers.append(mlbridge.open(address + "?wait=20s", deadline=20).evaluate_scalar())

    waiting = threading.Event()
    thread = threading.Thread(target=client)
    thread.start()
    waiting.wait(20)
    with running(lambda o, c: 42, address, SMALL):
        thread.join(20)
    assert answers == [42]


def test_a_server_that_goes_away(address: str, transport: str) -> None:
    address = address.replace("unix:", f"{transport}:")
    with running(lambda o, c: 1, address, SMALL) as server:
        runner = server.open(deadline=5)
        assert runner.evaluate_scalar() == 1
    for _ in range(3):
        with pytest.raises(ConnectionError):
            runner.evaluate()
    assert not runner.status.ok


def test_functions_by_name() -> None:
    @mlbridge.function("test-client-double", SMALL, {"who": "me"})
    def double(observation: Mapping[str, Any], context: mlbridge.CallContext) -> int:
        return int(2 * observation["x"][0]) + context.step

    runner = mlbridge.open("function:test-client-double", episode="e")
    assert runner.model.metadata == {"who": "me"}
    assert [runner.evaluate_scalar(x=[4, 0, 0, 0]) for _ in range(3)] == [8, 9, 10]
    assert double({"x": [1]}, type("C", (), {"step": 0})()) == 2
    with pytest.raises(mlbridge.InvalidArgument, match="test-client-double"):
        mlbridge.function("test-client-double")(double)
    with pytest.raises(mlbridge.InvalidArgument, match=r"has no option 'recrod'.*'record'"):
        mlbridge.open("function:test-client-double?recrod=DIR")
    with pytest.raises(TypeError, match="callable"):
        mlbridge.from_function(3)  # type: ignore[arg-type]


def test_a_function_that_raises() -> None:
    def policy(*_: Any) -> int:
        raise LookupError("nothing here")

    with pytest.raises(mlbridge.PolicyFailed, match="LookupError: nothing here"):
        runner_of(policy, SMALL).evaluate()


def test_a_function_asked_by_many_threads() -> None:
    model = mlbridge.from_function(lambda o, c: int(o["x"].sum()), SMALL)
    model.bind(SMALL)
    wrong: list[Any] = []

    def work(number: int) -> None:
        runner = model.new_runner()
        for k in range(200):
            got = runner.evaluate_scalar(x=[number, k, 0, 0])
            if got != number + k:
                wrong.append((number, k, got))

    at_once(work, 8)
    assert not wrong


def test_a_runner_is_not_used_by_two_calls_at_once() -> None:
    def policy(*_: Any) -> int:
        with pytest.raises(mlbridge.InvalidArgument, match="runner is in use"):
            runner.evaluate()
        return 1

    runner = runner_of(policy, SMALL)
    assert runner.evaluate_scalar() == 1


def test_a_child_process_is_refused(address: str) -> None:
    with running(lambda o, c: 1, address, SMALL) as server:
        runner = server.open()
        assert runner.evaluate_scalar() == 1
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for use in (
                    runner.evaluate,
                    runner.model.new_runner,
                    lambda: server.server.next(),
                ):
                    try:
                        use()
                        os._exit(2)
                    except mlbridge.InvalidArgument as error:
                        assert "fork" in str(error)
                # A connection of its own works.
                code = 0 if mlbridge.open(address, deadline=20).evaluate_scalar() == 1 else 3
                server.server.stop()
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert runner.evaluate_scalar() == 1
        assert not server.server.stopped
