# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensor specs and signatures: what is taken, what is refused, how they compare."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlbridge
from mlbridge import Signature, TensorSpec


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        ("float32", "float32"),
        (np.float16, "float16"),
        (np.dtype("int8"), "int8"),
        (float, "float64"),
        (int, "int64"),
        (bool, "bool"),
        (str, "string"),
        ("string", "string"),
        (np.uint64, "uint64"),
    ],
)
def test_element_types(dtype: Any, name: str) -> None:
    spec = TensorSpec("x", dtype, [2])
    assert spec.type == name
    assert spec.dtype == (np.dtype(object) if name == "string" else np.dtype(name))


def test_shapes() -> None:
    assert TensorSpec("x").shape == ()
    assert TensorSpec("x", "float32", 3).shape == (3,)
    nodes = TensorSpec("nodes", "float32", [None, 100], [600, None])
    assert nodes.shape == (-1, 100)
    assert nodes.maximum == (600, 0)
    assert str(nodes) == "nodes: float32[?<=600, 100]"


@pytest.mark.parametrize(
    "arguments", [("", "float32"), ("x", "complex64"), ("x", "nonsense"), ("x", "float32", [-2])]
)
def test_nonsense_is_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises((ValueError, TypeError)):
        TensorSpec(*arguments)


@pytest.mark.parametrize("length", [2**63, -(2**63) - 1, 10**400])
def test_a_length_beyond_64_bits_is_refused(length: int) -> None:
    for shape, maximum in (([1, length], None), (length, None), ([None, None], [1, length])):
        with pytest.raises(
            mlbridge.InvalidArgument, match=r"tensor 'a': (dimension|maximum) [01] "
        ):
            TensorSpec("a", "float32", shape, maximum)


@pytest.mark.parametrize("length", [1.5, 2.0, "3", "\ud800", b"4"])
def test_a_length_is_an_integer(length: Any) -> None:
    with pytest.raises(TypeError, match=r"tensor 'a': dimension 1 is .*, expected an integer"):
        TensorSpec("a", "float32", [1, length])
    with pytest.raises(TypeError, match=r"tensor 'a': maximum 0 is .*, expected an integer"):
        TensorSpec("a", "float32", [None], [length])
    lengths: Any = np.array([2, 3], np.uint8)
    assert TensorSpec("a", "float32", lengths).shape == (2, 3)


def test_an_element_type_that_is_no_text_is_refused() -> None:
    with pytest.raises((ValueError, TypeError)):
        TensorSpec("a", "\ud800")


def test_a_signature_has_no_tensor_of_more_dimensions_than_a_message_states() -> None:
    assert len(Signature([TensorSpec("x", "float32", [1] * 32)], []).inputs[0].shape) == 32
    with pytest.raises(mlbridge.InvalidArgument, match=r"input 0: .*'x'.* at most 32 dimensions"):
        Signature([TensorSpec("x", "float32", [1] * 33)], [])
    with pytest.raises(mlbridge.InvalidArgument, match="at most 32 dimensions"):
        mlbridge.parse_signature(f"() -> (y: float32[{', '.join(['1'] * 33)}])")


def test_signature() -> None:
    signature = Signature([TensorSpec("x", "float32", [4])], [TensorSpec("y", "int64")])
    assert str(signature) == "(x: float32[4]) -> (y: int64)"
    assert signature == Signature([TensorSpec("x", "float32", [4])], [TensorSpec("y", "int64")])
    assert signature != Signature([TensorSpec("x", "float32", [5])], [TensorSpec("y", "int64")])
    assert len({signature, Signature(list(signature.inputs), list(signature.outputs))}) == 1
    assert signature != "something else"
    with pytest.raises(mlbridge.InvalidArgument, match="x"):
        Signature([TensorSpec("x"), TensorSpec("x")], [])


def test_they_equal_nothing_else() -> None:
    spec = TensorSpec("x")
    signature = Signature([spec], [spec])
    for other in (None, 1, "x", str(signature)):
        assert spec != other and signature != other
