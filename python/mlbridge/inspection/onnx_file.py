# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an .onnx file says, read from its bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .report import Report
from .wire import Field, fields, integers, signed, text

# TensorProto.DataType: name in a signature, bytes of an element
TYPES = {
    1: ("float32", 4),
    2: ("uint8", 1),
    3: ("int8", 1),
    4: ("uint16", 2),
    5: ("int16", 2),
    6: ("int32", 4),
    7: ("int64", 8),
    8: ("string", 0),
    9: ("bool", 1),
    10: ("float16", 2),
    11: ("float64", 8),
    12: ("uint32", 4),
    13: ("uint64", 8),
    16: ("bfloat16", 2),
}
DEEPEST = 64
UNKNOWN = -1

Shape = list[int]


@dataclass
class Node:
    """A node with what is needed to count its work."""

    operator: str = ""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    integers: dict[str, int] = field(default_factory=dict)
    tensors: list[bytes] = field(default_factory=list)
    graphs: list[bytes] = field(default_factory=list)


def shown(name: str, kind: int, shape: Shape | None) -> str:
    """A tensor as in a signature."""
    element = TYPES.get(kind, (f"type {kind}", 0))[0]
    if shape is None:
        return f"{name}: {element}[...]"
    lengths = ", ".join("?" if length < 0 else str(length) for length in shape)
    return f"{name}: {element}" + (f"[{lengths}]" if shape else "")


def value_info(payload: bytes) -> tuple[str, int, Shape | None, bool]:
    """Name, element type, shape, and whether it is a tensor."""
    name, kind, shape, tensor = "", 0, None, False
    for f in fields(payload):
        if f.number == 1:
            name = text(f.payload)
        for t in fields(f.payload) if f.number == 2 else ():
            tensor |= t.number == 1
            for e in fields(t.payload) if t.number == 1 else ():
                if e.number == 1:
                    kind = e.value
                elif e.number == 2:
                    shape = [dimension(d.payload) for d in fields(e.payload) if d.number == 1]
    return name, kind, shape, tensor


def dimension(payload: bytes) -> int:
    """Its length, or UNKNOWN."""
    return next((signed(f.value) for f in fields(payload) if f.number == 1), UNKNOWN)


class Tensor:
    """An initializer, without its elements."""

    def __init__(self, payload: bytes) -> None:
        self.shape: Shape = []
        self.kind = 0
        self.name = ""
        self.file: str | None = None
        for f in fields(payload):
            if f.number == 1:
                self.shape += integers(f)
            elif f.number == 2:
                self.kind = f.value
            elif f.number == 8:
                self.name = text(f.payload)
            elif f.number == 13:
                entry = {e.number: text(e.payload) for e in fields(f.payload)}
                if entry.get(1) == "location":
                    self.file = entry.get(2, "")

    @property
    def count(self) -> int:
        return math.prod(max(length, 0) for length in self.shape)


def read_node(payload: bytes) -> Node:
    """A NodeProto."""
    node, domain = Node(), ""
    for f in fields(payload):
        if f.number == 1:
            node.inputs.append(text(f.payload))
        elif f.number == 2:
            node.outputs.append(text(f.payload))
        elif f.number == 4:
            node.operator = text(f.payload)
        elif f.number == 5:
            read_attribute(f, node)
        elif f.number == 7:
            domain = text(f.payload)
    if domain not in ("", "ai.onnx"):
        node.operator = f"{domain}::{node.operator}"
    return node


def read_attribute(attribute: Field, node: Node) -> None:
    name, number = "", None
    for f in fields(attribute.payload):
        if f.number == 1:
            name = text(f.payload)
        elif f.number == 3:
            number = signed(f.value)
        elif f.number in (5, 10):
            node.tensors.append(f.payload)
        elif f.number in (6, 11):
            node.graphs.append(f.payload)
    if number is not None:
        node.integers[name] = number


