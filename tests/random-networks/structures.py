# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Larger pieces: layers, recurrent networks, message passing on graphs, branches and loops."""

from __future__ import annotations

import math
from typing import Any

from elementwise import ACTIVATIONS, activation, reduce, softmax
from network import FLOATS, Builder, Shape, Value, tensor_type
from onnx import helper


def linear(net: Builder, x: Value, width: int) -> Value:
    """x [..., n] to [..., width], as exporters of different frameworks write it."""
    n = int(x.shape[-1])
    x = net.tame(x)
    scale = 1.5 / math.sqrt(max(n, 1))
    most = n * scale * x.largest + 2
    shape: Shape = (*x.shape[:-1], width)
    if x.rank == 2 and net.chance(0.6):
        transposed = net.random.randint(0, 1)
        weight = net.weight((width, n) if transposed else (n, width), scale, x.dtype)
        inputs = [x, weight]
        if net.chance(0.8):
            dims: list[tuple[int, ...]] = [(width,), (1, width), (1,), ()]
            inputs.append(net.weight(net.random.choice(dims), 1.0, x.dtype))
        options: dict[str, Any] = {"transB": transposed}
        if net.chance(0.2):
            options |= {"alpha": 0.5, "beta": 2.0}
        return net.node("Gemm", inputs, x.dtype, shape, -most, most, **options)
    weight = net.weight((n, width), scale, x.dtype)
    product = net.node("MatMul", [x, weight], x.dtype, shape, -most, most)
    if net.chance(0.2):
        return product
    bias = net.weight((width,), 1.0, x.dtype)
    operands = [product, bias] if net.chance(0.7) else [bias, product]
    return net.node("Add", operands, x.dtype, shape, -most, most)


def layers(net: Builder) -> bool:
    x = net.pick(net.float, least=1)
    if x is None or not isinstance(x.shape[-1], int) or x.shape[-1] == 0:
        return False
    for _ in range(net.random.randint(1, 3)):
        width = net.random.choice((1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 40, 64, 65))
        x = linear(net, x, width)
        if net.chance(0.8):
            kinds = ACTIVATIONS if x.dtype == "float32" else ("Relu", "Tanh", "Sigmoid", "Elu")
            x = activation(net, x, *kinds)
    if net.chance(0.3):
        softmax(net)
    return True


def product(net: Builder) -> bool:
    """MatMul of two values, with leading dimensions or vectors."""
    a = net.pick(*FLOATS, least=1)
    if a is None or not isinstance(a.shape[-1], int):
        return False
    n = a.shape[-1]
    a = net.tame(a)
    others = [
        v
        for v in net.values
        if v.dtype == a.dtype and v.rank in (1, 2) and v.shape[-2 if v.rank == 2 else -1] == n
    ]
    if others and net.chance(0.6):
        b = net.tame(net.random.choice(others))
    elif net.chance(0.3):
        b = net.weight((n,), 1.0, a.dtype)
    elif a.rank > 2 and a.fixed and net.chance(0.6):
        b = net.weight((*a.ints[:-2], n, 3), 1.0, a.dtype)
        shape: Shape = (*a.shape[:-1], 3)
        net.node("MatMul", [a, b], a.dtype, shape, -n * a.largest, n * a.largest)
        return True
    else:
        b = net.weight((n, net.random.randint(1, 9)), 1.0, a.dtype)
    left = a.shape[:-1]
    right: Shape = () if b.rank == 1 else b.shape[-1:]
    most = n * a.largest * b.largest
    net.node("MatMul", [a, b], a.dtype, (*left, *right), -most, most)
    return True


_OTHER_FUNCTIONS = {
    "LSTM": ["HardSigmoid", "Tanh", "Tanh"],
    "GRU": ["Sigmoid", "Softsign"],
    "RNN": ["Relu"],
}


