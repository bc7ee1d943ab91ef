# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the networks of the shipped policies as ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BOOL, FLOAT, INT64 = TensorProto.BOOL, TensorProto.FLOAT, TensorProto.INT64
#: Element type and shape, with names for lengths that vary.
Spec = tuple[int, Sequence[int | str]]


def model(
    name: str,
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Spec],
    outputs: Mapping[str, Spec],
    constants: Mapping[str, Any],
    metadata: Mapping[str, str] | None = None,
) -> onnx.ModelProto:
    """Of opset 17, and checked."""

    def tensors(of: Mapping[str, Spec]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(key, *spec) for key, spec in of.items()]

    values = [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()]
    graph = helper.make_graph(nodes, name, tensors(inputs), tensors(outputs), values)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if metadata:
        helper.set_model_props(made, dict(metadata))
    onnx.checker.check_model(made, full_check=True)
    return made
