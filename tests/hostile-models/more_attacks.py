# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""More of attacks.py: functions, names, sizes, types and files beside the model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import onnx
from attacks import ATTACKS as ATTACKS
from attacks import X23, Attack, attack, f32, graph, i64, register
from nodes import BOOL, FLOAT, INT64, build, constant, info, node
from onnx import TensorProto, helper

# ---- functions and names -----------------------------------------------------------------------


def with_functions(made: onnx.ModelProto, *functions: onnx.FunctionProto) -> onnx.ModelProto:
    made.opset_import.append(helper.make_opsetid("own", 1))
    made.functions.extend(functions)
    return made


OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]


@attack
def functions_that_call_each_other() -> Attack:
    calls = [
        helper.make_function("own", a, ["a"], ["b"], [node(b, ["a"], ["b"], domain="own")], OPSETS)
        for a, b in (("Ping", "Pong"), ("Pong", "Ping"))
    ]
    made = build([node("Ping", ["x"], ["y"], domain="own")], [info("x", 2)], [info("y", 2)])
    return with_functions(made, *calls), [{"x": f32(1, 2)}]


@attack
def function_in_a_branch_of_itself() -> Attack:
    again = graph([node("Again", ["a"], ["r"], domain="own")], [], [info("r", 2)])
    stop = graph([node("Neg", ["a"], ["q"])], [], [info("q", 2)])
    body = [
        node("ReduceSum", ["a"], ["s"], keepdims=0),
        node("Cast", ["s"], ["c"], to=BOOL),
        node("If", ["c"], ["b"], then_branch=again, else_branch=stop),
    ]
    function = helper.make_function("own", "Again", ["a"], ["b"], body, OPSETS)
    made = build([node("Again", ["x"], ["y"], domain="own")], [info("x", 2)], [info("y", 2)])
    return with_functions(made, function), [{"x": f32(0, 0)}]


@attack
def function_with_attributes_handed_on() -> Attack:
    def handed(kind: str, to: str, name: str, value: str, domain: str) -> onnx.FunctionProto:
        inside = node(kind, ["a"], ["b"], domain=domain)
        inside.attribute.append(
            onnx.AttributeProto(name=to, ref_attr_name=value, type=onnx.AttributeProto.FLOAT)
        )
        return helper.make_function("own", name, ["a"], ["b"], [inside], OPSETS, [value])

    outer = handed("Inner", "slope", "Outer", "slope", "own")  # the same name on each level
    inner = handed("LeakyRelu", "alpha", "Inner", "slope", "")
    made = build(
        [node("Outer", ["x"], ["y"], domain="own", slope=0.5)], [info("x", 2)], [info("y", 2)]
    )
    return with_functions(made, outer, inner), [{"x": f32(-1, 2)}]


@attack
def function_with_a_default() -> Attack:
    inside = node("LeakyRelu", ["a"], ["b"])
    inside.attribute.append(
        onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    )
    function = helper.make_function("own", "Leaky", ["a"], ["b"], [inside], OPSETS)
    function.attribute_proto.append(helper.make_attribute("slope", 0.25))
    nodes = [
        node("Leaky", ["x"], ["y"], domain="own"),
        node("Leaky", ["x"], ["z"], domain="own", slope=3.0),
    ]
    made = build(nodes, [info("x", 2)], [info("y", 2), info("z", 2)])
    return with_functions(made, function), [{"x": f32(-1, 2)}]


@attack
def function_whose_names_are_the_callers() -> Attack:
    body = [node("Neg", ["x"], ["y"]), node("Add", ["y", "x"], ["z"])]
    function = helper.make_function("own", "Same", ["x"], ["z"], body, OPSETS)
    nodes = [node("Abs", ["x"], ["z"]), node("Same", ["z"], ["y"], domain="own")]
    made = build(nodes, [info("x", 2)], [info("y", 2), info("z", 2)])
    return with_functions(made, function), [{"x": f32(-1, 2)}]


@attack
def function_with_a_shape_by_value() -> Attack:
    body = [node("Reshape", ["a", "s"], ["r"]), node("Neg", ["r"], ["b"])]
    function = helper.make_function("own", "As", ["a", "s"], ["b"], body, OPSETS)
    made = build(
        [node("As", ["x", "s"], ["y"], domain="own"), node("As", ["x", "t"], ["z"], domain="own")],
        [info("x", 2, 3), info("s", 1, kind=INT64), info("t", 2, kind=INT64)],
        [info("y", None), info("z", None, None)],
    )
    feeds = [{"x": X23 + i, "s": i64(-1), "t": i64(*t)} for i, t in enumerate([(3, 2), (1, 6)])]
    return with_functions(made, function), feeds * 2


