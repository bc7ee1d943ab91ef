# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shapes that depend on values, and constants that take long or much to compute."""

from __future__ import annotations

import numpy as np
import onnx
from nodes import BOOL, HUGE, INT64, build, constant, info, model, node
from onnx import helper

BODY = (info("i", kind=INT64), info("go", kind=BOOL))


def body(
    nodes: list[onnx.NodeProto], state: onnx.ValueInfoProto, *made: onnx.ValueInfoProto
) -> onnx.GraphProto:
    """The body of a loop that goes on, with one state."""
    nodes = [node("Identity", ["go"], ["still"]), *nodes]
    return helper.make_graph(nodes, "body", [*BODY, state], [info("still", kind=BOOL), *made])


@model
def good_values() -> onnx.ModelProto:
    """What one pass settles: a shape, k, pads, starts and ends, the rounds of a list."""
    nodes = [
        node("Reshape", ["x", "s"], ["r"]),
        node("TopK", ["x", "k"], ["v", "at"], axis=0),
        node("Pad", ["x", "p"], ["w"]),
        node("Slice", ["x", "from", "to"], ["c"]),
        node(
            "Loop",
            ["k0", "", "x"],
            ["last", "all"],
            body=body([node("Neg", ["a"], ["b"])], info("a", 2), info("b", 2), info("b", 2)),
        ),
        node("Squeeze", ["k", "zero"], ["k0"]),
    ]
    nodes.insert(4, nodes.pop())
    lists = ("s", 1), ("k", 1), ("p", 2), ("from", 1), ("to", 1)
    return build(
        nodes,
        [info("x", 2), *(info(n, length, kind=INT64) for n, length in lists)],
        [info(n, None) for n in ("r", "v", "w", "c")] + [info("last", 2), info("all", None, 2)],
        [constant("zero", [0], "int64")],
    )


@model
def good_non_zero() -> onnx.ModelProto:
    """NonZero of a constant; the shape of what is made of it is an input all the same."""
    nodes = [
        node("NonZero", ["c"], ["n"]),
        node("Shape", ["n"], ["m"]),
        node("Concat", ["m", "s"], ["t"], axis=0),
        node("ConstantOfShape", ["t"], ["y"]),
    ]
    return build(
        nodes,
        [info("s", 1, kind=INT64)],
        [info("y", None, None, None)],
        [constant("c", [1, 0, 2])],
    )


@model
def bad_values_chain() -> onnx.ModelProto:
    """The shape of what has a shape by value."""
    nodes = [
        node("NonZero", ["x"], ["n"]),
        node("Shape", ["n"], ["s"]),
        node("ConstantOfShape", ["s"], ["y"], name="second"),
    ]
    return build(nodes, [info("x", 3)], [info("y", None, None)])


@model
def bad_values_in_a_loop() -> onnx.ModelProto:
    inner = body(
        [node("Unsqueeze", ["i", "zero"], ["e"]), node("Slice", ["a", "zero", "e"], ["c"]),
         node("ReduceSum", ["c"], ["t"]), node("Add", ["a", "t"], ["b"])],
        info("a", 2), info("b", 2),
    )  # fmt: skip
    return build(
        [node("Loop", ["times", "", "x"], ["y"], body=inner)],
        [info("x", 2)],
        [info("y", 2)],
        [constant("times", 3, "int64"), constant("zero", [0], "int64")],
    )


@model
def bad_loop_grows() -> onnx.ModelProto:
    inner = body([node("Concat", ["a", "a"], ["b"], axis=0)], info("a", None), info("b", None))
    return build(
        [node("Loop", ["times", "", "x"], ["y"], body=inner)],
        [info("times", kind=INT64), info("x", 2)],
        [info("y", None)],
    )


@model
def bad_attribute_is_itself() -> onnx.ModelProto:
    """The default of an attribute refers to that very attribute."""
    opsets = [helper.make_opsetid("", 18)]
    inside = node("LeakyRelu", ["a"], ["b"])
    inside.attribute.append(
        onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    )
    itself = onnx.AttributeProto(
        name="slope", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT
    )
    leaky = helper.make_function("own", "Leaky", ["a"], ["b"], [inside], opsets)
    leaky.attribute_proto.append(itself)
    made = build([node("Leaky", ["x"], ["y"], domain="own")], [info("x", 2)], [info("y", 2)])
    made.opset_import.append(helper.make_opsetid("own", 1))
    made.functions.append(leaky)
    return made


@model
def bad_constants_large() -> onnx.ModelProto:
    """Sixteen constants of 256 MB each from a few hundred bytes, all of them needed."""
    nodes = []
    for i in range(16):
        nodes.append(node("ConstantOfShape", ["n"], [f"c{i}"]))
        nodes.append(node("Add", [f"c{i}", "x"], [f"y{i}"]))
    return build(
        nodes, [info("x", 1)], [info(f"y{i}", 1 << 26) for i in range(16)],
        [constant("n", [1 << 26], "int64")],
    )  # fmt: skip


@model
def bad_constant_loop() -> onnx.ModelProto:
    inner = body([node("Add", ["a", "a"], ["b"])], info("a", 2), info("b", 2))
    return build(
        [node("Loop", ["times", "", "c"], ["l"], body=inner), node("Add", ["l", "x"], ["y"])],
        [info("x", 2)],
        [info("y", 2)],
        [constant("times", HUGE, "int64"), constant("c", [1, 2])],
    )


@model
def bad_constant_products() -> onnx.ModelProto:
    """Four products of constant matrices before the input is touched."""
    size = 1536
    nodes = [node("ConstantOfShape", ["n"], ["m0"])]
    nodes += [node("MatMul", [f"m{i}", f"m{i}"], [f"m{i + 1}"]) for i in range(4)]
    nodes += [node("ReduceSum", ["m4"], ["s"], keepdims=0), node("Add", ["s", "x"], ["y"])]
    return build(
        nodes, [info("x", 2)], [info("y", 2)], [constant("n", np.asarray([size, size]), "int64")]
    )
