# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A look into models: what they are, and which engines run them."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

from ._core import Model, _inspect_native
from .errors import Error, InvalidModel, NotFound
from .reading import open_file, read_file

__all__ = ["Report", "Support", "inspect"]

SAVED_MODEL = "saved_model.pb"
ELF = b"\x7fELF"
#: The mark of ONNX Runtime's own format, at its fourth byte.
ORT = b"ORTM"
#: Schemes whose place is a file, which says more than the opened model does.
OF_FILES = ("onnx", "native", "aot")


@dataclass
class Support:
    """The answer of an engine: it runs a model, or why not."""

    runs: bool
    why: str = ""
    missing: list[str] = field(default_factory=list)
    """Operators that it lacks."""


@dataclass
class Report:
    """A description of a model, by its file; None where that says nothing."""

    path: str
    format: str
    file_bytes: int | None
    """None if the model is not in a file."""
    signature: str | None = None
    """The default one, if a SavedModel has several."""
    signatures: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    opsets: dict[str, int] = field(default_factory=dict)
    operators: dict[str, int] = field(default_factory=dict)
    parameters: int | None = None
    parameter_bytes: int | None = None
    external_files: list[str] = field(default_factory=list)
    multiply_adds: int | None = None
    """Multiplications of products, convolutions and recurrences in one evaluation, if the native
    engine plans it; dimensions that change count as 1, the bodies of loops once."""
    workspace_bytes: int | None = None
    """The memory of each runner of the native engine, besides inputs and outputs."""
    engines: dict[str, Support] = field(default_factory=dict)
    embedded: str = ""
    """The parts that a compiler which has this model built in would contain."""

    def as_json(self) -> dict[str, Any]:
        """The report for json.dumps."""
        return asdict(self)


def inspect(path: str | os.PathLike[str], *, options: str = "") -> Report:
    """Look into a model: .onnx, .ort, a shared object of `mlbridge aot`, or a SavedModel.

    `options` are those of a URI ("custom_ops=lib.so") for the engines that are tried. Instead of a
    path, any URI works, including a server's. Errors: NotFound, InvalidModel; of a URI, those of
    opening it.
    """
    path = os.fspath(path)
    uri = re.fullmatch(r"([A-Za-z][A-Za-z0-9+.-]*):([^?]*)\??(.*)", path, re.DOTALL)
    if uri is None or os.path.exists(path):  # noqa: PTH110
        return inspect_file(path, options)
    scheme, place = uri[1], os.fsdecode(unquote_to_bytes(uri[2]))
    if scheme in OF_FILES and Path(place).is_file():
        options = "&".join(filter(None, (uri[3], options)))
        report = inspect_file(place, options if scheme == "onnx" else "")
        if scheme == "onnx" or not options:
            return report
        path, options = f"{scheme}:{uri[2]}?{options}", ""
    else:
        report = Report(path, "", None)
    model = Model.open(path + (options and ("&" if uri[3] else "?") + options))
    report.signature = None if model.model_signature is None else str(model.model_signature)
    report.metadata, report.engines[scheme] = dict(model.metadata), Support(True)
    return report


def inspect_file(path: str, options: str) -> Report:
    """Look into a model in a file or folder."""
    report = Report(path, "", 0)
    if Path(path).is_dir():
        return inspect_folder(report)
    try:
        with open_file(path) as file:
            report.file_bytes = os.fstat(file.fileno()).st_size
            head = file.read(8)
    except OSError as error:
        if isinstance(error, NotFound):
            raise
        raise NotFound(f"{path}: {error.strerror}") from error
    if not head:
        raise InvalidModel(f"{path} is empty")
    if head.startswith(ELF):
        report.format = "shared object"
        try_engine("aot", report, "")
        if report.engines["aot"].runs:
            report.embedded = "the object itself; it needs nothing else"
        return report
    if head[4:] == ORT:
        report.format = "ONNX Runtime"
        report.embedded = f"the file, {report.file_bytes} bytes, beside ONNX Runtime"
    else:
        report.format = "ONNX"
        read_onnx(report)
    try_engine("onnx", report, options)
    return report


