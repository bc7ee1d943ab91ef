# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a file in ONNX Runtime's own format says."""

from __future__ import annotations

import math

from ..errors import InvalidModel
from .onnx_file import TYPES
from .report import Report
from .wire import Table

IDENTIFIER = b"ORTM"


def read_ort(data: bytes, report: Report) -> None:
    """Fills in what its flat buffer says. Errors: InvalidModel."""
    report.format = "ONNX Runtime"
    session = Table(data, int.from_bytes(data[:4], "little"))
    model = session.table(1)
    graph = model.table(7) if model else None
    if model is None or graph is None:
        raise InvalidModel("it has no graph")
    for opset in model.tables(1):
        report.opsets[opset.string(0) or "ai.onnx"] = opset.number(1, "<q")
    for entry in model.tables(9):
        report.metadata[entry.string(0)] = entry.string(1)
    for key, number in (("onnx.producer", 2), ("onnx.description", 6)):
        if value := model.string(number):
            report.metadata[key] = value
    for node in graph.tables(2):
        domain, operator = node.string(2), node.string(5)
        report.operators[operator if domain in ("", "ai.onnx") else f"{domain}::{operator}"] += 1
    report.parameters = report.parameter_bytes = 0
    for tensor in graph.tables(0):
        count = math.prod(tensor.longs(2))
        report.parameters += count
        report.parameter_bytes += count * TYPES.get(tensor.number(3), ("", 0))[1]
    report.embedded = f"the file, {len(data)} bytes, beside ONNX Runtime"
