# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Right models, which mutations start from."""

from __future__ import annotations

import numpy as np
import onnx
from nodes import BOOL, FLOAT, INT64, branch, build, constant, info, model, node
from onnx import TensorProto, helper


@model
def good_layers() -> onnx.ModelProto:
    made = build(
        [
            node("Gemm", ["x", "w", "b"], ["h"], transB=1, alpha=0.5, name="first"),
            node("Relu", ["h"], ["r"]),
            node("MatMul", ["r", "v"], ["z"]),
            node("Softmax", ["z"], ["y"], axis=-1),
        ],
        [info("x", 1, 3)],
        [info("y", 1, 2)],
        [
            constant("w", [[1, 2, 3], [4, 5, 6], [7, 8, 9], [1, 0, 1]]),
            helper.make_tensor("b", FLOAT, [4], [1.0, 2.0, 3.0, 4.0]),
            constant("v", [[1, 2], [3, 4], [5, 6], [7, 8]]),
        ],
    )
    helper.set_model_props(made, {"actions": "a,b"})
    return made


@model
def good_shapes() -> onnx.ModelProto:
    return build(
        [
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "zero"], ["n"], axis=0),
            node("Concat", ["n", "rest"], ["t"], axis=0),
            node("Reshape", ["x", "t"], ["f"]),
            node("Slice", ["f", "from", "to", "one"], ["c"]),
            node("Transpose", ["c"], ["p"], perm=[1, 0]),
            node("Split", ["p"], ["a", "b"], axis=0, num_outputs=2),
            node("Pad", ["a", "pads"], ["q"]),
            node("ReduceSum", ["q", "one"], ["y"], keepdims=0),
            node("TopK", ["b", "one"], ["v", "i"], axis=0),
        ],
        [info("x", "n", 2, 3)],
        [info("y", 3), info("v", 1, "n"), info("i", 1, "n", kind=INT64)],
        [
            constant("zero", [0], "int64"),
            constant("rest", [-1], "int64"),
            constant("from", [1], "int64"),
            constant("to", [5], "int64"),
            constant("one", [1], "int64"),
            constant("pads", [0, 0, 1, 0], "int64"),
        ],
    )


@model
def good_graph() -> onnx.ModelProto:
    return build(
        [
            node("Gather", ["x", "source"], ["m"], axis=0),
            node("Unsqueeze", ["target", "axis"], ["c"]),
            node("ScatterND", ["x", "c", "m"], ["z"], reduction="add"),
            node("Tanh", ["z"], ["y"]),
        ],
        [info("x", 3, 2), info("source", 4, kind=INT64), info("target", 4, kind=INT64)],
        [info("y", 3, 2)],
        [constant("axis", [1], "int64")],
    )


@model
def good_recurrent() -> onnx.ModelProto:
    numbers = np.random.default_rng(1)
    return build(
        [
            node("LSTM", ["x", "w", "r", "b"], ["", "h", "c"], hidden_size=2),
            node("GRU", ["x", "gw", "gr"], ["y"], hidden_size=1, direction="bidirectional"),
        ],
        [info("x", 2, 1, 3)],
        [info("h", 1, 1, 2), info("c", 1, 1, 2), info("y", 2, 2, 1, 1)],
        [
            constant("w", numbers.normal(size=(1, 8, 3))),
            constant("r", numbers.normal(size=(1, 8, 2))),
            constant("b", numbers.normal(size=(1, 16))),
            constant("gw", numbers.normal(size=(2, 3, 3))),
            constant("gr", numbers.normal(size=(2, 3, 1))),
        ],
    )


@model
def good_control() -> onnx.ModelProto:
    loop = helper.make_graph(
        [
            node("Add", ["state", "x"], ["next"]),
            node("Identity", ["go"], ["still"]),
            node("Identity", ["next"], ["seen"]),
        ],
        "body",
        [info("i", kind=INT64), info("go", kind=BOOL), info("state", 2)],
        [info("still", kind=BOOL), info("next", 2), info("seen", 2)],
    )
    return build(
        [
            node("ReduceSum", ["x"], ["sum"], keepdims=0),
            node("Greater", ["sum", "zero"], ["is"]),
            node(
                "If", ["is"], ["z"], then_branch=branch("t", "Relu"), else_branch=branch("e", "Neg")
            ),
            node("Loop", ["times", "", "z"], ["y", "all"], body=loop),
        ],
        [info("x", 2)],
        [info("y", 2), info("all", 3, 2)],
        [constant("zero", 0.0), constant("times", 3, "int64")],
    )


@model
def good_types() -> onnx.ModelProto:
    kinds = ("int8", "uint8", "int16", "uint16", "int32", "int64", "uint32", "uint64", "float16")
    nodes = [
        node("Cast", ["x"], [kind], to=helper.np_dtype_to_tensor_dtype(np.dtype(kind)))
        for kind in (*kinds, "float64", "bool")
    ]
    value = helper.make_tensor("t", TensorProto.INT32, [2], [1, -1])
    half = helper.make_tensor("f", TensorProto.FLOAT16, [2], np.asarray([1, 2], "float16"))
    nodes += [
        node("Constant", [], ["k"], value=value),
        node("Constant", [], ["many"], value_ints=[1, 2, 3]),
        node("Constant", [], ["h"], value=half),
        node("Constant", [], ["p"], value_float=1.5),
        node("ConstantOfShape", ["many"], ["e"], value=helper.make_tensor("v", INT64, [1], [7])),
    ]
    outputs = [
        info(k, 2, kind=helper.np_dtype_to_tensor_dtype(np.dtype(k)))
        for k in (*kinds, "float64", "bool")
    ]
    outputs += [info("k", 2, kind=TensorProto.INT32), info("e", 1, 2, 3, kind=INT64)]
    outputs += [info("h", 2, kind=TensorProto.FLOAT16), info("p")]
    return build(nodes, [info("x", 2)], outputs)


@model
def good_function() -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", 18)]
    twice = helper.make_function(
        "own",
        "Twice",
        ["a"],
        ["b"],
        [node("Add", ["a", "a"], ["s"]), node("LeakyRelu", ["s"], ["b"], alpha=0.25)],
        opsets,
    )
    made = build([node("Twice", ["x"], ["y"], domain="own")], [info("x", 2)], [info("y", 2)])
    made.opset_import.append(helper.make_opsetid("own", 1))
    made.functions.append(twice)
    return made