def read_onnx(report: Report) -> None:
    """Report what the library reads in the file, and whether the native engine runs it."""
    found = _inspect_native(report.path)
    if not found["operators"] and not found["opsets"]:
        raise InvalidModel(f"{report.path} is not a model: it has neither operators nor an opset")
    support = Support(*(found.pop(name) for name in ("runs", "why", "missing")))
    for name, value in found.items():
        if support.runs or name not in ("multiply_adds", "workspace_bytes"):
            setattr(report, name, value)
    report.engines["native"] = support
    if support.runs:
        report.embedded = (
            f"native and aot keep {report.parameter_bytes} bytes of weights and the plan, "
            "not the file"
        )


def try_engine(scheme: str, report: Report, options: str) -> None:
    """Open the model with an engine, which knows its signature best."""
    place = report.path.replace("%", "%25").replace("?", "%3F")
    try:
        model = Model.open(f"{scheme}:{place}" + (options and "?" + options))
    except Error as error:
        why = str(error)
        if why.startswith(f"'{scheme}:") and "': " in why:
            why = why.split("': ", 1)[1]
        report.engines[scheme] = Support(False, why)
        return
    report.engines[scheme] = Support(True)
    # With ?rename or ?choose it isn't the file's.
    if model.model_signature is not None and (options or report.signature is None):
        report.signature = str(model.model_signature)
    for key, value in model.metadata.items():
        report.metadata.setdefault(key, value)


def inspect_folder(report: Report) -> Report:
    """A TensorFlow SavedModel, read by TensorFlow's own classes."""
    file = Path(report.path, SAVED_MODEL)
    if not file.is_file():
        raise InvalidModel(f"{report.path} is a folder without {SAVED_MODEL}")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # it would greet on stderr
    try:
        from tensorflow.core.framework import types_pb2
        from tensorflow.core.protobuf import saved_model_pb2
    except ImportError as error:
        raise NotFound(
            f"{report.path}: a SavedModel is read by TensorFlow: pip install tensorflow ({error})"
        ) from None
    saved: Any = saved_model_pb2.SavedModel()
    try:
        saved.ParseFromString(read_file(file))
    except Exception as error:  # a DecodeError of protobuf
        raise InvalidModel(f"{file}: no SavedModel: {error}") from None

    def tensors(infos: Any) -> str:
        texts = []
        for name, info in sorted(infos.items()):
            known = info.dtype in types_pb2.DataType.values()
            kind = types_pb2.DataType.Name(info.dtype) if known else f"type {info.dtype}"
            kind = kind.removeprefix("DT_").lower()
            kind = {"float": "float32", "double": "float64"}.get(kind, kind)
            lengths = ["?" if dim.size < 0 else str(dim.size) for dim in info.tensor_shape.dim]
            shape = "..." if info.tensor_shape.unknown_rank else ", ".join(lengths)
            texts.append(f"{name}: {kind}" + (f"[{shape}]" if shape else ""))
        return f"({', '.join(texts)})"

    report.format = "TensorFlow SavedModel"
    for graph in saved.meta_graphs:
        for key, definition in graph.signature_def.items():
            if key != "__saved_model_init_op":
                text = f"{tensors(definition.inputs)} -> {tensors(definition.outputs)}"
                report.signatures[key] = text
        functions = [node for made in graph.graph_def.library.function for node in made.node_def]
        for node in [*graph.graph_def.node, *functions]:
            report.operators[node.op] = report.operators.get(node.op, 0) + 1
    usual = report.signatures.get("serving_default")
    report.signature = usual or next(iter(report.signatures.values()), None)
    report.file_bytes = sum(f.stat().st_size for f in Path(report.path).rglob("*") if f.is_file())
    report.embedded = "the machine code and weights that TensorFlow's compiler makes (tfaot)"
    report.engines["tfaot"] = Support(
        False, "compiled into a program by mlbridge_tensorflow_aot of CMake"
    )
    return report
