# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models made by hand to mislead an engine, each with inputs to ask it with, in turn."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "golden/hostile"))
from nodes import BOOL, FLOAT, HUGE, INT64, build, constant, info, node

ROOT = Path(__file__).resolve().parents[2]
Feed = dict[str, NDArray[Any]]
Attack = tuple[onnx.ModelProto, list[Feed]]
ATTACKS: dict[str, Callable[[], Attack]] = {}
MAX = (1 << 63) - 1


def attack(make: Callable[[], Attack]) -> Callable[[], Attack]:
    ATTACKS[make.__name__.replace("_", "-")] = make
    return make


def f32(*values: Any) -> NDArray[Any]:
    return np.asarray(values, np.float32)


def i64(*values: Any) -> NDArray[Any]:
    return np.asarray(values, np.int64)


def scalar(value: Any) -> NDArray[Any]:
    return np.asarray(value)


X23 = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def by_input(
    kind: str, values: Sequence[Any], shape: Sequence[int] = (2, 3), rank: int = 2, **options: Any
) -> Attack:
    """A node on x and an int64 list, which is asked with each of `values` in turn, and again."""
    length = len(values[0])
    made = build(
        [node(kind, ["x", "s"], ["y"], **options)],
        [info("x", *shape), info("s", length, kind=INT64)],
        [info("y", *[None] * rank)],
    )
    x = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    return made, [{"x": x + i, "s": i64(*v)} for i, v in enumerate([*values, *values])]


def register(name: str, made: Callable[[], Attack]) -> None:
    ATTACKS[name] = made


VALUES: dict[str, tuple[str, list[list[int]], dict[str, Any]]] = {
    "reshape": ("Reshape", [[3, 2], [6, 1], [-1, 1], [0, 3], [1, -1], [7, 1], [-1, -1]], {}),
    "expand": ("Expand", [[2, 3], [1, 3], [4, 3], [2, 1]], {}),
    "tile": ("Tile", [[2, 1], [1, 3], [0, 1], [-1, 1], [HUGE, HUGE]], {}),
    "reduce": ("ReduceSum", [[0], [1], [-1], [-2], [5], [-MAX]], {"keepdims": 1}),
    "pad": ("Pad", [[0, 1, 1, 0], [-1, 0, 0, 0], [2, 2, 2, 2], [MAX, 0, MAX, 0]], {}),
    "squeeze": ("Squeeze", [[0], [-1], [3], [-9]], {}),
    "split": ("Split", [[1, 1], [2, 0], [0, 2], [-1, 3], [MAX, MAX]], {"axis": 0}),
    "top-k": ("TopK", [[1], [2], [3], [0], [-1], [1 << 40]], {}),
}


def _by_value(name: str) -> Attack:
    kind, values, options = VALUES[name]
    made, feeds = by_input(kind, values, **options)
    if kind in {"Split", "TopK"}:
        made.graph.node[0].output.append("z")
        made.graph.output.append(info("z", None, None, kind=FLOAT if kind == "Split" else INT64))
    if kind == "Squeeze":
        made, feeds = by_input(kind, values, (1, 3), 1)
    return made, feeds


for _name in VALUES:
    register(f"by-value-{_name}", lambda name=_name: _by_value(name))  # type: ignore[misc]


@attack
def by_value_range() -> Attack:
    names = ("a", "b", "c")
    made = build(
        [node("Range", list(names), ["y"])],
        [info(n, kind=INT64) for n in names],
        [info("y", None, kind=INT64)],
    )
    asked = [(0, 5, 1), (5, 0, -2), (0, 0, 1), (3, -3, 1), (0, 5, 0), (0, MAX, 1), (-MAX, MAX, 1)]
    asked += [(MAX - 2, MAX, 1), (0, 5, 1), (-MAX, MAX, MAX)]
    return made, [{n: i64(v).reshape(()) for n, v in zip(names, a, strict=True)} for a in asked]


@attack
def by_value_range_of_floats() -> Attack:
    names = ("a", "b", "c")
    made = build([node("Range", list(names), ["y"])], [info(n) for n in names], [info("y", None)])
    asked = [(0, 1, 0.1), (0, 1, np.nan), (0, np.inf, 1), (1, 0, -0.3), (0, 1e30, 1e-30)]
    asked += [(0, 0.3, 0.1), (0, 1e9, 1)]
    return made, [{n: f32(v).reshape(()) for n, v in zip(names, a, strict=True)} for a in asked]