def recurrent(net: Builder) -> bool:
    x = net.pick("float32", rank=3)
    if x is None or not isinstance(x.shape[2], int):
        x = net.pick("float32", rank=2)
        if x is None or not isinstance(x.shape[1], int):
            return False
        axes = [1] if net.chance(0.5) else [0]
        shape: Shape = (*x.shape[: axes[0]], 1, *x.shape[axes[0] :])
        if net.opset >= 13:
            where = net.constant(axes, "int64")
            x = net.node("Unsqueeze", [x, where], x.dtype, shape, x.low, x.high)
        else:
            x = net.node("Unsqueeze", [x], x.dtype, shape, x.low, x.high, axes=axes)
    x = net.tame(x, 4.0)
    steps, batch, width = x.shape
    assert isinstance(width, int)
    if 0 in x.shape:
        return False  # ends the process in ONNX Runtime
    kind = net.random.choice(("LSTM", "GRU", "RNN"))
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    direction = net.random.choice(("forward", "forward", "reverse", "bidirectional"))
    d = 2 if direction == "bidirectional" else 1
    h = net.random.choice((1, 3, 4, 8, 16, 17))
    inputs: list[Value | str] = [
        x,
        net.weight((d, gates * h, width), 0.5, "float32"),
        net.weight((d, gates * h, h), 0.5, "float32"),
        net.weight((d, 2 * gates * h), 0.5, "float32") if net.chance(0.8) else "",
    ]
    options: dict[str, Any] = {"hidden_size": h, "direction": direction}
    lengths: Value | str = ""
    if isinstance(steps, int) and isinstance(batch, int) and net.chance(0.3):
        counts = net.array("int32", (batch,), 1, steps)
        lengths = net.constant(counts, "int32")
    inputs.append(lengths)
    states = 2 if kind == "LSTM" else 1
    for _ in range(states):
        given = isinstance(batch, int) and net.chance(0.5)
        inputs.append(net.weight((d, batch, h), 0.5, "float32") if given else "")  # type: ignore[arg-type]
    if kind == "LSTM" and net.chance(0.2):
        inputs.append(net.weight((d, 3 * h), 0.5, "float32"))
    if kind == "GRU":
        options["linear_before_reset"] = net.random.randint(0, 1)
    if net.chance(0.2):
        options["activations"] = _OTHER_FUNCTIONS[kind] * d
    if net.chance(0.15):
        options["clip"] = 1.5
    outputs: list[tuple[str, Shape, float, float]] = [
        ("float32", (steps, d, batch, h), -20, 20),
        ("float32", (d, batch, h), -20, 20),
    ]
    if kind == "LSTM":
        outputs.append(("float32", (d, batch, h), -50, 50))
    net.many(kind, inputs, outputs, **options)
    return True


def graph(net: Builder) -> bool:
    """Messages along edges: gather, transform, add up at the other end, update."""
    features = net.random.choice((3, 4, 8, 16, 20))
    nodes: int | str = net.random.randint(2, 9)
    edges: int | str = net.random.randint(1, 12)
    if net.lengths and net.chance(0.7):
        edges = net.random.choice(list(net.lengths))
    x = net.input("float32", (nodes, features), -1, 1)
    assert isinstance(nodes, int)
    source, target = (net.input("int64", (edges,), 0, nodes - 1) for _ in range(2))
    for _ in range(net.random.randint(1, 2)):
        sent = net.node("Gather", [x, source], "float32", (edges, features), x.low, x.high, axis=0)
        if net.chance(0.7):
            sent = activation(net, linear(net, sent, features), "Relu", "Tanh", "LeakyRelu")
        sent = net.tame(sent, 4.0)
        base = net.node("Mul", [x, net.constant(0.0, "float32")], "float32", x.shape, 0, 0)
        if net.opset >= 16 and net.chance(0.6):
            column = _column(net, target, edges)
            how = net.random.choice(("add", "add", "max") if net.opset >= 18 else ("add",))
            gathered = net.node(
                "ScatterND", [base, column, sent], "float32", x.shape, -40, 40, reduction=how
            )
        elif net.opset >= 16:
            column = _column(net, target, edges)
            wide = net.node(
                "Expand",
                [column, net.constant([1, features], "int64")],
                "int64",
                (edges, features),
                0,
                nodes - 1,
            )
            options = {"axis": 0, "reduction": "add"}
            operands = [base, wide, sent]
            gathered = net.node("ScatterElements", operands, "float32", x.shape, -40, 40, **options)
        else:
            first = net.constant([0] * nodes, "int64")
            gathered = net.node("Gather", [sent, first], "float32", x.shape, -4, 4, axis=0)
        both = net.node("Concat", [x, gathered], "float32", (nodes, 2 * features), -40, 40, axis=1)
        x = activation(net, linear(net, both, features), "Tanh", "Relu", "Sigmoid")
    if net.chance(0.5):
        reduce(net)
    return True


def _column(net: Builder, index: Value, edges: int | str) -> Value:
    if net.opset >= 13:
        axes = [net.constant([1], "int64")]
        return net.node("Unsqueeze", [index, *axes], "int64", (edges, 1), index.low, index.high)
    return net.node("Unsqueeze", [index], "int64", (edges, 1), index.low, index.high, axes=[1])


def _tensor(value: Value) -> Any:
    return helper.make_tensor_value_info(value.name, tensor_type(value.dtype), value.shape)


