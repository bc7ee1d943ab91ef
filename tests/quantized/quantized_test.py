# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Networks quantized by ONNX Runtime: the native engine and compiled models against it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

import mlbridge
from mlbridge import cli

Array = np.ndarray[Any, Any]
WAYS = ("dynamic", "QDQ", "QOperator")
SEEDS = 8


def network(pick: random.Random) -> onnx.ModelProto:
    """A small perceptron of products with a bias, as Gemm or as MatMul and Add."""
    numbers = np.random.default_rng(pick.randint(0, 2**31))
    widths = [pick.choice((1, 3, 8, 17, 33, 64)) for _ in range(pick.randint(2, 4))]
    nodes, weights, at = [], [], "x"
    for i, (k, n) in enumerate(itertools.pairwise(widths)):
        for name, shape in ((f"w{i}", (k, n)), (f"b{i}", (n,))):
            made = numbers.standard_normal(shape).astype(np.float32)
            weights.append(numpy_helper.from_array(made, name))
        if pick.random() < 0.5:
            nodes.append(helper.make_node("Gemm", [at, f"w{i}", f"b{i}"], [f"s{i}"]))
        else:
            nodes.append(helper.make_node("MatMul", [at, f"w{i}"], [f"p{i}"]))
            nodes.append(helper.make_node("Add", [f"p{i}", f"b{i}"], [f"s{i}"]))
        at = f"s{i}"
        if i + 2 < len(widths):
            op = pick.choice(("Relu", "Sigmoid", "Tanh", "LeakyRelu"))
            nodes.append(helper.make_node(op, [at], [f"y{i}"]))
            at = f"y{i}"
    nodes[-1].output[0] = "y"
    rows = pick.choice((1, 2, 5, 16))
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, width])
        for name, width in (("x", widths[0]), ("y", widths[-1]))
    ]
    graph = helper.make_graph(nodes, "perceptron", values[:1], values[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Calibration(CalibrationDataReader):  # type: ignore[misc]
    """Inputs from which ranges are taken."""

    def __init__(self, inputs: list[Array]) -> None:
        self.left: Iterator[Array] = iter(inputs)

    def get_next(self) -> dict[str, Array] | None:
        x = next(self.left, None)
        return None if x is None else {"x": x}


def quantize(way: str, made: onnx.ModelProto, inputs: list[Array], seed: int, path: Path) -> None:
    signed = QuantType.QInt8 if seed % 2 else QuantType.QUInt8
    several = {"per_channel": seed % 4 >= 2, "weight_type": QuantType.QInt8}
    if way == "dynamic":
        quantize_dynamic(made, path, **several | {"weight_type": signed})
        return
    quantize_static(
        made,
        path,
        Calibration(inputs),
        quant_format=QuantFormat[way],
        activation_type=signed,
        **several,
    )


def evaluated(uri: str, x: Array) -> Array:
    opened = mlbridge.Model.open(uri)
    signature = opened.model_signature
    assert signature
    opened.bind(signature)
    return np.array(opened.new_runner().evaluate(x=x)["y"])


@pytest.mark.parametrize("way", WAYS)
def test_answers_are_those_of_onnx_runtime_to_a_quantum(way: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    for seed in range(SEEDS):
        made = network(random.Random(f"{way} {seed}"))
        shape = [d.dim_value for d in made.graph.input[0].type.tensor_type.shape.dim]
        numbers = np.random.default_rng(seed)
        inputs = [numbers.standard_normal(shape).astype(np.float32) for _ in range(4)]
        quantize(way, made, inputs, seed, path)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        expected = np.concatenate([session.run(None, {"x": x})[0] for x in inputs])
        found = np.concatenate([evaluated(f"native:{path}", x) for x in inputs])
        quantum = np.ptp(np.append(expected, 0)) / 255
        np.testing.assert_allclose(found, expected, 0, 1.01 * quantum, err_msg=f"seed {seed}")
    library = tmp_path / "model.so"
    assert cli.main(["aot", str(path), "-o", str(library), "--shared", "--isa", "portable"]) == 0
    compiled = np.concatenate([evaluated(f"aot:{library}", x) for x in inputs])
    np.testing.assert_array_equal(compiled, found)
