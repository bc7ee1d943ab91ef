# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A network while it is being made: values with type, shape and range, and the nodes between.

A dimension is a number, or the name of one that changes from call to call.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Array = NDArray[Any]
Dim = int | str
Shape = tuple[Dim, ...]

INFINITY = math.inf
IR_VERSION = {11: 6, 13: 7, 17: 8, 18: 8, 21: 10, 23: 11}
OPSETS = (11, 13, 17, 18, 21, 23)
MICROSOFT, CLASSICAL = "com.microsoft", "ai.onnx.ml"
OTHER_OPSETS = {MICROSOFT: 1, CLASSICAL: 3}
FLOATS = ("float32", "float64")
EXACT = "mlbridge-exact"  # the producer of networks whose arithmetic rounds nothing
INTEGERS = ("int32", "int64")


def tensor_type(dtype: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


@dataclass(frozen=True)
class Value:
    """A tensor of the network, by name. Elements lie between `low` and `high`."""

    name: str
    dtype: str
    shape: Shape
    low: float = -INFINITY
    high: float = INFINITY

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def fixed(self) -> bool:
        return all(isinstance(d, int) for d in self.shape)

    @property
    def ints(self) -> tuple[int, ...]:
        assert self.fixed
        return tuple(int(d) for d in self.shape)

    @property
    def largest(self) -> float:
        return max(abs(self.low), abs(self.high))


@dataclass
class Network:
    """A model to compare, and inputs for it, several sets if its lengths change."""

    seed: int
    model: onnx.ModelProto
    feeds: list[dict[str, Array]]


def broadcast(a: Shape, b: Shape) -> Shape | None:
    """The shape of both together, or None if they don't go together for all lengths."""
    out: list[Dim] = []
    for i in range(1, max(len(a), len(b)) + 1):
        x = a[-i] if i <= len(a) else 1
        y = b[-i] if i <= len(b) else 1
        if x != y and 1 not in (x, y):
            return None
        out.append(y if x == 1 else x)
    return tuple(reversed(out))


class Builder:
    """Makes a network step by step. All that is random comes from the seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.opset = self.random.choice(OPSETS)
        self.float = "float64" if self.random.random() < 0.08 else "float32"
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[Value] = []
        self.values: list[Value] = []
        self.ends: list[Value] = []  # which are compared, but not used
        self.lengths: dict[str, tuple[int, ...]] = {}  # of dimensions that change, for each feed
        self.count = 0

    # Existing values.

    def pick(self, *dtypes: str, rank: int | None = None, least: int = 0) -> Value | None:
        """One of the values so far, rather a late one; none without elements, of which operators
        make different things."""
        found = [
            v
            for v in self.values
            if v.dtype in dtypes and v.rank >= least and rank in (None, v.rank)
            if 0 not in v.shape
        ]
        if not found:
            return None
        late = found[-4:]
        return self.random.choice(late if self.random.random() < 0.7 else found)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # New values.

    def fresh(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def input(
        self,
        dtype: str,
        shape: Shape,
        low: float = -2.0,
        high: float = 2.0,
    ) -> Value:
        value = Value(self.fresh("x"), dtype, shape, low, high)
        self.inputs.append(value)
        self.values.append(value)
        return value

    def array(self, dtype: str, shape: Sequence[int], low: float, high: float) -> Array:
        if dtype == "bool":
            return np.asarray(self.numbers.integers(0, 2, shape), bool)
        if np.dtype(dtype).kind in "iu":
            return np.asarray(self.numbers.integers(int(low), int(high) + 1, shape), dtype)
        return np.asarray(self.numbers.uniform(low, high, shape), dtype)

    def constant(self, value: Any, dtype: str) -> Value:
        """An initializer or a Constant node."""
        array = np.asarray(value, dtype)
        name = self.fresh("c")
        tensor = numpy_helper.from_array(array, name)
        if self.chance(0.2):
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.constants.append(tensor)
        low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
        return Value(name, dtype, array.shape, low, high)

    def weight(self, shape: Sequence[int], scale: float = 1.0, dtype: str = "") -> Value:
        dtype = dtype or self.float
        return self.constant(self.array(dtype, shape, -scale, scale), dtype)

    def node(
        self,
        kind: str,
        inputs: Sequence[Value | str],
        dtype: str,
        shape: Shape,
        low: float = -INFINITY,
        high: float = INFINITY,
        **attributes: Any,
    ) -> Value:
        """A node of one output."""
        [value] = self.many(kind, inputs, [(dtype, shape, low, high)], **attributes)
        return value

    def many(
        self,
        kind: str,
        inputs: Sequence[Value | str],
        outputs: Sequence[tuple[str, Shape, float, float]],
        **attributes: Any,
    ) -> list[Value]:
        made = [Value(self.fresh(), *facts) for facts in outputs]
        names = [i if isinstance(i, str) else i.name for i in inputs]
        while names and not names[-1]:
            names.pop()
        self.nodes.append(helper.make_node(kind, names, [v.name for v in made], **attributes))
        self.values += made
        return made

    def tame(self, value: Value, most: float = 8.0) -> Value:
        """The value, or if it may be large one that isn't: what follows must mean something."""
        if value.largest <= most:
            return value
        if self.chance(0.5) and value.largest < 1e6:
            scale = self.constant(most / value.largest, value.dtype)
            low, high = (x * most / value.largest for x in (value.low, value.high))
            return self.node("Mul", [value, scale], value.dtype, value.shape, low, high)
        return self.node("Tanh", [value], value.dtype, value.shape, -1, 1)

    # The end.

    def finish(self) -> Network:
        used = {name for node in self.nodes for name in names_used(node)}
        ends = [v for v in self.values if v.name not in used and v not in self.inputs]
        ends += self.ends
        extra = [v for v in self.values if v.name in used and v not in self.inputs]
        if extra and self.chance(0.3):
            ends.append(self.random.choice(extra))
        foreign = {name for node in self.nodes if node.domain for name in node.output}
        graph = helper.make_graph(
            self.nodes,
            f"random-{self.seed}",
            [_info(v) for v in self.inputs],
            [_info(v) for v in ends],
            self.constants,
            # Which ONNX doesn't infer for operators of others.
            value_info=[_info(v) for v in self.values if v.name in foreign and v not in ends],
        )
        model = helper.make_model(
            graph,
            opset_imports=[
                helper.make_opsetid(domain, version)
                for domain, version in {"": self.opset, **OTHER_OPSETS}.items()
                if domain in {node.domain for node in self.nodes} | {""}
            ],
            ir_version=IR_VERSION[self.opset],
            producer_name="mlbridge-random-networks",
        )
        rounds = max((len(lengths) for lengths in self.lengths.values()), default=1)
        feeds = [
            {v.name: self.array(v.dtype, self._at(v.shape, i), v.low, v.high) for v in self.inputs}
            for i in range(rounds)
        ]
        return Network(self.seed, model, feeds)

    def _at(self, shape: Shape, feed: int) -> list[int]:
        return [d if isinstance(d, int) else self.lengths[d][feed] for d in shape]


def names_used(node: onnx.NodeProto) -> set[str]:
    """Also in subgraphs, where names from outside are used."""
    names = set(node.input)
    for attribute in node.attribute:
        for graph in [attribute.g, *attribute.graphs]:
            for inner in graph.node:
                names |= names_used(inner)
            names |= {output.name for output in graph.output}
    return names


def _info(value: Value) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(value.name, tensor_type(value.dtype), value.shape)