@attack
def by_value_slice() -> Attack:
    names = ("from", "to", "axes", "by")
    made = build(
        [node("Slice", ["x", *names], ["y"])],
        [info("x", 4, 5), *(info(n, 1, kind=INT64) for n in names)],
        [info("y", None, None)],
    )
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    asked = [(0, 2, 0, 1), (-1, -9, 1, -1), (-MAX, MAX, 1, 1), (MAX, -MAX - 1, 1, -1)]
    asked += [(0, MAX, -1, 2), (0, 5, 0, MAX), (4, 0, 1, -MAX - 1), (0, 2, 2, 1), (0, 2, 0, 0)]
    asked += [(0, 2, 0, 1), (3, 1, 1, 1)]
    return made, [{"x": x, **{n: i64(v) for n, v in zip(names, a, strict=True)}} for a in asked]


@attack
def by_value_constant_of_shape() -> Attack:
    made = build(
        [node("ConstantOfShape", ["s"], ["y"])],
        [info("s", 3, kind=INT64)],
        [info("y", None, None, None)],
    )
    asked = [[2, 1, 3], [0, 5, 1], [0, HUGE, 1], [-1, 2, 2], [HUGE, HUGE, 1], [1 << 32, 1 << 32, 4]]
    asked += [[1 << 14, 1 << 14, 1 << 3], [2, 1, 3], [MAX, MAX, MAX], [1, 1, 1]]
    return made, [{"s": i64(*a)} for a in asked]


@attack
def by_value_one_hot() -> Attack:
    made = build(
        [node("OneHot", ["i", "d", "v"], ["y"])],
        [info("i", 3, kind=INT64), info("d", 1, kind=INT64)],
        [info("y", 3, None)],
        [constant("v", [-1, 2])],
    )
    asked = [2, 5, 1, 0, -3, 1 << 40, 2]
    return made, [{"i": i64(0, 1, -1), "d": i64(a)} for a in asked]


@attack
def by_value_axis_of_a_sum() -> Attack:
    return by_input_scalar("CumSum", [0, 1, -1, -2, 2, MAX, 0])


def by_input_scalar(kind: str, values: Sequence[int], **options: Any) -> Attack:
    made = build(
        [node(kind, ["x", "s"], ["y"], **options)],
        [info("x", 2, 3), info("s", kind=INT64)],
        [info("y", None, None)],
    )
    return made, [{"x": X23, "s": i64(v).reshape(())} for v in values]


@attack
def by_value_trilu() -> Attack:
    return by_input_scalar("Trilu", [0, 1, -1, 5, MAX, -MAX, 0])


@attack
def by_value_non_zero() -> Attack:
    made = build(
        [node("NonZero", ["x"], ["y"])], [info("x", 2, 3)], [info("y", 2, None, kind=INT64)]
    )
    return made, [{"x": x} for x in (X23, X23 * 0, X23 + 9, np.full((2, 3), np.nan, np.float32))]


@attack
def by_value_compress() -> Attack:
    made = build(
        [node("Compress", ["x", "c"], ["y"], axis=1)],
        [info("x", 2, 3), info("c", 3, kind=BOOL)],
        [info("y", 2, None)],
    )
    return made, [
        {"x": X23, "c": np.asarray(c, bool)} for c in ([1, 0, 1], [0, 0, 0], [1, 1, 1], [1, 0, 1])
    ]


@attack
def two_by_value_and_more() -> Attack:
    """Values computed from inputs decide shapes, twice, with a node between."""
    nodes = [
        node("Add", ["k", "one"], ["k1"]),
        node("TopK", ["x", "k1"], ["v", "i"], axis=0),
        node("Neg", ["v"], ["n"]),
        node("Mul", ["k", "one"], ["k2"]),
        node("Tile", ["n", "k2"], ["y"]),
    ]
    made = build(
        nodes,
        [info("x", 4), info("k", 1, kind=INT64)],
        [info("y", None)],
        [constant("one", [1], "int64")],
    )
    return made, [{"x": f32(3, 1, 2, 9), "k": i64(k)} for k in (1, 2, 1, 0, 3, 4, 2)]


@attack
def by_value_with_lengths_that_change() -> Attack:
    made = build(
        [node("Reshape", ["x", "s"], ["y"]), node("Shape", ["x"], ["n"])],
        [info("x", "n", "m"), info("s", 1, kind=INT64)],
        [info("y", None), info("n", 2, kind=INT64)],
    )
    shapes = [(2, 3), (1, 4), (2, 3), (0, 3), (5, 1)]
    return made, [
        {"x": np.ones(s, np.float32) * i, "s": i64(-1 if s[0] else 0)} for i, s in enumerate(shapes)
    ]


# ---- control flow ------------------------------------------------------------------------------


