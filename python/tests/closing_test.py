# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runners and models are closed, by `with` or by close(); arguments are told what they lack."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlbridge
from serving import SMALL, running

GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "onnx"
untyped: Any = mlbridge  # for calls that a type checker refuses
LINEAR = f"native:{GOLDEN}/linear.onnx"


def total(observation: Any, context: Any) -> int:
    return int(observation["x"].sum())


def test_with_closes_a_runner_and_its_connection(address: str) -> None:
    with running(total, address, SMALL) as server:
        with server.open() as runner:
            assert runner.evaluate_scalar(x=[1, 2, 3, 4]) == 10
            assert not runner.closed
        assert runner.closed and repr(runner) == "<mlbridge.Runner (closed)>"
        runner.close()  # may be called twice
        uses: list[Callable[[], object]] = [
            lambda: runner.evaluate(x=[1, 2, 3, 4]),
            lambda: runner.evaluate_scalar(),
            lambda: runner.inputs["x"],
            lambda: runner.resize("x", [4]),
            lambda: runner.reward(1.0),
            lambda: runner.begin_episode("e"),
            lambda: runner.end_episode(),
            lambda: runner.signature,
            lambda: runner.model,
            lambda: runner.status,
            lambda: runner.dropped_events,
        ]
        for use in uses:
            with pytest.raises(mlbridge.Closed, match="the runner is closed"):
                use()
        with mlbridge.open(server.uri, deadline=20) as another:  # the server lives on
            assert another.evaluate_scalar(x=[1, 1, 1, 1]) == 4


def test_arrays_of_a_closed_runner_stay() -> None:
    with mlbridge.open(LINEAR) as runner:
        array = runner.inputs["x"]
        array[:] = 7
    assert (array == 7).all()
    array[:] = 8
    assert array.sum() == 8 * array.size


def test_with_closes_a_model_and_its_runners_go_on() -> None:
    with mlbridge.Model.open(LINEAR) as model:
        assert model.model_signature is not None
        model.bind(model.model_signature)
        runner = model.new_runner()
    model.close()
    assert model.closed and model.uri == LINEAR and repr(model).endswith(" (closed)>")
    uses: list[Callable[[], object]] = [
        lambda: model.new_runner(),
        lambda: model.bind(SMALL),
        lambda: model.statistics(),
        lambda: model.metadata,
        lambda: model.signature,
        lambda: model.model_signature,
    ]
    for use in uses:
        with pytest.raises(mlbridge.Closed, match="the model is closed"):
            use()
    assert runner.evaluate(x=np.ones((1, 4), np.float32))["y"].shape == (1, 1)


@pytest.mark.parametrize("scheme", ["native", "onnx"])
def test_a_model_from_memory(scheme: str) -> None:
    data = (GOLDEN / "linear.onnx").read_bytes()
    with mlbridge.Model.from_bytes(f"{scheme}:linear", data) as model:
        assert model.model_signature is not None and model.metadata["unit"] == "µs"
        model.bind(model.model_signature)
        whole = mlbridge.open(f"{scheme}:{GOLDEN}/linear.onnx")
        x = np.ones((1, 4), np.float32)
        with model.new_runner() as runner:
            assert runner.evaluate(x=x)["y"] == whole.evaluate(x=x)["y"]
    with pytest.raises(mlbridge.Unsupported):
        mlbridge.Model.from_bytes("unix:/s", data)


def test_a_runner_in_use_is_not_closed(address: str) -> None:
    """Nor does a second thread: it is told so, as for every call."""
    closed: list[str] = []

    def policy(observation: Any, context: Any) -> int:
        try:
            runner.close()
        except mlbridge.InvalidArgument as error:
            closed.append(str(error))
        return 1

    with running(policy, address, SMALL) as server:
        runner = server.open()
        assert runner.evaluate_scalar(x=[1, 2, 3, 4]) == 1
        assert closed == ["the runner is in use by another thread or by a running call"]
        runner.close()


def test_inputs_in_a_mapping_and_as_keywords(address: str) -> None:
    signature = mlbridge.Signature(
        [mlbridge.TensorSpec("a b", "int64"), mlbridge.TensorSpec("mapping", "int64")],
        [mlbridge.TensorSpec("sum", "int64")],
    )
    policy = mlbridge.from_function(lambda o, _: int(o["a b"]) + int(o["mapping"]), signature)
    policy.bind(signature)
    runner = policy.new_runner()
    assert runner.evaluate({"a b": 1, "mapping": 2})["sum"] == 3
    assert runner.evaluate_scalar({"a b": np.uint8(5)}, mapping=np.int16(6)) == 11
    assert runner.evaluate_scalar({"mapping": 1}, mapping=7) == 12, "the keyword wins"
    assert runner.evaluate_scalar(None) == 12
    for wrong, message in (([1, 2], "a mapping of inputs"), (5, "a mapping of inputs")):
        with pytest.raises(TypeError, match=message):
            runner.evaluate(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="one mapping"):
        runner.evaluate({}, {})  # type: ignore[call-arg]


