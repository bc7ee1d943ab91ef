# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The server answers what the model answers in process, and says why it can't start."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mlbridge
from programs.catalog import ProgramsError
from programs.server import ModelServer


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A linear layer, and the best of its scores plus an offset."""
    weights = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["features", "weights"], ["scores"]),
            helper.make_node("ArgMax", ["scores"], ["best"], axis=1, keepdims=0),
            helper.make_node("Add", ["best", "offset"], ["action"]),
        ],
        "small",
        [
            helper.make_tensor_value_info("features", TensorProto.FLOAT, [1, 4]),
            helper.make_tensor_value_info("offset", TensorProto.INT64, [1]),
        ],
        [
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 3]),
            helper.make_tensor_value_info("action", TensorProto.INT64, [1]),
        ],
        [numpy_helper.from_array(weights, "weights")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(made, {"note": "what compilers read"})
    path = tmp_path / "small.onnx"
    onnx.save(made, path)
    return path


def test_the_server_answers_like_the_model_in_process(model: Path, tmp_path: Path) -> None:
    with ModelServer(model, tmp_path / "server.log") as server:
        runners = [mlbridge.open(uri) for uri in (f"onnx:{model}", server.uri)]
        for offset in (0, 5, -(2**40)):
            features = np.linspace(-1, offset % 7, 4, dtype=np.float32).reshape(1, 4)
            inside, outside = (
                runner.evaluate(features=features, offset=np.array([offset], np.int64))
                for runner in runners
            )
            assert inside["action"] == outside["action"]
            assert inside["scores"].tobytes() == outside["scores"].tobytes()
        metadata = mlbridge.Model.open(server.uri).metadata
        assert metadata["note"] == "what compilers read"
    assert server.statistics["replies"] == 3
    assert server.statistics["errors"] == 0


def test_a_damaged_model_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(b"no model")
    with (
        pytest.raises(ProgramsError, match=r"(?s)did not start.*bad\.onnx"),
        ModelServer(path, tmp_path / "server.log"),
    ):
        pass