class Reader:
    """Collects what a graph and those inside it have."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.inputs: list[str] = []
        self.outputs: list[str] = []

    def graph(self, payload: bytes, outer: Mapping[str, Shape | None], depth: int = 0) -> None:
        shapes: dict[str, Shape | None] = dict(outer)
        nodes: list[Node] = []
        constants: set[str] = set()
        listed: dict[int, list[tuple[str, int, Shape | None, bool]]] = {11: [], 12: [], 13: []}
        for f in fields(payload):
            if f.number == 1:
                nodes.append(read_node(f.payload))
            elif f.number == 5:
                tensor = Tensor(f.payload)
                constants.add(tensor.name)
                shapes[tensor.name] = tensor.shape
                self.parameters(tensor)
            elif f.number in listed:
                listed[f.number].append(value_info(f.payload))
        for infos in listed.values():
            for name, _, shape, _ in infos:
                if shape is not None:
                    shapes[name] = shape
        if depth == 0:
            self.inputs = [shown(n, k, s) for n, k, s, _ in listed[11] if n not in constants]
            self.outputs = [shown(n, k, s) for n, k, s, _ in listed[12]]
        for node in nodes:
            self.node(node, shapes, depth)

    def parameters(self, tensor: Tensor) -> None:
        report = self.report
        report.parameters = (report.parameters or 0) + tensor.count
        size = TYPES.get(tensor.kind, ("", 0))[1]
        report.parameter_bytes = (report.parameter_bytes or 0) + tensor.count * size
        if tensor.file is not None and tensor.file not in report.external_files:
            report.external_files.append(tensor.file)

    def node(self, node: Node, shapes: dict[str, Shape | None], depth: int) -> None:
        self.report.operators[node.operator] += 1
        for payload in node.tensors:
            tensor = Tensor(payload)
            self.parameters(tensor)
            if node.operator == "Constant" and node.outputs:
                shapes[node.outputs[0]] = tensor.shape
        for payload in node.graphs if depth < DEEPEST else ():
            self.graph(payload, shapes, depth + 1)
        inputs = [shapes.get(name) for name in node.inputs]
        count = WORK.get(node.operator)
        if count is not None:
            work = count(node, inputs)
            self.report.multiply_adds = (self.report.multiply_adds or 0) + (work or 0)
            self.report.multiply_adds_exact &= work is not None
        follow(node, inputs, shapes)


def size(shape: Shape) -> int:
    """The number of elements, where a length that changes counts as 1."""
    return math.prod(1 if length < 0 else length for length in shape)


Inputs = list[Shape | None]


def gemm(node: Node, inputs: Inputs) -> int | None:
    a, b = (*inputs, None, None)[:2]
    if b is None:
        return None
    rows = a[-1 if node.integers.get("transA") else 0] if a and len(a) == 2 else 1
    return max(rows, 1) * size(b)


def matmul(node: Node, inputs: Inputs) -> int | None:
    a, b = (*inputs, None, None)[:2]
    if a and b:
        batch = max(size(a[:-2]), size(b[:-2]))
        rows = size(a[-2:-1])
        return batch * rows * size(a[-1:]) * (size(b[-1:]) if len(b) > 1 else 1)
    return None


def uncounted(node: Node, inputs: Inputs) -> int | None:
    return None


def recurrent(node: Node, inputs: Inputs) -> int | None:
    x, w, r = (*inputs, None, None, None)[:3]
    if not x or not w or not r:
        return None
    return size(x[:2]) * (size(w) + size(r))


WORK: dict[str, Callable[[Node, Inputs], int | None]] = {
    "Gemm": gemm,
    "MatMul": matmul,
    "Conv": uncounted,
    "ConvTranspose": uncounted,
    "Einsum": uncounted,
    "LSTM": recurrent,
    "GRU": recurrent,
    "RNN": recurrent,
}
SAME = frozenset(
    "Relu Tanh Sigmoid Elu LeakyRelu Selu Gelu Softplus Softsign Exp Log Sqrt Abs Neg Identity "
    "Softmax LogSoftmax Dropout Clip LayerNormalization BatchNormalization Erf Cast Not".split()
)
BROADCAST = frozenset("Add Sub Mul Div Pow Min Max Where And Or".split())


def follow(node: Node, inputs: Inputs, shapes: dict[str, Shape | None]) -> None:
    """The shape of the first output of the operators between matrix products; those that the file
    states stay."""
    if not node.outputs or shapes.get(node.outputs[0]) is not None:
        return
    shape: Shape | None = None
    if node.operator in SAME and inputs:
        shape = inputs[0]
    elif node.operator in BROADCAST and inputs and all(s is not None for s in inputs):
        rank = max(len(s or []) for s in inputs)
        padded = [[1] * (rank - len(s or [])) + (s or []) for s in inputs]
        shape = [
            UNKNOWN if any(n < 0 for n in lengths) else max(lengths)
            for lengths in zip(*padded, strict=True)
        ]
    elif node.operator == "Gemm" and len(inputs) > 1 and inputs[0] and inputs[1]:
        a, b = inputs[0], inputs[1]
        shape = [
            a[-1 if node.integers.get("transA") else 0],
            b[0 if node.integers.get("transB") else -1],
        ]
    elif node.operator == "MatMul" and len(inputs) > 1 and inputs[0] and inputs[1]:
        a, b = inputs[0], inputs[1]
        if len(a) > 1 and len(b) > 1:
            shape = [*(a if len(a) >= len(b) else b)[:-2], a[-2], b[-1]]
    elif node.operator == "Flatten" and inputs and inputs[0]:
        axis = node.integers.get("axis", 1)
        shape = [size(inputs[0][:axis]), size(inputs[0][axis:])]
    if shape is not None:
        shapes[node.outputs[0]] = shape


def read_onnx(data: bytes, report: Report) -> None:
    """Fills in what a ModelProto says. Errors: InvalidModel."""
    report.format = "ONNX"
    report.parameters = report.parameter_bytes = 0
    reader = Reader(report)
    graph = b""
    for f in fields(data):
        if f.number == 7:
            graph = f.payload
        elif f.number in (2, 6):
            key = "onnx.producer" if f.number == 2 else "onnx.description"
            if f.payload:
                report.metadata[key] = text(f.payload)
        elif f.number == 8:
            domain, version = "", 0
            for e in fields(f.payload):
                if e.number == 1:
                    domain = text(e.payload)
                elif e.number == 2:
                    version = e.value
            report.opsets[domain or "ai.onnx"] = version
        elif f.number == 14:
            entry = {e.number: text(e.payload) for e in fields(f.payload)}
            report.metadata[entry.get(1, "")] = entry.get(2, "")
    reader.graph(graph, {})
    report.signature = f"({', '.join(reader.inputs)}) -> ({', '.join(reader.outputs)})"
