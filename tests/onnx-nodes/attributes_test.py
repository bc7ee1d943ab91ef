# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The native engine refuses an attribute exactly if ONNX's operator doesn't have it."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto, defs, helper

import mlbridge

REFUSAL = "is none of the operator's"
VALUES: dict[Any, Any] = {
    defs.OpSchema.AttrType.FLOAT: 0.0,
    defs.OpSchema.AttrType.INT: 0,
    defs.OpSchema.AttrType.STRING: "text",
    defs.OpSchema.AttrType.FLOATS: [0.0],
    defs.OpSchema.AttrType.INTS: [0],
    defs.OpSchema.AttrType.STRINGS: ["text"],
    defs.OpSchema.AttrType.TENSOR: helper.make_tensor("t", TensorProto.FLOAT, [], [0.0]),
    defs.OpSchema.AttrType.GRAPH: helper.make_graph([], "graph", [], []),
}


def failure(operator: str, version: int, attribute: str, value: Any) -> str:
    """The error of opening a node without inputs; empty if it is opened."""
    node = helper.make_node(operator, [], ["y"], **{attribute: value})
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "graph", [], [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    try:
        mlbridge.Model.from_bytes("native:model.onnx", model.SerializeToString())
    except mlbridge.errors.Error as error:
        return str(error)
    return ""


def test_attributes_are_those_of_onnx() -> None:
    known = 0
    for schema in defs.get_all_schemas_with_history():
        operator, version = schema.name, schema.since_version
        if schema.domain or "native does not run" in failure(operator, version, "nonsense", 0):
            continue
        assert REFUSAL in failure(operator, version, "nonsense", 0), f"{operator} {version}"
        for name, attribute in schema.attributes.items():
            if attribute.type not in VALUES:
                continue
            known += 1
            text = failure(operator, version, name, VALUES[attribute.type])
            assert REFUSAL not in text, f"{operator} {version}: {text}"
    assert known > 200
