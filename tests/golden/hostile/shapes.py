# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models whose shapes, indexes or counts are wrong or beyond all measure."""

from __future__ import annotations

import numpy as np
import onnx
from nodes import BOOL, FLOAT, HUGE, INT64, branch, build, constant, info, model, node, of_one
from onnx import helper


@model
def bad_input_huge() -> onnx.ModelProto:
    return build([node("Relu", ["x"], ["y"])], [info("x", HUGE, HUGE)], [info("y", HUGE, HUGE)])


@model
def bad_input_empty_huge() -> onnx.ModelProto:
    shape = (0, HUGE, HUGE)  # no elements, but strides
    return build([node("Neg", ["x"], ["y"])], [info("x", *shape)], [info("y", *shape)])


@model
def bad_input_rank() -> onnx.ModelProto:
    shape = [1] * 5000
    return build([node("Relu", ["x"], ["y"])], [info("x", *shape)], [info("y", *shape)])


@model
def bad_output_lies() -> onnx.ModelProto:
    return build([node("Relu", ["x"], ["y"])], [info("x", 2)], [info("y", 3)])


@model
def bad_gemm_shapes() -> onnx.ModelProto:
    return of_one("Gemm", (np.zeros((4, 2)), "float32"))


@model
def bad_gemm_rank() -> onnx.ModelProto:
    return of_one("Gemm", (np.zeros((3,)), "float32"))


@model
def bad_broadcast() -> onnx.ModelProto:
    return of_one("Add", (np.zeros((5,)), "float32"))


@model
def bad_expand() -> onnx.ModelProto:
    return of_one("Expand", ([HUGE, 2, 3], "int64"))


@model
def bad_expand_overflow() -> onnx.ModelProto:
    return of_one("Expand", ([1 << 62, 1 << 62, 2, 3], "int64"))


@model
def bad_tile() -> onnx.ModelProto:
    return of_one("Tile", ([HUGE, HUGE], "int64"))


@model
def bad_tile_negative() -> onnx.ModelProto:
    return of_one("Tile", ([-1, 2], "int64"))


@model
def bad_reshape() -> onnx.ModelProto:
    return of_one("Reshape", ([4, 2], "int64"))


@model
def bad_reshape_two_unknown() -> onnx.ModelProto:
    return of_one("Reshape", ([-1, -1], "int64"))


@model
def bad_reshape_overflow() -> onnx.ModelProto:
    return of_one("Reshape", ([1 << 62, 4, -1], "int64"))


@model
def bad_transpose() -> onnx.ModelProto:
    return of_one("Transpose", perm=[0, 0])


@model
def bad_transpose_beyond() -> onnx.ModelProto:
    return of_one("Transpose", perm=[0, 1 << 40])


@model
def bad_axis() -> onnx.ModelProto:
    return of_one("Softmax", axis=-(1 << 62))


@model
def bad_concat() -> onnx.ModelProto:
    return of_one("Concat", (np.zeros((2, 3, 1)), "float32"), axis=0)


@model
def bad_split() -> onnx.ModelProto:
    return of_one("Split", ([2, 2], "int64"), axis=1)


@model
def bad_split_parts() -> onnx.ModelProto:
    return of_one("Split", axis=1, num_outputs=1 << 40)


@model
def bad_slice_step() -> onnx.ModelProto:
    zero, one = ([0], "int64"), ([1], "int64")
    return of_one("Slice", zero, one, one, zero)


@model
def bad_slice_lists() -> onnx.ModelProto:
    return of_one("Slice", ([0, 0, 0], "int64"), ([1], "int64"))


@model
def bad_pad() -> onnx.ModelProto:
    return of_one("Pad", ([HUGE, 0, 0, 0], "int64"))


@model
def bad_pad_overflow() -> onnx.ModelProto:
    return of_one("Pad", ([(1 << 63) - 1, 0, (1 << 63) - 1, 0], "int64"))


@model
def bad_gather() -> onnx.ModelProto:
    return of_one("Gather", ([7], "int64"), axis=0)


@model
def bad_gather_elements() -> onnx.ModelProto:
    return of_one("GatherElements", ([[-9, 0, 0]], "int64"), axis=0)


@model
def bad_gather_nd() -> onnx.ModelProto:
    return of_one("GatherND", ([[0, 1, 0]], "int64"))


@model
def bad_scatter() -> onnx.ModelProto:
    return of_one("ScatterElements", ([[1 << 40]], "int64"), ([[1.0]], "float32"))


