# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the files with these models are made with; see make.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Info = onnx.ValueInfoProto
MODELS: dict[str, Callable[[], onnx.ModelProto | bytes]] = {}
HUGE = 1 << 40
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node = helper.make_node


def model(
    function: Callable[[], onnx.ModelProto | bytes],
) -> Callable[[], onnx.ModelProto | bytes]:
    """Register a model under the function's name."""
    MODELS[function.__name__.replace("_", "-")] = function
    return function


def info(name: str, *shape: int | str | None, kind: int = FLOAT) -> Info:
    """An input or output."""
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name: str, values: object, kind: str = "float32") -> onnx.TensorProto:
    """An initializer."""
    return numpy_helper.from_array(np.asarray(values, kind), name)


def build(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Info],
    outputs: Sequence[Info],
    constants: Sequence[onnx.TensorProto] = (),
    opset: int = 18,
) -> onnx.ModelProto:
    """A model of these nodes."""
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(constants))
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def of_one(
    kind: str, *constants: tuple[object, str], shape: Sequence[int] = (2, 3), **options: Any
) -> onnx.ModelProto:
    """A node on x and constants."""
    names = [f"c{i}" for i in range(len(constants))]
    made = [constant(n, v, t) for n, (v, t) in zip(names, constants, strict=True)]
    return build(
        [node(kind, ["x", *names], ["y"], **options)],
        [info("x", *shape)],
        [info("y", *[None] * len(shape))],
        made,
    )


def branch(name: str, kind: str) -> onnx.GraphProto:
    """A graph of one node on x of two elements."""
    return helper.make_graph([node(kind, ["x"], [name])], name, [], [info(name, 2)])
