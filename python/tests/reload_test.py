# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`?reload` with each engine that reads a file: the new one is taken between two calls."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mlbridge
from mlbridge.cli import main


def export(path: Path, weight: float, *, output: str = "y") -> Path:
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], [output])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, [1])],
        [numpy_helper.from_array(np.array([weight], np.float32), "w")],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def put(engine: str, folder: Path, weight: float, *, output: str = "y") -> Path:
    """The network as a file of this engine, renamed onto the one before."""
    made, place = export(folder / "fresh.onnx", weight, output=output), folder / "policy"
    if engine == "aot":
        shared = folder / "fresh.so"
        assert main(["aot", str(made), "--shared", "--isa", "portable", "-o", str(shared)]) == 0
        made = shared
    return made.rename(place)


@pytest.mark.parametrize("engine", ["onnx", "native", "aot"])
def test_a_renamed_file_is_taken_and_one_that_does_not_fit_is_not(
    engine: str, tmp_path: Path
) -> None:
    place = put(engine, tmp_path, 2)
    runner = mlbridge.open(f"{engine}:{place}?reload=0")
    assert runner.evaluate_scalar(x=[10]) == 20
    put(engine, tmp_path, 3)
    assert runner.evaluate_scalar(x=[10]) == 30
    put(engine, tmp_path, 4, output="z")
    assert runner.evaluate_scalar(x=[10]) == 30
    statistics = runner.model.statistics()
    assert (statistics["reload.loaded"], statistics["reload.failed"]) == ("1", "1")
    assert "another signature" in statistics["reload.error"]
    put(engine, tmp_path, 5)
    assert runner.evaluate_scalar(x=[10]) == 50
    place.write_text("damaged in place")
    assert runner.evaluate_scalar(x=[10]) == 50
    assert runner.model.new_runner().evaluate_scalar(x=[1]) == 5


def test_new_weights_of_a_compiled_network_are_taken(tmp_path: Path) -> None:
    def weights(value: float) -> Path:
        made = export(tmp_path / "fresh.onnx", value)
        fresh = tmp_path / "fresh.weights"
        assert main(["aot", str(made), "-o", str(fresh)]) == 0
        return fresh.rename(tmp_path / "policy.weights")

    shared = tmp_path / "policy.so"
    made = export(tmp_path / "first.onnx", 2)
    assert main(["aot", str(made), "--shared", "--weights", "external", "-o", str(shared)]) == 0
    runner = mlbridge.open(f"aot:{shared}?weights={weights(3)}?reload=0")
    assert runner.evaluate_scalar(x=[10]) == 30
    weights(4)
    assert runner.evaluate_scalar(x=[10]) == 40
    (tmp_path / "policy.weights").unlink()
    assert runner.evaluate_scalar(x=[10]) == 40
    weights(5)
    assert runner.evaluate_scalar(x=[10]) == 50


@pytest.mark.parametrize("length", [1, "n"])
@pytest.mark.parametrize("engine", ["onnx", "native"])
def test_external_data_is_read_with_its_file(
    engine: str, length: int | str, tmp_path: Path
) -> None:
    def put_apart(weight: float) -> None:
        network = onnx.load(export(tmp_path / "fresh.onnx", weight))
        for value in (*network.graph.input, *network.graph.output):
            lengths = value.type.tensor_type.shape.dim
            lengths[0].CopyFrom(onnx.TensorShapeProto.Dimension())
            if isinstance(length, int):
                lengths[0].dim_value = length
            else:
                lengths[0].dim_param = length
        for tensor in network.graph.initializer:
            onnx.external_data_helper.set_external_data(tensor, "policy.bin")
        (tmp_path / "policy.bin").unlink(missing_ok=True)
        onnx.save(network, tmp_path / "fresh.onnx")

    place = tmp_path / "policy.onnx"
    put_apart(2)
    (tmp_path / "fresh.onnx").rename(place)
    runner = mlbridge.open(f"{engine}:{place}?reload=0")
    assert runner.evaluate_scalar(x=[10]) == 20
    put_apart(3)
    assert runner.evaluate_scalar(x=[10]) == 20  # as the page says
    if length == "n":
        assert runner.evaluate(x=[10, 1])["y"].tolist() == [20, 2]
    place.touch()
    assert runner.evaluate(x=[10])["y"].tolist() == [30]
    (tmp_path / "policy.bin").unlink()
    with pytest.raises(mlbridge.Error, match=r"policy\.bin"):
        mlbridge.Model.open(f"{engine}:{place}")