@attack
def input_that_is_an_initializer() -> Attack:
    made = build(
        [node("Add", ["x", "w"], ["y"])],
        [info("x", 2), info("w", 2)],
        [info("y", 2)],
        [constant("w", [3, 4])],
    )
    return made, [{"x": f32(1, 2)}]


@attack
def initializer_that_is_a_result() -> Attack:
    made = build(
        [node("Neg", ["x"], ["y"])], [info("x", 2)], [info("y", 2)], [constant("y", [1, 2])]
    )
    return made, [{"x": f32(1, 2)}]


@attack
def input_named_twice() -> Attack:
    made = build([node("Neg", ["x"], ["y"])], [info("x", 2), info("x", 2)], [info("y", 2)])
    return made, [{"x": f32(1, 2)}]


@attack
def output_named_twice() -> Attack:
    made = build([node("Neg", ["x"], ["y"])], [info("x", 2)], [info("y", 2), info("y", 2)])
    return made, [{"x": f32(1, 2)}]


@attack
def graph_of_no_nodes() -> Attack:
    return build([], [info("x", 2)], [info("x", 2)]), [{"x": f32(1, 2)}, {"x": f32(3, 4)}]


@attack
def output_that_is_an_initializer() -> Attack:
    made = build(
        [node("Neg", ["x"], ["y"])],
        [info("x", 2)],
        [info("y", 2), info("w", 2)],
        [constant("w", [3, 4])],
    )
    return made, [{"x": f32(1, 2)}]


@attack
def graph_of_no_inputs() -> Attack:
    made = build([node("Neg", ["w"], ["y"])], [], [info("y", 2)], [constant("w", [3, 4])])
    return made, [{}, {}]


@attack
def several_outputs_of_one_value() -> Attack:
    nodes = [node("Neg", ["x"], ["a"]), node("Identity", ["a"], ["b"]), node("Abs", ["a"], ["c"])]
    made = build(nodes, [info("x", 2)], [info("a", 2), info("b", 2), info("c", 2)])
    return made, [{"x": f32(1, -2)}]


@attack
def outputs_that_are_left_out() -> Attack:
    nodes = [
        node("Split", ["x"], ["", "b"], axis=0, num_outputs=2),
        node("TopK", ["x", "one"], ["", "i"], axis=0),
        node("LayerNormalization", ["x", "w"], ["n", "", ""]),
    ]
    made = build(
        nodes,
        [info("x", 2)],
        [info("b", 1), info("i", 1, kind=INT64), info("n", 2)],
        [constant("one", [1], "int64"), constant("w", [1, 1])],
    )
    return made, [{"x": f32(1, -2)}]


@attack
def inputs_that_are_left_out() -> Attack:
    nodes = [node("Clip", ["x", "", "one"], ["a"]), node("Slice", ["a", "n", "t", "", "t"], ["y"])]
    made = build(
        nodes,
        [info("x", 2)],
        [info("y", None)],
        [constant("one", 1.0), constant("n", [0], "int64"), constant("t", [2], "int64")],
    )
    return made, [{"x": f32(5, -2)}]


# ---- sizes -------------------------------------------------------------------------------------


@attack
def tensors_of_nothing() -> Attack:
    nodes = [
        node("MatMul", ["x", "w"], ["m"]),
        node("Concat", ["x", "x"], ["c"], axis=0),
        node("Transpose", ["x"], ["t"]),
        node("ReduceSum", ["x", "zero"], ["s"]),
        node("Softmax", ["x"], ["p"]),
        node("MatMul", ["t", "x"], ["q"]),
        node("Gather", ["x", "none"], ["g"], axis=1),
        node("CumSum", ["x", "axis"], ["u"]),
        node("Reshape", ["x", "as"], ["r"]),
        node("Expand", ["x", "as3"], ["e"]),
    ]
    shapes = {
        "m": 2, "c": 2, "t": 2, "s": 2, "p": 2, "q": 2, "g": 2, "u": 2, "r": 3, "e": 3,
    }  # fmt: skip
    made = build(
        nodes,
        [info("x", "n", 3)],
        [info(n, *[None] * rank) for n, rank in shapes.items()],
        [
            constant("w", np.ones((3, 2))), constant("zero", [0], "int64"),
            constant("none", [], "int64"), constant("axis", 0, "int64"),
            constant("as", [0, 1, 3], "int64"), constant("as3", [2, 1, 1], "int64"),
        ],
    )  # fmt: skip
    return made, [{"x": np.ones((n, 3), np.float32)} for n in (0, 2, 0)]


@attack
def mean_of_nothing() -> Attack:
    nodes = [node(f"Reduce{k}", ["x", "a"], [k], keepdims=0) for k in ("Mean", "Prod", "L2")]
    made = build(
        nodes,
        [info("x", "n", 3)],
        [info(k, 3) for k in ("Mean", "Prod", "L2")],
        [constant("a", [0], "int64")],
    )
    return made, [{"x": np.ones((n, 3), np.float32)} for n in (0, 2)]


