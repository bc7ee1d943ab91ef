# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Networks of branches and loops whose graphs give out whatever they can see: their own inputs,
values from outside, the number of the round, the same value twice, values exchanged for each other.

All arithmetic is exact, so answers must be ONNX Runtime's to the bit.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from network import EXACT, IR_VERSION, Array, Network, tensor_type
from onnx import helper, numpy_helper

OPSET = 17
DEEPEST = 3
FEEDS = 3
ROUNDS = 4
TOGETHER = 10


@dataclass(frozen=True)
class Kind:
    dtype: str
    shape: tuple[int, ...] = ()

    def info(self, name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, tensor_type(self.dtype), self.shape)


FLAG, NUMBER = Kind("bool"), Kind("int64")
ROW, TABLE, NUMBERS = Kind("float32", (3,)), Kind("float32", (2, 3)), Kind("int64", (2,))
KINDS = (FLAG, FLAG, NUMBER, NUMBER, ROW, ROW, TABLE, NUMBERS)


@dataclass(frozen=True)
class Value:
    name: str
    kind: Kind


class Maker:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.count = 0
        self.depth = 0
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.visible: list[Value] = []

    def name(self) -> str:
        self.count += 1
        return f"n{self.seed}_{self.count}"

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def constant(self, array: Any, dtype: str) -> str:
        name = self.name()
        tensor = numpy_helper.from_array(np.asarray(array, dtype), name)
        if self.chance(0.2):
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.constants.append(tensor)
        return name

    def example(self, kind: Kind) -> Array:
        """Elements of a kind, small."""
        numbers = np.random.default_rng(self.random.getrandbits(32))
        low, high = (0, 1) if kind.dtype == "bool" else (-3, 5)
        return np.asarray(numbers.integers(low, high + 1, kind.shape), kind.dtype)

    def pick(self, kind: Kind, among: list[Value] | None = None) -> str:
        """Any value that can be seen here, rather a near one."""
        found = [v for v in (among or self.visible) if v.kind == kind]
        if not found:
            return self.constant(self.example(kind), kind.dtype)
        return self.random.choice(found[-6:] if self.chance(0.7) else found).name

    def node(self, op: str, inputs: list[str], kinds: list[Kind], **attributes: Any) -> list[str]:
        names = [self.name() for _ in kinds]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        self.visible += [Value(n, k) for n, k in zip(names, kinds, strict=True)]
        return names

    # ---- nodes without graphs --------------------------------------------------------------------

    def arithmetic(self) -> None:
        kind = self.random.choice(KINDS)
        a, b = self.pick(kind), self.pick(kind)
        if kind == FLAG:
            op = self.random.choice(("Not", "And", "Or", "Xor", "Less", "Identity"))
            if op == "Less":
                a, b = self.pick(NUMBER), self.constant(self.random.randint(-1, 4), "int64")
            self.node(op, [a] if op in ("Not", "Identity") else [a, b], [kind])
            return
        unary = ("Identity", "Neg", "Abs", *(("Relu",) if kind.dtype == "float32" else ()))
        op = self.random.choice((*unary, "Add", "Sub", "Max", "Min", "Where"))
        if op == "Where":
            self.node(op, [self.pick(FLAG), a, b], [kind])
        else:
            self.node(op, [a] if op in unary else [a, b], [kind])

    def part(self) -> None:
        """The same bytes by another name: a row of a table, an element, another shape."""
        which = self.random.randrange(4)
        if which == 0:
            index = self.constant(self.random.randrange(2), "int64")
            self.node("Gather", [self.pick(TABLE), index], [ROW])
        elif which == 1:
            index = self.constant(self.random.randrange(2), "int64")
            self.node("Gather", [self.pick(NUMBERS), index], [NUMBER])
        elif which == 2:
            rows = [self.pick(ROW), self.pick(ROW)]
            [both] = self.node("Concat", rows, [Kind("float32", (6,))], axis=0)
            self.node("Reshape", [both, self.constant([2, 3], "int64")], [TABLE])
        else:
            self.node("Cast", [self.pick(FLAG)], [NUMBER], to=tensor_type("int64"))

    # ---- nodes with graphs -----------------------------------------------------------------------

    def graph(
        self,
        inputs: list[Kind],
        outputs: list[Kind],
        first: Callable[[list[str]], str | None] = lambda names: None,
    ) -> onnx.GraphProto:
        """A graph with any values as its outputs; `first` may choose the first one."""
        outer = self.nodes, self.visible
        own = [Value(self.name(), kind) for kind in inputs]
        self.nodes, self.visible = [], [*self.visible, *own]
        self.depth += 1
        for _ in range(self.random.randint(0, 4)):
            self.step()
        names = []
        for number, kind in enumerate(outputs):
            name = first([v.name for v in own]) if number == 0 else None
            if name is None:
                # Its own inputs are what goes wrong most easily.
                name = self.pick(kind, own if self.chance(0.4) else None)
            if self.chance(0.3):
                [name] = self.node("Identity", [name], [kind])
            names.append(name)
        graph = helper.make_graph(
            self.nodes,
            self.name(),
            [v.kind.info(v.name) for v in own],
            [kind.info(name) for name, kind in zip(names, outputs, strict=True)],
        )
        self.depth -= 1
        self.nodes, self.visible = outer
        return graph

    def kinds(self, least: int, most: int) -> list[Kind]:
        return [self.random.choice(KINDS) for _ in range(self.random.randint(least, most))]

    def branch(self) -> None:
        kinds = self.kinds(1, 3)
        graphs = {name: self.graph([], kinds) for name in ("then_branch", "else_branch")}
        self.node("If", [self.pick(FLAG)], kinds, **graphs)

    def loop(self) -> None:
        listed = self.kinds(0, 2) if self.chance(0.5) else []
        carried = self.kinds(0 if listed else 1, 4) + [FLAG] * self.chance(0.5)
        rounds = self.random.choice((0, 1, 2, 3, ROUNDS, ROUNDS))
        trips = most = self.constant(rounds, "int64")
        going = self.constant(True, "bool") if self.chance(0.5) else ""

        def stays(names: list[str]) -> str | None:
            return names[1]

        def anything(names: list[str]) -> str | None:
            flags = [name for name, kind in zip(names[2:], carried, strict=True) if kind == FLAG]
            return self.random.choice(flags) if flags and self.chance(0.6) else None

        def bounded(names: list[str]) -> str | None:
            [few] = self.node("Less", [names[0], most], [FLAG])
            return self.node("And", [few, self.pick(FLAG)], [FLAG])[0]

        first = stays
        if not listed:  # else the shapes of lists would depend on values
            first = anything
            if self.chance(0.3):
                going = self.pick(FLAG)
            if self.chance(0.4):
                [least] = self.node("Max", [self.pick(NUMBER), self.constant(0, "int64")], [NUMBER])
                [trips] = self.node("Min", [least, most], [NUMBER])
            elif self.chance(0.3):
                trips, first = "", bounded
        body = self.graph([NUMBER, FLAG, *carried], [FLAG, *carried, *listed], first)
        start = [self.pick(kind) for kind in carried]
        kinds = [*carried, *(Kind(k.dtype, (rounds, *k.shape)) for k in listed)]
        self.node("Loop", [trips, going, *start], kinds, body=body)

    def scan(self) -> None:
        states, listed = self.kinds(0, 3), self.kinds(0, 2)
        if not states and not listed:
            return
        pairs = [self.random.choice(((TABLE, ROW), (NUMBERS, NUMBER))) for _ in range(2)]
        del pairs[self.random.randint(1, 2) :]
        body = self.graph([*states, *(one for _, one in pairs)], [*states, *listed])
        start = [self.pick(kind) for kind in states]
        kinds = [*states, *(Kind(k.dtype, (2, *k.shape)) for k in listed)]
        backwards = [self.random.randrange(2) for _ in listed]
        self.node(
            "Scan",
            [*start, *(self.pick(all_) for all_, _ in pairs)],
            kinds,
            body=body,
            num_scan_inputs=len(pairs),
            scan_input_directions=[self.random.randrange(2) for _ in pairs],
            **({"scan_output_directions": backwards} if listed and self.chance(0.5) else {}),
        )

    def step(self) -> None:
        which = self.random.random()
        if self.depth < DEEPEST and which < 0.4:
            self.random.choice((self.branch, self.loop, self.loop, self.scan))()
        elif which < 0.55:
            self.part()
        else:
            self.arithmetic()

    # ---- the whole -------------------------------------------------------------------------------

    def network(self) -> Network:
        inputs = [Value(self.name(), k) for k in (FLAG, FLAG, NUMBER, ROW, TABLE, NUMBERS)]
        self.visible = list(inputs)
        for make in (self.loop, self.step, self.step, self.random.choice((self.loop, self.scan))):
            make()
        outputs = [v for v in self.visible if v not in inputs][-12:]
        outputs += [v for v in inputs if self.chance(0.1)]
        graph = helper.make_graph(
            self.nodes,
            "aliases",
            [v.kind.info(v.name) for v in inputs],
            [v.kind.info(v.name) for v in outputs],
            self.constants,
        )
        feeds = [{v.name: self.example(v.kind) for v in inputs} for _ in range(FEEDS)]
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION[OPSET],
            producer_name=EXACT,
        )
        return Network(self.seed, model, feeds)


def network(seed: int) -> Network:
    """Always the same for a seed."""
    return Maker(seed).network()


def many(seed: int) -> Network:
    """Several of them as one, which takes a compiler less time."""
    nets = [network(seed * TOGETHER + i) for i in range(TOGETHER)]
    model = onnx.ModelProto()
    model.CopyFrom(nets[0].model)
    for net in nets[1:]:
        model.graph.MergeFrom(net.model.graph)
    feeds: list[dict[str, Array]] = [{} for _ in range(FEEDS)]
    for net in nets:
        for all_, feed in zip(feeds, net.feeds, strict=True):
            all_ |= feed
    return Network(seed, model, feeds)