def _inner(net: Builder, x: Value, *, depth: int) -> tuple[list[Any], Value]:
    """Nodes of a subgraph from x to something of its type and shape."""
    outer_nodes, outer_values = net.nodes, net.values
    net.nodes, net.values = [], [x]
    y = x
    for _ in range(net.random.randint(1, 3)):
        which = net.random.randrange(4)
        if which == 0:
            y = net.node("Mul", [y, net.weight((), 1.0, x.dtype)], x.dtype, x.shape, *_sym(y))
        elif which == 1:
            y = net.node("Tanh", [y], x.dtype, x.shape, -1, 1)
        elif which == 2:
            y = net.node("Add", [y, x], x.dtype, x.shape, *_sym(y, x.largest))
        else:
            y = net.node("Relu", [y], x.dtype, x.shape, 0, max(y.high, 0))
    if depth and net.chance(0.2):
        y = _branch(net, y, depth - 1)
    nodes = net.nodes
    net.nodes, net.values = outer_nodes, outer_values
    return nodes, y


def _sym(y: Value, more: float = 0.0) -> tuple[float, float]:
    return -(y.largest + more), y.largest + more


def _branch(net: Builder, x: Value, depth: int) -> Value:
    total = net.node("ReduceSum", [x], x.dtype, (), -math.inf, math.inf, keepdims=0)
    zero = net.constant(0.0, x.dtype)
    condition = net.node("Greater", [total, zero], "bool", ())
    net.values = [v for v in net.values if v != total]
    graphs = {}
    most = 0.0
    for name in ("then_branch", "else_branch"):
        nodes, y = _inner(net, x, depth=depth)
        most = max(most, y.largest)
        graphs[name] = helper.make_graph(nodes, name, [], [_tensor(y)])
    return net.node("If", [condition], x.dtype, x.shape, -most, most, **graphs)


def branch(net: Builder) -> bool:
    x = net.pick(*FLOATS)
    if x is None:
        return False
    _branch(net, net.tame(x), 1)
    return True


def loop(net: Builder) -> bool:
    x = net.pick(*FLOATS)
    if x is None or not x.fixed:
        return False
    x = net.tame(x)
    times = net.random.randint(0, 4)
    state = Value(net.fresh("s"), x.dtype, x.shape, -8, 8)
    nodes, y = _inner(net, state, depth=0)
    names = [net.fresh("s") for _ in range(5)]
    iteration, going, still, held, seen = names
    nodes.append(helper.make_node("Tanh", [y.name], [held]))
    nodes.append(helper.make_node("Identity", [going], [still]))
    nodes.append(helper.make_node("Identity", [held], [seen]))
    body = helper.make_graph(
        nodes,
        "body",
        [
            helper.make_tensor_value_info(iteration, tensor_type("int64"), []),
            helper.make_tensor_value_info(going, tensor_type("bool"), []),
            _tensor(state),
        ],
        [
            helper.make_tensor_value_info(still, tensor_type("bool"), []),
            helper.make_tensor_value_info(held, tensor_type(x.dtype), x.shape),
            helper.make_tensor_value_info(seen, tensor_type(x.dtype), x.shape),
        ],
    )
    count = net.constant(times, "int64")
    yes: Value | str = net.constant(True, "bool") if net.chance(0.5) else ""
    most = max(1.0, x.largest)
    net.many(
        "Loop",
        [count, yes, x],
        [(x.dtype, x.shape, -most, most), (x.dtype, (times, *x.shape), -1, 1)],
        body=body,
    )
    return True


def scan(net: Builder) -> bool:
    x = net.pick(*FLOATS, rank=2)
    if x is None or not x.fixed or 0 in x.shape:
        return False
    x = net.tame(x)
    steps, width = x.ints
    start = net.weight((width,), 1.0, x.dtype)
    state, row, held, seen = (net.fresh("s") for _ in range(4))
    total = net.fresh("s")
    kind = tensor_type(x.dtype)
    body = helper.make_graph(
        [
            helper.make_node("Add", [state, row], [total]),
            helper.make_node("Tanh", [total], [held]),
            helper.make_node("Mul", [held, row], [seen]),
        ],
        "body",
        [helper.make_tensor_value_info(n, kind, [width]) for n in (state, row)],
        [helper.make_tensor_value_info(n, kind, [width]) for n in (held, seen)],
    )
    options = {"scan_input_directions": [1]} if net.chance(0.3) else {}
    net.many(
        "Scan",
        [start, x],
        [(x.dtype, (width,), -1, 1), (x.dtype, (steps, width), -x.largest, x.largest)],
        body=body,
        num_scan_inputs=1,
        **options,
    )
    return True