def graph(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[Any], outputs: Sequence[Any], *held: Any
) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), "inner", list(inputs), list(outputs), list(held))


def looped(
    nodes: Sequence[onnx.NodeProto],
    outputs: Sequence[Any],
    results: Sequence[Any],
    *held: Any,
    state: Any = None,
    go: str = "go",
) -> onnx.ModelProto:
    """A loop over x of `times` rounds; `outputs` of its body after the condition."""
    inputs = [info("i", kind=INT64), info("go", kind=BOOL), state or info("a", 2)]
    inner = graph(
        [node("Identity", [go], ["still"]), *nodes], inputs, [info("still", kind=BOOL), *outputs]
    )
    names = [r.name for r in results]
    return build(
        [node("Loop", ["times", "begin", "x"], names, body=inner)],
        [info("times", kind=INT64), info("begin", kind=BOOL), info("x", 2)],
        results,
        held,
    )


def rounds(*asked: tuple[int, bool]) -> list[Feed]:
    return [
        {"times": i64(t).reshape(()), "begin": scalar(bool(b)), "x": f32(1, i + 2)}
        for i, (t, b) in enumerate(asked)
    ]


ROUNDS = ((2, True), (4, True), (0, True), (3, False), (-5, True), (2, True), (7, True))


@attack
def loop_of_a_number_of_rounds() -> Attack:
    add = [node("Add", ["a", "a"], ["b"])]
    return looped(add, [info("b", 2)], [info("y", 2)]), rounds(*ROUNDS)


@attack
def loop_with_lists() -> Attack:
    nodes = [node("Add", ["a", "a"], ["b"]), node("Identity", ["i"], ["n"])]
    lists = [info("b", 2), info("b", 2), info("n", kind=INT64)]
    results = [info("y", 2), info("all", None, 2), info("numbers", None, kind=INT64)]
    return looped(nodes, lists, results), rounds(*ROUNDS)


@attack
def loop_that_grows() -> Attack:
    nodes = [node("Concat", ["a", "a"], ["b"], axis=0)]
    state = info("a", None)
    return looped(nodes, [info("b", None)], [info("y", None)], state=state), rounds(*ROUNDS[:3])


@attack
def loop_that_grows_with_lists() -> Attack:
    """Was planned once for the first number of rounds."""
    nodes = [node("Concat", ["a", "a"], ["b"], axis=0), node("Identity", ["i"], ["n"])]
    made = looped(
        nodes,
        [info("b", None), info("n", kind=INT64)],
        [info("y", None), info("all", None, kind=INT64)],
        state=info("a", None),
    )
    return made, rounds((2, True), (4, True), (2, True))


@attack
def loop_that_ends_early_with_lists() -> Attack:
    nodes = [
        node("Less", ["i", "three"], ["less"]),
        node("Add", ["a", "a"], ["b"]),
        node("Identity", ["i"], ["n"]),
    ]
    made = looped(
        nodes,
        [info("b", 2), info("n", kind=INT64)],
        [info("y", 2), info("all", None, kind=INT64)],
        constant("three", 3, "int64"),
    )
    first = made.graph.node[0].attribute[0].g
    first.node.append(first.node[0])
    del first.node[0]
    first.node[-1].input[0] = "less"
    return made, rounds(*ROUNDS)


@attack
def loop_that_ends_early_with_a_constant_number() -> Attack:
    made, feeds = loop_that_ends_early_with_lists()
    made.graph.initializer.append(constant("times", 9, "int64"))
    del made.graph.input[0]
    return made, [{k: v for k, v in f.items() if k != "times"} for f in feeds]


@attack
def loop_within_a_loop_by_values() -> Attack:
    """The inner one's rounds are the outer one's number."""
    inner = graph(
        [node("Identity", ["go2"], ["still2"]), node("Add", ["c", "one"], ["d"])],
        [info("j", kind=INT64), info("go2", kind=BOOL), info("c", 2)],
        [info("still2", kind=BOOL), info("d", 2)],
    )
    nodes = [node("Loop", ["i", "", "a"], ["b"], body=inner)]
    return looped(nodes, [info("b", 2)], [info("y", 2)], constant("one", [1, 2])), rounds(*ROUNDS)


@attack
def lists_of_a_loop_within_a_loop() -> Attack:
    inner = graph(
        [node("Identity", ["go2"], ["still2"]), node("Identity", ["j"], ["k"])],
        [info("j", kind=INT64), info("go2", kind=BOOL)],
        [info("still2", kind=BOOL), info("k", kind=INT64)],
    )
    nodes = [
        node("Loop", ["i", ""], ["all"], body=inner),
        node("ReduceSum", ["all"], ["s"], keepdims=0),
        node("Cast", ["s"], ["f"], to=FLOAT),
        node("Add", ["a", "f"], ["b"]),
    ]
    return looped(nodes, [info("b", 2)], [info("y", 2)]), rounds(*ROUNDS)


