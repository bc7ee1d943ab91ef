# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The networks of the benchmark, with examples: what kinds of policies compilers use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]
EXAMPLES = 4
OPSET = 18
QUANTILES = 1000


@dataclass
class Graph:
    """An ONNX graph while it is made; weights come from a fixed seed."""

    seed: int
    nodes: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.numbers = np.random.default_rng(self.seed)

    def input(self, name: str, shape: list[int], kind: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def constant(self, value: Any, dtype: str) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def weight(self, *shape: int) -> str:
        scale = 1 / np.sqrt(shape[0] if len(shape) == 1 else shape[-2])
        return self.constant(self.numbers.uniform(-scale, scale, shape), "float32")

    def node(self, kind: str, *inputs: str, outputs: int = 1, **options: Any) -> Any:
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **options))
        return names[0] if outputs == 1 else names

    def dense(self, x: str, before: int, after: int, activation: str = "") -> str:
        # As PyTorch exports it.
        scale = 1 / np.sqrt(before)
        rows = self.constant(self.numbers.uniform(-scale, scale, (after, before)), "float32")
        y: str = self.node("Gemm", x, rows, self.weight(after), transB=1)
        return self.node(activation, y) if activation else y

    def finish(self, output: str, shape: list[int]) -> onnx.ModelProto:
        self.nodes.append(helper.make_node("Identity", [output], ["y"]))
        out = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "policy", self.inputs, [out], self.weights)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        onnx.checker.check_model(model)
        return model


def perceptron(*widths: int) -> onnx.ModelProto:
    """Fully connected layers with Relu between them."""
    graph = Graph(sum(widths))
    x = graph.input("x", [1, widths[0]])
    for i in range(1, len(widths)):
        last = i == len(widths) - 1
        x = graph.dense(x, widths[i - 1], widths[i], "" if last else "Relu")
    return graph.finish(x, [1, widths[-1]])


def lstm() -> onnx.ModelProto:
    """50 steps of 100 features; the last state of 64."""
    graph = Graph(3)
    x = graph.input("x", [50, 1, 100])
    weights = (graph.weight(1, 256, 100), graph.weight(1, 256, 64), graph.weight(1, 512))
    _, state, _ = graph.node("LSTM", x, *weights, outputs=3, hidden_size=64)
    return graph.finish(state, [1, 1, 64])


def ggnn() -> onnx.ModelProto:
    """A gated graph network: 60 nodes, 180 edges, 100 features, 5 steps, 15 actions."""
    nodes, edges, width, steps = 60, 180, 100, 5
    graph = Graph(5)
    h = graph.input("nodes", [nodes, width])
    source = graph.input("source", [edges], TensorProto.INT64)
    target = graph.input("target", [edges], TensorProto.INT64)
    message, into, back = (graph.weight(width, w) for w in (width, 3 * width, 3 * width))
    bias = graph.weight(3 * width)
    zeros = graph.constant(np.zeros((nodes, width)), "float32")
    one = graph.constant(1, "float32")
    axis, first = graph.constant([1], "int64"), graph.constant([0], "int64")
    column = graph.node("Unsqueeze", target, axis)
    for _ in range(steps):
        sent = graph.node("Gather", graph.node("MatMul", h, message), source, axis=0)
        heard = graph.node("ScatterND", zeros, column, sent, reduction="add")
        a = graph.node("Add", graph.node("MatMul", heard, into), bias)
        b = graph.node("MatMul", h, back)
        a_reset, a_update, a_new = graph.node("Split", a, outputs=3, axis=1, num_outputs=3)
        b_reset, b_update, b_new = graph.node("Split", b, outputs=3, axis=1, num_outputs=3)
        reset = graph.node("Sigmoid", graph.node("Add", a_reset, b_reset))
        update = graph.node("Sigmoid", graph.node("Add", a_update, b_update))
        new = graph.node("Tanh", graph.node("Add", a_new, graph.node("Mul", reset, b_new)))
        kept = graph.node("Mul", update, h)
        taken = graph.node("Mul", graph.node("Sub", one, update), new)
        h = graph.node("Add", kept, taken)
    summed = graph.node("ReduceSum", h, first, keepdims=1)
    return graph.finish(graph.dense(summed, width, 15), [1, 15])


# In the order of their names, which TensorFlow's signatures have.
FEATURES = (
    "callee_basic_block_count", "callee_conditionally_executed_blocks", "callee_users",
    "caller_basic_block_count", "caller_conditionally_executed_blocks", "caller_users",
    "callsite_height", "cost_estimate", "edge_count", "node_count", "nr_ctant_params",
)  # fmt: skip


def inliner() -> onnx.ModelProto:
    """MLGO's inliner: quantiles of each feature, x and x², 40-40-20 with Relu, two logits."""
    graph = Graph(7)
    inputs = [graph.input(name, [1], TensorProto.INT64) for name in FEATURES]
    bounds = np.sort(graph.numbers.exponential(200, (len(FEATURES), QUANTILES)), axis=1)
    axis = graph.constant([1], "int64")
    raw = graph.node("Cast", graph.node("Concat", *inputs, axis=0), to=TensorProto.FLOAT)
    above = graph.node(
        "GreaterOrEqual", graph.node("Unsqueeze", raw, axis), graph.constant(bounds, "float32")
    )
    count = graph.node(
        "ReduceSum", graph.node("Cast", above, to=TensorProto.FLOAT), axis, keepdims=0
    )
    x = graph.node("Div", count, graph.constant(QUANTILES, "float32"))
    row = graph.constant([1, -1], "int64")
    both = graph.node("Concat", x, graph.node("Mul", x, x), axis=0)
    h = graph.node("Reshape", both, row)
    for before, after in ((2 * len(FEATURES), 40), (40, 40), (40, 20)):
        h = graph.dense(h, before, after, "Relu")
    return graph.finish(graph.dense(h, 20, 2), [1, 2])


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "16-8-2": lambda: perceptron(16, 8, 2),
    "100-64-64-2": lambda: perceptron(100, 64, 64, 2),
    "300-256-128-15": lambda: perceptron(300, 256, 128, 15),
    "50000-1": lambda: perceptron(50000, 1),
    "50000-64-15": lambda: perceptron(50000, 64, 15),
    "lstm": lstm,
    "ggnn": ggnn,
    "inliner": inliner,
}


def _example(model: onnx.ModelProto, numbers: np.random.Generator) -> dict[str, Array]:
    feed: dict[str, Array] = {}
    for info in model.graph.input:
        kind = info.type.tensor_type
        shape = [d.dim_value for d in kind.shape.dim]
        if kind.elem_type == TensorProto.FLOAT:
            feed[info.name] = numbers.uniform(-1, 1, shape).astype("float32")
        else:
            most = 60 if info.name in ("source", "target") else 500
            feed[info.name] = numbers.integers(0, most, shape)
    return feed


def write(name: str, folder: Path) -> tuple[Path, Path, int]:
    """The model, its examples, and the bytes of its weights.

    Examples are inputs in order, then what ONNX Runtime answers, as raw bytes, EXAMPLES times.
    """
    import onnxruntime

    model = NETWORKS[name]()
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    numbers = np.random.default_rng(11)
    data = b""
    for _ in range(EXAMPLES):
        feed = _example(model, numbers)
        [output] = session.run(None, feed)
        data += b"".join(value.tobytes() for value in feed.values()) + output.tobytes()
    examples = folder / f"{name}.examples"
    examples.write_bytes(data)
    weights = sum(len(t.SerializeToString()) for t in model.graph.initializer)
    return path, examples, weights