@attack
def most_of_nothing() -> Attack:
    made = build(
        [node("ReduceMax", ["x", "a"], ["y"], keepdims=0)],
        [info("x", "n", 3)],
        [info("y", 3)],
        [constant("a", [0], "int64")],
    )
    return made, [{"x": np.ones((n, 3), np.float32)} for n in (0, 2)]


@attack
def argument_of_nothing() -> Attack:
    made = build(
        [node("ArgMax", ["x"], ["y"], axis=0, keepdims=0)],
        [info("x", "n", 3)],
        [info("y", 3, kind=INT64)],
    )
    return made, [{"x": np.ones((n, 3), np.float32)} for n in (2, 0)]


@attack
def axes_from_the_end() -> Attack:
    nodes = [
        node("Softmax", ["x"], ["a"], axis=-2),
        node("Concat", ["x", "x"], ["b"], axis=-1),
        node("Flatten", ["x"], ["c"], axis=-1),
        node("Gather", ["x", "last"], ["d"], axis=-2),
        node("Split", ["x"], ["e", "f"], axis=-2, num_outputs=2),
        node("ArgMin", ["x"], ["g"], axis=-1),
        node("Unsqueeze", ["x", "ends"], ["h"]),
        node("ReduceMean", ["x", "ends2"], ["j"]),
    ]
    kinds = {n: INT64 if n == "g" else FLOAT for n in "abcdefghj"}
    ranks = {"h": 4}
    made = build(
        nodes,
        [info("x", 2, 3)],
        [info(n, *[None] * ranks.get(n, 2), kind=k) for n, k in kinds.items()],
        [
            constant("last", [-1], "int64"), constant("ends", [-1, -4], "int64"),
            constant("ends2", [-1, -2], "int64"),
        ],
    )  # fmt: skip
    return made, [{"x": X23}]


def _of_constant(kind: str, values: Sequence[int], outputs: int = 1) -> Attack:
    names = [f"y{i}" for i in range(outputs)]
    made = build(
        [node(kind, ["x", "s"], names)],
        [info("x", 2, 3)],
        [info(n, None, None) for n in names],
        [constant("s", values, "int64")],
    )
    return made, [{"x": X23}]


for _kind, _values in {
    "Tile": [1 << 15, 1 << 14],
    "Expand": [1 << 28, 2, 3],
    "Pad": [0, 1 << 28, 0, 1 << 28],
    "Reshape": [1 << 31, 1 << 31],
}.items():
    register(
        f"huge-{_kind.lower()}",
        lambda k=_kind, v=_values: _of_constant(k, v),  # type: ignore[misc]
    )


@attack
def lengths_whose_product_overflows() -> Attack:
    nodes = [node("Expand", ["x", "s"], ["e"]), node("ReduceSum", ["e"], ["y"], keepdims=0)]
    made = build(
        nodes,
        [info("x", 1)],
        [info("y")],
        [constant("s", [1 << 21, 1 << 21, 1 << 22], "int64")],
    )
    return made, [{"x": f32(1)}]


@attack
def empty_with_lengths_that_overflow() -> Attack:
    nodes = [node("Expand", ["x", "s"], ["e"]), node("Transpose", ["e"], ["y"])]
    made = build(
        nodes,
        [info("x", 1)],
        [info("y", None, None, None)],
        [constant("s", [1 << 62, 1 << 62, 0], "int64")],
    )
    return made, [{"x": f32(1)}]


@attack
def outputs_of_more_than_there_is() -> Attack:
    """Each value fits; all of them don't."""
    nodes = [node("Tile", ["x", "s"], [f"y{i}"]) for i in range(32)]
    made = build(
        nodes,
        [info("x", 1 << 10)],
        [info(f"y{i}", 1 << 26) for i in range(32)],
        [constant("s", [1 << 16], "int64")],
    )
    return made, []


@attack
def sum_of_very_many() -> Attack:
    made = build([node("Sum", ["x"] * 100000, ["y"])], [info("x", 2)], [info("y", 2)])
    return made, [{"x": f32(1, 2)}]


@attack
def concat_of_very_many() -> Attack:
    nodes = [
        node("Concat", ["x"] * 100000, ["c"], axis=0),
        node("ReduceSum", ["c"], ["y"], keepdims=0),
    ]
    return build(nodes, [info("x", 2)], [info("y")]), [{"x": f32(1, 2)}]


@attack
def more_nodes_than_a_plan_has() -> Attack:
    names = ["x", *(f"n{i}" for i in range(70000)), "y"]
    nodes = [node("Neg", [a], [b]) for a, b in pairwise(names)]
    return build(nodes, [info("x", 2)], [info("y", 2)]), [{"x": f32(1, 2)}]