@attack
def loop_over_what_has_a_shape_by_value() -> Attack:
    inner = graph(
        [node("Identity", ["go"], ["still"]), node("Neg", ["a"], ["b"])],
        [info("i", kind=INT64), info("go", kind=BOOL), info("a", None)],
        [info("still", kind=BOOL), info("b", None)],
    )
    nodes = [
        node("Reshape", ["x", "s"], ["r"]),
        node("Loop", ["times", "", "r"], ["y"], body=inner),
    ]
    made = build(
        nodes,
        [info("x", 2, 3), info("s", 1, kind=INT64)],
        [info("y", None)],
        [constant("times", 3, "int64")],
    )
    return made, [{"x": X23, "s": i64(6)}, {"x": X23, "s": i64(-1)}]


def _if(yes: onnx.GraphProto, no: onnx.GraphProto, *shape: Any) -> Attack:
    made = build(
        [node("If", ["c"], ["y"], then_branch=yes, else_branch=no)],
        [info("c", kind=BOOL), info("x", 2)],
        [info("y", *shape)],
    )
    return made, [{"c": scalar(c), "x": f32(1, i)} for i, c in enumerate([True, False, True])]


@attack
def if_with_other_shapes() -> Attack:
    yes = graph([node("Concat", ["x", "x"], ["a"], axis=0)], [], [info("a", 4)])
    no = graph([node("Neg", ["x"], ["b"])], [], [info("b", 2)])
    return _if(yes, no, None)


@attack
def if_with_other_types() -> Attack:
    yes = graph([node("Cast", ["x"], ["a"], to=INT64)], [], [info("a", 2, kind=INT64)])
    return _if(yes, graph([node("Neg", ["x"], ["b"])], [], [info("b", 2)]), 2)


@attack
def if_that_gives_what_is_outside() -> Attack:
    yes = graph([], [], [info("x", 2)])
    return _if(yes, graph([node("Neg", ["x"], ["b"])], [], [info("b", 2)]), 2)


@attack
def if_with_initializers_that_hide() -> Attack:
    yes = graph([node("Neg", ["x"], ["a"])], [], [info("a", 2)], constant("x", [7, 8]))
    return _if(yes, graph([node("Abs", ["x"], ["b"])], [], [info("b", 2)]), 2)


@attack
def if_of_several_elements() -> Attack:
    made, _ = if_that_gives_what_is_outside()
    made.graph.input[0].CopyFrom(info("c", 2, kind=BOOL))
    return made, [{"c": np.asarray([True, False]), "x": f32(1, 2)}]


@attack
def if_whose_branches_share_a_name() -> Attack:
    yes = graph([node("Neg", ["x"], ["same"])], [], [info("same", 2)])
    return _if(yes, graph([node("Abs", ["x"], ["same"])], [], [info("same", 2)]), 2)


@attack
def scans() -> Attack:
    inner = graph(
        [node("Add", ["s", "e"], ["t"]), node("Mul", ["e", "e"], ["q"])],
        [info("s", 2), info("e", 2)],
        [info("t", 2), info("q", 2)],
    )
    made = build(
        [
            node(
                "Scan",
                ["x", "z"],
                ["y", "all"],
                body=inner,
                num_scan_inputs=1,
                scan_input_axes=[-1],
                scan_output_axes=[-1],
                scan_input_directions=[1],
                scan_output_directions=[1],
            )
        ],
        [info("x", 2), info("z", 2, "n")],
        [info("y", 2), info("all", 2, None)],
    )
    return made, [
        {"x": f32(1, 2), "z": np.arange(2 * n, dtype=np.float32).reshape(2, n)} for n in (3, 1, 3)
    ]


@attack
def scan_of_nothing() -> Attack:
    made, _ = scans()
    return made, [{"x": f32(1, 2), "z": np.zeros((2, 0), np.float32)}]


@attack
def scan_that_changes_its_state() -> Attack:
    inner = graph(
        [node("Concat", ["s", "e"], ["t"], axis=0)],
        [info("s", None), info("e", 2)],
        [info("t", None)],
    )
    made = build(
        [node("Scan", ["x", "z"], ["y"], body=inner, num_scan_inputs=1)],
        [info("x", 2), info("z", 3, 2)],
        [info("y", None)],
    )
    return made, [{"x": f32(1, 2), "z": np.ones((3, 2), np.float32)}]
