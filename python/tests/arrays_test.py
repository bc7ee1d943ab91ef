# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The observation is the server's own memory: lent, read-only, and never changed under a keeper."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import mlbridge
from mlbridge import Signature, TensorSpec
from serving import SMALL, running


def addresses_seen(keep: Any, address: str, serdes: str, count: int = 6) -> list[Any]:
    """The results of `keep(observation, context)` for the requests x = [k, k, k, k]."""
    kept: list[Any] = []

    def policy(observation: Mapping[str, Any], context: mlbridge.CallContext) -> int:
        kept.append(keep(observation, context))
        return 0

    with running(policy, address, SMALL, query=f"?serdes={serdes}") as server:
        runner = server.open()
        for k in range(count):
            runner.evaluate(x=np.full(4, k, np.float32))
    return kept


KEEPERS = {
    "array": lambda o, c: o["x"],
    "slice": lambda o, c: o["x"][1:3],
    "reshaped": lambda o, c: o["x"].reshape(2, 2).T,
    "observation": lambda o, c: o,
    "values": lambda o, c: o.values(),
    "items": lambda o, c: iter(o.items()),
    "dict": lambda o, c: dict(o),
    "memoryview": lambda o, c: memoryview(o["x"]),
    "closure": lambda o, c: lambda: o["x"],
    "dlpack": lambda o, c: np.from_dlpack(o["x"]) if np.__version__ >= "2.1" else o["x"],
}


def content(kept: Any) -> float:
    if callable(kept):
        kept = kept()
    if isinstance(kept, Mapping):
        kept = kept["x"]
    elif not isinstance(kept, np.ndarray) and not isinstance(kept, memoryview):
        first = next(iter(kept))
        kept = first[1] if isinstance(first, tuple) else first
    (value,) = np.unique(np.asarray(kept))
    return float(value)


@pytest.mark.parametrize("keeper", KEEPERS)
def test_what_a_policy_keeps_does_not_change(address: str, serdes: str, keeper: str) -> None:
    kept = addresses_seen(KEEPERS[keeper], address, serdes)
    gc.collect()
    assert [content(one) for one in kept] == [0, 1, 2, 3, 4, 5]


def test_kept_arrays_outlive_the_server(address: str) -> None:
    kept = addresses_seen(lambda o, c: o["x"] if o["x"][0] == 3 else None, address, "bitstream")
    assert kept[3].tolist() == [3, 3, 3, 3]


def test_a_kept_context_does_not_change(address: str) -> None:
    kept = addresses_seen(lambda o, c: c, address, "bitstream")
    assert [c.step for c in kept] == [0, 1, 2, 3, 4, 5]


def test_arrays_are_used_again_when_nobody_keeps_them(address: str) -> None:
    kept = addresses_seen(lambda o, c: (id(o), id(o["x"]), id(c)), address, "bitstream", 20)
    assert len(set(kept)) == 1


def test_memory_is_given_back(address: str) -> None:
    references: list[int] = []
    box: list[Any] = []

    def policy(observation: Mapping[str, Any], _: mlbridge.CallContext) -> int:
        box[:] = [observation["x"]]  # keeps the last one only
        references.append(sys.getrefcount(box[0]))
        return 0

    with running(policy, address, SMALL) as server:
        runner = server.open()
        for k in range(50):
            runner.evaluate(x=[k] * 4)
    assert len(set(references[1:])) == 1
    assert box[0].tolist() == [49] * 4


def test_arrays_cannot_be_written(address: str) -> None:
    def policy(observation: Any, _: mlbridge.CallContext) -> int:
        array = observation["x"]
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.setflags(write=True)
        with pytest.raises(TypeError):
            observation["x"] = 1
        return int(array.flags.aligned and array.flags.c_contiguous)

    with running(policy, address, SMALL) as server:
        assert server.open().evaluate_scalar() == 1


