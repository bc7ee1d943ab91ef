# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX models in process from Python."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlbridge
from mlbridge import Signature, TensorSpec, files
from mlbridge.cli.doctor import IDENTITY

pytestmark = pytest.mark.skipif(
    files.find_component("engine", "onnx") is None or not importlib.util.find_spec("onnxruntime"),
    reason="needs the onnx component and onnxruntime",
)


@pytest.fixture
def identity(tmp_path: Path) -> Path:
    path = tmp_path / "identity.onnx"
    path.write_bytes(IDENTITY)
    return path


def test_a_model_is_evaluated(identity: Path) -> None:
    runner = mlbridge.open(f"onnx:{identity}")
    assert str(runner.signature) == "(x: float32[1]) -> (y: float32[1])"
    for value in (1.5, np.float32(-0.25)):
        assert runner.evaluate_scalar(x=[value]) == value
    assert runner.evaluate()["y"].tolist() == [-0.25]


def test_the_runtime_is_found_wherever_python_has_it(
    identity: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLBRIDGE_ONNXRUNTIME", raising=False)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    assert mlbridge.open(f"onnx:{identity}").evaluate_scalar(x=[3]) == 3


def test_a_mismatch_names_both_sides(identity: Path) -> None:
    other = Signature([TensorSpec("x", "float32", [2])], [TensorSpec("y", "float32", [1])])
    with pytest.raises(mlbridge.Mismatch, match=r"float32\[2\]") as caught:
        mlbridge.open(f"onnx:{identity}", other)
    assert "x: float32[1]" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (None, FileNotFoundError),
        (b"", mlbridge.InvalidModel),
        (b"not ONNX at all", mlbridge.InvalidModel),
        (IDENTITY[:40], mlbridge.InvalidModel),
    ],
    ids=["missing", "empty", "text", "truncated"],
)
def test_files_that_are_no_model(
    tmp_path: Path, content: bytes | None, error: type[Exception]
) -> None:
    path = tmp_path / "policy.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error, match=r"policy\.onnx"):
        mlbridge.open(f"onnx:{path}")


def test_onnx_runtime_absent(identity: Path, tmp_path: Path) -> None:
    with pytest.raises(mlbridge.NotFound, match=r"runtime|ONNX Runtime"):
        mlbridge.open(f"onnx:{identity}?runtime={tmp_path}/nothing")


def test_the_native_engine_points_at_onnx_runtime_where_that_has_the_operator(
    tmp_path: Path,
) -> None:
    import onnx
    from onnx import defs
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    known = 24  # the operator set that version 1.23 of ONNX Runtime has, and each later one
    schemas: list[Any] = [s for s in defs.get_all_schemas_with_history() if not s.domain]
    runs = {kernel.op_name for kernel in state.get_all_opkernel_def() if not kernel.domain}
    runs |= {s.name for s in schemas if s.has_function or s.has_context_dependent_function}
    lacking = 0
    for name in sorted({s.name for s in schemas if s.since_version <= known and not s.deprecated}):
        value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
        output = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node(name, ["x"], ["y"])], "g", [value], [output]
        )
        opsets = [onnx.helper.make_opsetid("", known)]
        path = tmp_path / "m.onnx"
        onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
        try:
            mlbridge.Model.open(f"native:{path}").close()
            continue
        except mlbridge.Error as error:
            why = str(error)
        if f"does not run the operator {name} " in why:
            lacking += 1
            assert ("with onnx:" in why) == (name in runs), why
    assert lacking > 20