def of_folded(
    count: int, nodes: list[onnx.NodeProto], kind: int, initializers: Sequence[onnx.TensorProto]
) -> Attack:
    """`nodes` make c of w, which is `count` ones, while the model is opened."""
    one = helper.make_tensor("one", kind, [1], [1])
    ends = [
        node("ReduceMax", ["c"], ["s"], keepdims=0),
        node("Cast", ["s"], ["f"], to=FLOAT),
        node("Add", ["x", "f"], ["y"]),
    ]
    made = build(
        [node("ConstantOfShape", ["count"], ["w"], value=one), *nodes, *ends],
        [info("x", 2)],
        [info("y", 2)],
        [constant("count", [count], "int64"), *initializers],
    )
    return made, [{"x": f32(1, 2)}]


@attack
def slow_functions_of_constants() -> Attack:
    nodes = [node(k, [a], [b]) for k, a, b in (("Erf", "w", "e"), ("Exp", "e", "c"))]
    return of_folded(1 << 21, nodes, TensorProto.DOUBLE, [])


@attack
def many_functions_of_constants() -> Attack:
    names = ["w", *(f"e{i}" for i in range(20)), "c"]
    nodes = [node("Erf", [a], [b]) for a, b in pairwise(names)]
    return of_folded(1 << 21, nodes, FLOAT, [])


def in_a_wild_order(kind: str) -> Attack:
    count = 1 << 20
    inputs = ["w", "k"] if kind == "Gather" else ["w", "k", "w"]
    nodes = [
        node("Range", ["zero", "end", "step"], ["r"]),
        node("Mul", ["r", "odd"], ["m"]),
        node("Mod", ["m", "end"], ["k"]),
        node(kind, inputs, ["c"], axis=0),
    ]
    numbers = {"zero": 0, "end": count, "step": 1, "odd": 179424673}
    return of_folded(
        count, nodes, FLOAT, [constant(name, n, "int64") for name, n in numbers.items()]
    )


for _kind in ("Gather", "ScatterElements"):
    register(
        f"{_kind.lower()}-in-a-wild-order",
        lambda k=_kind: in_a_wild_order(k),  # type: ignore[misc]
    )


@attack
def powers_by_constants() -> Attack:
    exponents = {"half": 0.5, "zero": 0, "one": 1, "two": 2, "three": 3, "less": -1, "root": -0.5}
    made = build(
        [node("Pow", ["x", name], [f"y-{name}"]) for name in exponents],
        [info("x", 7)],
        [info(f"y-{name}", 7) for name in exponents],
        [constant(name, e) for name, e in exponents.items()],
    )
    return made, [{"x": f32(-np.inf, np.inf, np.nan, -0.0, 0.0, 4, -4)}]


@attack
def sequences() -> Attack:
    made = build(
        [node("SequenceConstruct", ["x", "x"], ["s"]), node("SequenceLength", ["s"], ["y"])],
        [info("x", 2)],
        [info("y", kind=INT64)],
    )
    return made, [{"x": f32(1, 2)}]


@attack
def optional_types() -> Attack:
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, [2]))
    made = build([node("OptionalGetElement", ["x"], ["y"])], [info("x", 2)], [info("y", 2)])
    made.graph.input[0].CopyFrom(helper.make_value_info("x", kind))
    return made, []


@attack
def texts() -> Attack:
    made = build(
        [], [info("x", 2, kind=TensorProto.STRING)], [info("x", 2, kind=TensorProto.STRING)]
    )
    return made, []


def external(**places: str) -> Attack:
    tensor = onnx.TensorProto(
        name="w", data_type=FLOAT, dims=[2], data_location=TensorProto.EXTERNAL
    )
    for key, value in places.items():
        tensor.external_data.add(key=key, value=value)
    made = build([node("Add", ["x", "w"], ["y"])], [info("x", 2)], [info("y", 2)], [tensor])
    return made, [{"x": f32(1, 2)}]


for _name, _places in {
    "negative-offset": {"offset": "-4", "length": "8"},
    "negative-length": {"offset": "0", "length": "-8"},
    "beyond": {"offset": "12", "length": "8"},
    "too-short": {"offset": "0", "length": "4"},
    "too-long": {"offset": "0", "length": "16"},
    "offset-that-wraps": {"offset": "18446744073709551612", "length": "8"},
    "offset-beyond-64-bits": {"offset": "18446744073709551616", "length": "8"},
    "no-number": {"offset": "0x0", "length": "8"},
    "not-aligned": {"offset": "3", "length": "8"},
    "whole": {},
    "twice": {"offset": "0", "length": "8"},
}.items():
    register(
        f"external-{_name}",
        lambda p=_places: external(location="weights.bin", **p),  # type: ignore[misc]
    )
