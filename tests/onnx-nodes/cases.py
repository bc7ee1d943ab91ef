# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ONNX project's node tests as files: a model, its inputs, the outputs expected, tolerances.

The package `onnx` generates them in memory, which takes a while; they are kept in build/ for each
version of it.
"""

from __future__ import annotations

import json
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
FORMAT = 1  # of the folder


@dataclass(frozen=True)
class Case:
    """One test, in a folder of its own."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def model(self) -> Path:
        return self.folder / "model.onnx"

    def tolerance(self) -> tuple[float, float]:
        """Relative and absolute, as the ONNX project states them for this test."""
        facts = json.loads((self.folder / "facts.json").read_text())
        return facts["rtol"], facts["atol"]

    def has_tensors(self) -> bool:
        """True if all inputs and outputs are tensors; else the files of inputs aren't there."""
        return bool(json.loads((self.folder / "facts.json").read_text())["tensors"])

    def inputs(self) -> dict[str, NDArray[Any]]:
        return self._tensors("input")

    def outputs(self) -> dict[str, NDArray[Any]]:
        return self._tensors("output")

    def _tensors(self, kind: str) -> dict[str, NDArray[Any]]:
        found = {}
        for path in sorted(self.folder.glob(f"{kind}_*.pb")):
            tensor = onnx.load_tensor(path)
            found[tensor.name] = onnx.numpy_helper.to_array(tensor)
        return found


def operators(model: onnx.ModelProto) -> set[str]:
    """The operators of a model, of its subgraphs too; those of other domains with the domain."""
    found = set()

    def walk(nodes: Any) -> None:
        for node in nodes:
            domain = "" if node.domain in ("", "ai.onnx") else f"{node.domain}."
            found.add(domain + node.op_type)
            for attribute in node.attribute:
                for graph in [attribute.g, *attribute.graphs]:
                    walk(graph.node)

    walk(model.graph.node)
    for function in model.functions:
        walk(function.node)
    return found


def _write(folder: Path, case: Any) -> None:
    folder.mkdir()
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    [(inputs, outputs)] = case.data_sets
    graph = case.model.graph
    tensors = [
        (kind, i, value, info)
        for kind, values, infos in (
            ("input", inputs, graph.input),
            ("output", outputs, graph.output),
        )
        for i, (value, info) in enumerate(zip(values, infos, strict=True))
    ]
    plain = all(info.type.WhichOneof("value") == "tensor_type" for *_, info in tensors)
    for kind, i, value, info in tensors if plain else []:
        if not isinstance(value, onnx.TensorProto):
            value = onnx.numpy_helper.from_array(np.asarray(value), info.name)
        value.name = info.name
        (folder / f"{kind}_{i:02}.pb").write_bytes(value.SerializeToString())
    facts = {"rtol": case.rtol, "atol": case.atol, "tensors": plain}
    (folder / "facts.json").write_text(json.dumps(facts))


def all_cases() -> list[Case]:
    """Generated if they are not there."""
    base = ROOT / "build" / "onnx-nodes" / f"{onnx.__version__}-{FORMAT}"
    if not base.is_dir():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # overflows that the tests are about
            from onnx.backend.test.case.node import collect_testcases

            generated = collect_testcases(None)
        part = base.with_name(base.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for case in generated:
            _write(part / case.name, case)
        part.rename(base)
    return [Case(folder) for folder in sorted(base.iterdir())]
