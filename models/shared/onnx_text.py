# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Networks of shipped models, written as ONNX text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


def network(
    text: str,
    constants: Mapping[str, Any] | None = None,
    metadata: Mapping[str, str] | None = None,
    trees: Mapping[str, Any] | None = None,
) -> onnx.ModelProto:
    """A checked network of opset 17 from a graph in ONNX's textual syntax (onnx.parser).

    `constants` are arrays that the graph reads by name, in addition to those in its text. `trees`
    are the attributes of its ai.onnx.ml.TreeEnsemble, which the text leaves out.
    """
    versions = '["" : 17, "ai.onnx.ml" : 5]' if trees else '["" : 17]'
    model = onnx.parser.parse_model(f"<ir_version: 8, opset_import: {versions}>\n{text}")
    for node in model.graph.node:
        if node.op_type == "TreeEnsemble":
            node.attribute.extend(helper.make_attribute(*each) for each in (trees or {}).items())
    for name, value in (constants or {}).items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    if metadata:
        helper.set_model_props(model, dict(metadata))
    onnx.checker.check_model(model, full_check=True)
    return model