@pytest.mark.parametrize("number", [3, np.int8(3), np.uint64(3), np.array(3), np.int64(3)])
def test_any_integer_is_one(number: Any, address: str) -> None:
    spec = mlbridge.TensorSpec("x", "float32", number)
    assert spec.shape == (3,)
    assert mlbridge.TensorSpec("x", "float32", [None, 2], [number, None]).maximum == (3, 0)
    model = mlbridge.from_function(
        lambda o, _: float(o["x"].sum()),
        mlbridge.Signature(
            [mlbridge.TensorSpec("x", "float32", [-1])], [mlbridge.TensorSpec("y", "float32")]
        ),
    )
    assert model.model_signature is not None
    model.bind(model.model_signature)
    runner = model.new_runner()
    for shape in (number, [number], np.array([number])):
        runner.resize("x", shape)[:] = 2
        assert runner.evaluate_scalar() == 6
    with mlbridge.Server(address, SMALL, max_connections=number) as server:
        assert server.agents == {}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: untyped.open(5), "the URI of a model: expected text"),
        (lambda: untyped.open(LINEAR, "x"), "bind: expected a Signature, got str"),
        (lambda: untyped.open(LINEAR, deadline=[1]), "a duration: expected a number"),
        (lambda: untyped.Signature([("x", "int64")], []), "the inputs: expected a sequence"),
        (lambda: untyped.Signature([], 5), "the outputs: expected a sequence"),
        (lambda: untyped.TensorSpec("x", "int64", 1.5), "tensor 'x': dimensions: expected"),
        (
            lambda: untyped.TensorSpec("x", "int64", ["4"]),
            "tensor 'x': dimension 0 is '4', expected an",
        ),
        (lambda: untyped.open(LINEAR).resize("x", "4"), "input 'x': dimensions: expected"),
        (
            lambda: untyped.open(LINEAR).resize("x", [2.5]),
            "input 'x': dimension 0 is 2.5, expected an",
        ),
        (
            lambda: untyped.Server("unix:/s", max_connections="many"),
            "max_connections is 'many', expected",
        ),
    ],
)
def test_a_wrong_type_is_told_in_our_own_words(call: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_a_deadline_of_nothing_waits_for_nothing() -> None:
    for uri, options in ((LINEAR + "?deadline=0s", {}), (LINEAR, {"deadline": 0})):
        with pytest.raises(mlbridge.DeadlineExceeded):
            untyped.open(uri, **options)


def test_a_policy_that_ends_a_generator_fails_one_request(address: str) -> None:
    def policy(observation: Any, context: Any) -> int:
        if observation["x"][0]:
            raise GeneratorExit("over")
        return 1

    with running(policy, address, SMALL) as server:
        runner = server.open()
        with pytest.raises(mlbridge.PolicyFailed, match="GeneratorExit: over"):
            runner.evaluate(x=[1, 0, 0, 0])
        assert runner.evaluate_scalar(x=[0, 0, 0, 0]) == 1


def test_a_program_ends_while_a_daemon_thread_waits_for_an_answer(address: str) -> None:
    """Python before 3.14 would abort when the thread comes back."""
    script = f"""
import threading, time, mlbridge
def ask():
    runner = mlbridge.open({address!r}, deadline=20)
    while True:
        runner.evaluate_scalar(x=[1, 2, 3, 4])
        asked.set()
asked = threading.Event()
for _ in range(4):
    threading.Thread(target=ask, daemon=True).start()
asked.wait()
"""

    def slow(observation: Any, context: Any) -> int:
        time.sleep(0.002)
        return 1

    with running(slow, address, SMALL):
        for _ in range(3):
            done = subprocess.run(
                [sys.executable, "-c", script], capture_output=True, timeout=60, check=False
            )
            assert (done.returncode, done.stderr) == (0, b"")


def test_a_program_ends_with_a_server_that_nobody_closed(address: str) -> None:
    """Python subclasses a type of nanobind's, which older versions of that cannot always visit."""
    script = f"""
import gc, mlbridge
server = mlbridge.Server({address!r}, mlbridge.Signature([], [mlbridge.TensorSpec("y", "int64")]))
gc.collect()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
