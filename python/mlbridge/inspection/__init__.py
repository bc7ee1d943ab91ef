# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a model is, and what runs it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote_to_bytes

from .._core import Model, _inspect_native
from ..errors import Error, InvalidModel, NotFound
from .onnx_file import read_onnx
from .ort_file import IDENTIFIER, read_ort
from .report import Report, Support
from .saved_model import FILE, read_saved_model

__all__ = ["Report", "Support", "inspect"]

ELF = b"\x7fELF"
#: Schemes whose place is a file, which says more than the opened model does.
OF_FILES = ("onnx", "native", "aot")


def inspect(path: str | os.PathLike[str], *, options: str = "") -> Report:
    """Look into a model: .onnx, .ort, a shared object of `mlbridge compile`, or a SavedModel.

    `options` are those of a URI ("custom_ops=lib.so") for the engines that are tried. Instead of a
    path any URI will do, also one of a server. Errors: NotFound, InvalidModel; of a URI, those of
    opening it.
    """
    path = os.fspath(path)
    uri = re.fullmatch(r"([A-Za-z][A-Za-z0-9+.-]*):([^?]*)\??(.*)", path, re.DOTALL)
    if uri is None or Path(path).exists():
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
    """The same of a file or folder."""
    report = Report(path, "", 0)
    try:
        if Path(path).is_dir():
            if not Path(path, FILE).is_file():
                raise InvalidModel(f"{path} is a folder without {FILE}")
            read_saved_model(path, report)
            report.engines["tfaot"] = Support(
                False, "compiled into a program by mlbridge_tensorflow_aot of CMake"
            )
            return report
        data = Path(path).read_bytes()
    except OSError as error:
        raise NotFound(f"{path}: {error.strerror}") from error
    report.file_bytes = len(data)
    if not data:
        raise InvalidModel(f"{path} is empty")
    try:
        if data[4:8] == IDENTIFIER:
            read_ort(data, report)
            engines = ["onnx"]
        elif data[:4] == ELF:
            report.format = "shared object"
            engines = ["aot"]
        else:
            read_onnx(data, report)
            engines = ["onnx"]
    except InvalidModel as error:
        raise InvalidModel(f"{path}: {error}") from None
    if report.format == "ONNX" and not report.operators and not report.opsets:
        raise InvalidModel(f"{path} is no model: it has neither operators nor an opset")
    if report.format == "ONNX":
        report.engines["native"] = try_native(path, report)
        if report.engines["native"].runs:
            report.embedded = (
                f"{report.parameter_bytes} bytes of weights and the plan of the network "
                "(native, aot); not the file"
            )
    for scheme in engines:
        report.engines[scheme] = try_engine(
            scheme, path, options if scheme == "onnx" else "", report
        )
    if report.format == "shared object" and report.engines["aot"].runs:
        report.embedded = "the object itself; it needs nothing else"
    return report


def try_native(path: str, report: Report) -> Support:
    """Plan the model with the native engine, which counts its work by the way."""
    try:
        found = _inspect_native(path)
    except Error as error:
        return Support(False, str(error))
    if found["runs"]:
        report.multiply_adds = found["multiply_adds"]
        report.multiply_adds_exact = True
        report.workspace_bytes = found["workspace_bytes"]
    return Support(found["runs"], found["why"], found["missing"])


def try_engine(scheme: str, path: str, options: str, report: Report) -> Support:
    """Open the model with an engine, which knows its signature best."""
    try:
        model = Model.open(f"{scheme}:{path.replace('?', '%3F')}" + (options and "?" + options))
    except Error as error:
        prefix = f"'{scheme}:"
        why = str(error)
        if why.startswith(prefix) and "': " in why:
            why = why.split("': ", 1)[1]
        return Support(False, why)
    # With ?rename or ?choose it isn't the file's.
    if model.model_signature is not None and (options or report.signature is None):
        report.signature = str(model.model_signature)
    for key, value in model.metadata.items():
        report.metadata.setdefault(key, value)
    return Support(True)
