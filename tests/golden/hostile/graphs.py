# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Wrong graphs, tensors and bytes."""

from __future__ import annotations

import onnx
from nodes import FLOAT, HUGE, INT64, branch, build, info, model, node, of_one
from onnx import TensorProto, helper


@model
def bad_cycle() -> onnx.ModelProto:
    nodes = [node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])]
    return build(nodes, [info("x", 2)], [info("b", 2)])


@model
def bad_own_output() -> onnx.ModelProto:
    return build([node("Add", ["x", "y"], ["y"])], [info("x", 2)], [info("y", 2)])


@model
def bad_twice() -> onnx.ModelProto:
    nodes = [node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])]
    return build(nodes, [info("x", 2)], [info("y", 2)])


@model
def bad_nothing_makes_the_output() -> onnx.ModelProto:
    return build([node("Relu", ["x"], ["z"])], [info("x", 2)], [info("y", 2)])


@model
def bad_no_such_operator() -> onnx.ModelProto:
    return build([node("Teleport", ["x"], ["y"], name="far")], [info("x", 2)], [info("y", 2)])


@model
def bad_no_such_domain() -> onnx.ModelProto:
    return build([node("Relu", ["x"], ["y"], domain="else")], [info("x", 2)], [info("y", 2)])


@model
def bad_future_opset() -> onnx.ModelProto:
    return build([node("Relu", ["x"], ["y"])], [info("x", 2)], [info("y", 2)], opset=9999)


@model
def bad_too_few_inputs() -> onnx.ModelProto:
    return build([node("Add", ["x"], ["y"])], [info("x", 2)], [info("y", 2)])


@model
def bad_too_many_outputs() -> onnx.ModelProto:
    outputs = [f"y{i}" for i in range(3)]
    return build([node("Relu", ["x"], outputs)], [info("x", 2)], [info(n, 2) for n in outputs])


@model
def bad_empty_input() -> onnx.ModelProto:
    return build([node("Gemm", ["x", "", ""], ["y"])], [info("x", 2, 2)], [info("y", 2, 2)])


@model
def bad_types_mixed() -> onnx.ModelProto:
    inputs = [info("x", 2), info("i", 2, kind=INT64)]
    return build([node("Add", ["x", "i"], ["y"])], inputs, [info("y", 2)])


@model
def bad_attribute_type() -> onnx.ModelProto:
    made = of_one("Softmax")
    made.graph.node[0].attribute.append(helper.make_attribute("axis", "last"))
    return made


@model
def bad_function_calls_itself() -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    nodes = [node("Again", ["a"], ["b"], domain="own")]
    again = helper.make_function("own", "Again", ["a"], ["b"], nodes, opsets)
    made = build([node("Again", ["x"], ["y"], domain="own")], [info("x", 2)], [info("y", 2)])
    made.opset_import.append(helper.make_opsetid("own", 1))
    made.functions.append(again)
    return made


@model
def bad_functions_double() -> onnx.ModelProto:
    """Forty functions, each of which calls the next one twice: 2^40 nodes."""
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    made = build([node("F0", ["x"], ["y"], domain="own")], [info("x", 2)], [info("y", 2)])
    made.opset_import.append(helper.make_opsetid("own", 1))
    for i in range(40):
        calls = [
            node(f"F{i + 1}", ["a"], ["m"], domain="own"),
            node(f"F{i + 1}", ["m"], ["b"], domain="own"),
        ]
        last = [node("Relu", ["a"], ["b"])]
        nodes = calls if i < 39 else last
        made.functions.append(helper.make_function("own", f"F{i}", ["a"], ["b"], nodes, opsets))
    return made


def _with_tensor(tensor: onnx.TensorProto) -> onnx.ModelProto:
    tensor.name = "c"
    return build([node("Add", ["x", "c"], ["y"])], [info("x", 2)], [info("y", None)], [tensor])