def test_an_answer_may_be_a_view_of_the_observation(address: str, serdes: str) -> None:
    signature = Signature(
        [TensorSpec("x", "int32", [-1, 2])], [TensorSpec("y", "int32", [-1]), TensorSpec("n", int)]
    )

    def policy(observation: Mapping[str, Any], _: mlbridge.CallContext) -> dict[str, Any]:
        return {"y": observation["x"].T[1], "n": len(observation["x"])}

    with running(policy, address, signature, query=f"?serdes={serdes}") as server:
        runner = server.open()
        for n in (3, 1, 0, 7, 3, 3, 100):
            x = np.arange(2 * n, dtype=np.int32).reshape(n, 2) + n
            answer = runner.evaluate(x=x)
            assert answer["n"] == n
            assert answer["y"].tolist() == x[:, 1].tolist()


def test_dynamic_arrays_that_are_kept(address: str, serdes: str) -> None:
    signature = Signature(
        [TensorSpec("x", "float64", [None]), TensorSpec("s", str)], [TensorSpec("y", "float64")]
    )
    kept: list[Any] = []

    def policy(observation: Mapping[str, Any], _: mlbridge.CallContext) -> float:
        kept.append((observation["x"], observation["s"]))
        return float(observation["x"].sum())

    with running(policy, address, signature, query=f"?serdes={serdes}") as server:
        runner = server.open()
        for n in (2, 5, 5, 0, 1000, 2):
            assert runner.evaluate_scalar(x=np.full(n, n), s=f"n={n}") == n * n
    assert [(len(x), s.item()) for x, s in kept] == [(n, f"n={n}") for n in (2, 5, 5, 0, 1000, 2)]
    assert all((x == len(x)).all() for x, _ in kept)


def test_shapes_that_come_again(address: str, serdes: str) -> None:
    signature = Signature(
        [TensorSpec("x", "float32", [None, None]), TensorSpec("k", "int64", [1])],
        [TensorSpec("y", "float64")],
    )
    kept: list[Any] = []

    def policy(observation: Mapping[str, Any], _: mlbridge.CallContext) -> float:
        if observation["k"][0] % 7 == 0:
            kept.append(observation["x"][:1])
        return float(observation["x"].sum())

    shapes = [(n % 9 + 1, n % 4) for n in range(100)]
    with running(policy, address, signature, query=f"?serdes={serdes}") as server:
        runner = server.open()
        for k, shape in enumerate(shapes):
            x = np.full(shape, k, np.float32)
            assert runner.evaluate_scalar(x=x, k=k) == x.sum()
    assert [one.shape[1] for one in kept] == [shape[1] for shape in shapes[::7]]
    assert all((one == 7 * i).all() for i, one in enumerate(kept))


@pytest.mark.parametrize("dimension", [4, None])
def test_a_policy_may_set_the_shape_of_what_it_is_lent(address: str, dimension: int | None) -> None:
    signature = Signature([TensorSpec("x", "float32", [dimension])], [TensorSpec("y", "int64")])

    def policy(observation: Mapping[str, Any], _: mlbridge.CallContext) -> int:
        rank: int = observation["x"].ndim
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated by some versions of NumPy
            observation["x"].shape = (2, 2)
        return rank

    with running(policy, address, signature) as server:
        runner = server.open()
        for _ in range(3):
            assert runner.evaluate_scalar(x=np.zeros(4, np.float32)) == 1


def test_streams_with_different_signatures_on_one_server(address: str) -> None:
    def policy(observation: Mapping[str, Any], _: mlbridge.CallContext) -> float:
        return sum(float(v.sum()) for v in observation.values())

    with running(policy, address) as server:
        runners = []
        for size in (1, 3, 8):
            inputs = [TensorSpec(f"i{size}_{k}", "float32", [size]) for k in range(size)]
            runners.append(server.open(Signature(inputs, [TensorSpec("y", "float64")])))
        for value in range(4):
            for size, runner in zip((1, 3, 8), runners, strict=True):
                features = {name: np.full(size, value) for name in runner.inputs}
                assert runner.evaluate_scalar(**features) == size * size * value