@model
def bad_scatter_nd() -> onnx.ModelProto:
    return of_one("ScatterND", ([[-3]], "int64"), ([[1, 2, 3]], "float32"))


@model
def bad_top_k() -> onnx.ModelProto:
    made = of_one("TopK", ([4], "int64"))
    made.graph.node[0].output.append("i")
    return made


@model
def bad_constant_of_shape() -> onnx.ModelProto:
    return build(
        [node("ConstantOfShape", ["c"], ["z"]), node("ReduceSum", ["z"], ["s"], keepdims=0),
         node("Add", ["x", "s"], ["y"])],
        [info("x", 2)], [info("y", 2)], [constant("c", [HUGE, HUGE], "int64")],
    )  # fmt: skip


@model
def bad_range() -> onnx.ModelProto:
    return build(
        [node("Range", ["a", "b", "c"], ["r"]), node("Cast", ["r"], ["f"], to=FLOAT),
         node("Add", ["x", "f"], ["y"])],
        [info("x", 1)], [info("y", None)],
        [constant("a", 0, "int64"), constant("b", 2**63 - 1, "int64"), constant("c", 1, "int64")],
    )  # fmt: skip


@model
def bad_range_zero() -> onnx.ModelProto:
    return build(
        [node("Range", ["a", "b", "c"], ["r"]), node("Cast", ["r"], ["f"], to=FLOAT),
         node("Add", ["x", "f"], ["y"])],
        [info("x", 1)], [info("y", None)],
        [constant("a", 0, "int64"), constant("b", 5, "int64"), constant("c", 0, "int64")],
    )  # fmt: skip


@model
def bad_one_hot() -> onnx.ModelProto:
    return build(
        [node("OneHot", ["i", "d", "v"], ["y"])],
        [info("i", 2, kind=INT64)], [info("y", 2, None)],
        [constant("d", HUGE, "int64"), constant("v", [0, 1])],
    )  # fmt: skip


@model
def bad_doubling() -> onnx.ModelProto:
    """Each node makes its operand twice as long: 2^61 elements."""
    nodes = [node("Concat", [f"v{i}", f"v{i}"], [f"v{i + 1}"], axis=0) for i in range(60)]
    return build(nodes, [info("v0", 2)], [info("v60", None)])


@model
def bad_lstm() -> onnx.ModelProto:
    weights = [(np.zeros((1, 8, 4)), "float32"), (np.zeros((1, 8, 2)), "float32")]
    return of_one("LSTM", *weights, shape=(2, 1, 3), hidden_size=2)


@model
def bad_lstm_hidden() -> onnx.ModelProto:
    weights = [(np.zeros((1, 8, 3)), "float32"), (np.zeros((1, 8, 2)), "float32")]
    return of_one("LSTM", *weights, shape=(2, 1, 3), hidden_size=1 << 61)


@model
def bad_batch_normalization() -> onnx.ModelProto:
    return of_one("BatchNormalization", *[(np.zeros(2), "float32")] * 4)


@model
def bad_loop_endless() -> onnx.ModelProto:
    body = helper.make_graph(
        [node("Identity", ["go"], ["still"]), node("Neg", ["s"], ["t"])],
        "body",
        [info("i", kind=INT64), info("go", kind=BOOL), info("s", 2)],
        [info("still", kind=BOOL), info("t", 2)],
    )
    times = [constant("n", (1 << 63) - 1, "int64")]
    return build(
        [node("Loop", ["n", "", "x"], ["y"], body=body)], [info("x", 2)], [info("y", 2)], times
    )


@model
def bad_loop_collects() -> onnx.ModelProto:
    body = helper.make_graph(
        [node("Identity", ["go"], ["still"]), node("Neg", ["s"], ["t"]), node("Abs", ["s"], ["u"])],
        "body",
        [info("i", kind=INT64), info("go", kind=BOOL), info("s", 2)],
        [info("still", kind=BOOL), info("t", 2), info("u", 2)],
    )
    times = [constant("n", HUGE, "int64")]
    return build(
        [node("Loop", ["n", "", "x"], ["y", "all"], body=body)],
        [info("x", 2)], [info("y", 2), info("all", HUGE, 2)], times,
    )  # fmt: skip


@model
def bad_branches_differ() -> onnx.ModelProto:
    other = helper.make_graph([node("Concat", ["x", "x"], ["e"], axis=0)], "e", [], [info("e", 4)])
    nodes = [node("If", ["is"], ["y"], then_branch=branch("t", "Relu"), else_branch=other)]
    return build(nodes, [info("x", 2), info("is", kind=BOOL)], [info("y", 2)])
