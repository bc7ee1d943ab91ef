# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small networks that answer the allocator's questions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH = 33


def save(path: Path, nodes: list[Any], inputs: Mapping[str, int], advice: tuple[str, int]) -> str:
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "policy",
        [
            tensor(name, kind, [1] if name == "eviction_default" else [1, WIDTH])
            for name, kind in inputs.items()
        ],
        [tensor(advice[0], advice[1], [1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, str(path))
    return str(path)


def constant(name: str, value: Any) -> Any:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))


def least_used(path: Path) -> str:
    """Evicts what has the fewest definitions and uses; knows two of the features."""
    nodes = [
        constant("one", np.array(1, np.int64)),
        constant("infinity", np.array(np.inf, np.float32)),
        helper.make_node("Equal", ["mask", "one"], ["free"]),
        helper.make_node("Where", ["free", "nr_defs_and_uses", "infinity"], ["uses"]),
        helper.make_node("ArgMin", ["uses"], ["index_to_evict"], axis=1, keepdims=0),
    ]
    inputs = {"mask": TensorProto.INT64, "nr_defs_and_uses": TensorProto.FLOAT}
    return save(path, nodes, inputs, ("index_to_evict", TensorProto.INT64))


def stock(path: Path) -> str:
    """What LLVM's heuristic would evict, if that is allowed, or else the first that is."""
    nodes = [
        constant("positions", np.arange(WIDTH)[None]),
        helper.make_node("Equal", ["positions", "eviction_default"], ["chosen"]),
        helper.make_node("Cast", ["chosen"], ["weight"], to=TensorProto.INT64),
        constant("two", np.array(2, np.int64)),
        helper.make_node("Mul", ["weight", "two"], ["more"]),
        helper.make_node("Add", ["more", "mask"], ["score"]),
        helper.make_node("Mul", ["score", "mask"], ["allowed"]),
        helper.make_node("ArgMax", ["allowed"], ["index_to_evict"], axis=1, keepdims=0),
    ]
    inputs = {"mask": TensorProto.INT64, "eviction_default": TensorProto.INT64}
    return save(path, nodes, inputs, ("index_to_evict", TensorProto.INT64))


def always(path: Path, index: int, feature: str = "mask", answer: str = "index_to_evict") -> str:
    nodes = [
        constant("index", np.array([index], np.int64)),
        constant("zero", np.array(0, np.int64)),
        helper.make_node("Mul", [feature, "zero"], ["nothing"]),
        helper.make_node("ReduceSum", ["nothing"], ["none"], keepdims=0),
        helper.make_node("Add", ["index", "none"], [answer]),
    ]
    return save(path, nodes, {feature: TensorProto.INT64}, (answer, TensorProto.INT64))