@model
def bad_initializer_huge() -> onnx.ModelProto:
    return _with_tensor(TensorProto(data_type=FLOAT, dims=[HUGE, HUGE], raw_data=b"\0" * 8))


@model
def bad_initializer_overflow() -> onnx.ModelProto:
    return _with_tensor(TensorProto(data_type=FLOAT, dims=[1 << 62, 4], raw_data=b""))


@model
def bad_initializer_negative() -> onnx.ModelProto:
    return _with_tensor(TensorProto(data_type=FLOAT, dims=[-2], raw_data=b"\0" * 8))


@model
def bad_initializer_short() -> onnx.ModelProto:
    return _with_tensor(TensorProto(data_type=FLOAT, dims=[2], raw_data=b"\0" * 7))


@model
def bad_initializer_long() -> onnx.ModelProto:
    return _with_tensor(TensorProto(data_type=FLOAT, dims=[2], raw_data=b"\0" * 12))


@model
def bad_initializer_few_floats() -> onnx.ModelProto:
    return _with_tensor(TensorProto(data_type=FLOAT, dims=[1 << 30], float_data=[1.0]))


@model
def bad_initializer_no_such_type() -> onnx.ModelProto:
    made = _with_tensor(TensorProto(data_type=FLOAT, dims=[2], raw_data=b"\0" * 8))
    made.graph.initializer[0].data_type = 1234
    return made


@model
def bad_initializer_rank() -> onnx.ModelProto:
    return _with_tensor(TensorProto(data_type=FLOAT, dims=[1] * 3000 + [2], raw_data=b"\0" * 8))


def _external(**entries: str) -> onnx.ModelProto:
    tensor = TensorProto(data_type=FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return _with_tensor(tensor)


@model
def bad_external_parent() -> onnx.ModelProto:
    return _external(location="../onnx/external-data.bin")


@model
def bad_external_hidden_parent() -> onnx.ModelProto:
    return _external(location="sub/../../onnx/external-data.bin")


@model
def bad_external_absolute() -> onnx.ModelProto:
    return _external(location="/dev/zero", length="8")


@model
def bad_external_missing() -> onnx.ModelProto:
    return _external(location="nowhere.bin")


@model
def bad_external_beyond() -> onnx.ModelProto:
    return _external(location="make.py", offset="18446744073709551608", length="8")


@model
def bad_external_folder() -> onnx.ModelProto:
    return _external(location=".")


@model
def bad_nothing() -> bytes:
    return b""


@model
def bad_endless_varint() -> bytes:
    return b"\x08" + b"\xff" * 64


@model
def bad_length_beyond() -> bytes:
    return b"\x08\x08\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00"


@model
def bad_field_zero() -> bytes:
    rest: bytes = build([], [], []).SerializeToString()
    return b"\x00\x00" + rest


@model
def bad_groups() -> bytes:
    return b"\x0b" * 100000


@model
def bad_text() -> bytes:
    return b"ir_version: 8\ngraph { }\n" * 100


def _wrapped(field: int, data: bytes) -> bytes:
    length = b""
    rest = len(data)
    while rest >= 128:
        length += bytes([rest & 127 | 128])
        rest >>= 7
    return bytes([field << 3 | 2]) + length + bytes([rest]) + data


@model
def bad_deep() -> bytes:
    """Graphs in graphs, a thousand levels; too deep for protobuf's own library."""
    graph = branch("t", "Relu").SerializeToString()
    for _ in range(1000):
        attribute = _wrapped(1, b"then_branch") + _wrapped(6, graph) + b"\xa0\x01\x05"
        texts = _wrapped(1, b"is") + _wrapped(2, b"t") + _wrapped(4, b"If")
        graph = _wrapped(1, texts + _wrapped(5, attribute)) + _wrapped(2, b"deep")
    return b"\x08\x08" + _wrapped(7, graph) + _wrapped(8, b"\x0a\x00\x10\x12")
