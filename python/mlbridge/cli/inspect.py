# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge inspect`: what a model is, and what runs it."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from .arguments import JSON, Parser
from .common import DONE, printable

if TYPE_CHECKING:
    from ..inspection import Report

WIDEST = 100


def add_arguments(parser: Parser) -> None:
    """The options of `mlbridge inspect`."""
    parser.describe(
        """\
Shows what a model is: inputs and outputs, metadata, operators, parameters, the multiply-adds of one
evaluation, which engines run it (and if not why), and what a compiler would contain that has it
built in. MODEL is an .onnx or .ort file, a shared object of `mlbridge aot`, the folder of a
TensorFlow SavedModel, or a URI (of a server only the signature and metadata are shown).""",
        "example:\n  mlbridge inspect policy.onnx\n  mlbridge inspect unix:/tmp/policy.sock",
    )
    parser.add_argument("model", metavar="MODEL", help="a file, a SavedModel's folder, or a URI")
    parser.option("--options TEXT", "options of the onnx: URI, such as custom_ops=LIB", default="")
    parser.option("--json", JSON)


def run(options: argparse.Namespace) -> int:
    """Print what is known of a model."""
    from ..inspection import inspect

    report = inspect(options.model, options=options.options)
    if options.json:
        print(json.dumps(report.as_json(), indent=1, ensure_ascii=False))
        return DONE
    for name, value in lines(report):
        print(f"{name:14} {value}")
    return DONE


def lines(report: Report) -> list[tuple[str, str]]:
    """Name and text of each line."""
    format_ = "" if report.file_bytes is None else f": {report.format}, {report.file_bytes} bytes"
    found = [("model", report.path + format_)]
    if len(report.signatures) > 1:
        found += [(f"signature {key}", text) for key, text in sorted(report.signatures.items())]
    elif report.signature:
        found.append(("signature", report.signature))
    for key, value in sorted(report.metadata.items()):
        flat = printable(" ".join(value.split()))
        found.append(("metadata", f"{key} = {flat[:WIDEST]}{'…' if len(flat) > WIDEST else ''}"))
    if report.opsets:
        found.append(("opsets", ", ".join(f"{d} {v}" for d, v in sorted(report.opsets.items()))))
    if report.operators:
        counted = sorted(report.operators.items(), key=lambda item: (-item[1], item[0]))
        found.append(("operators", ", ".join(f"{name} {count}" for name, count in counted)))
    if report.parameters is not None:
        found.append(("parameters", f"{report.parameters} ({report.parameter_bytes} bytes)"))
    if report.external_files:
        found.append(("weights in", ", ".join(report.external_files)))
    if report.multiply_adds is not None:
        found.append(("multiply-adds", f"{report.multiply_adds} per evaluation"))
    for engine, support in sorted(report.engines.items(), reverse=True):
        verdict = "runs" if support.runs else f"no: {support.why}"
        unnamed = [op for op in support.missing if op.split("::")[-1] not in support.why]
        if unnamed:
            verdict += f" (it lacks {', '.join(unnamed)})"
        if support.runs and engine == "native" and report.workspace_bytes is not None:
            verdict += f", with {report.workspace_bytes} bytes for each runner"
        found.append((f"{engine}:", verdict))
    if report.embedded:
        found.append(("embedded", report.embedded))
    return found
