# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Networks quantized by ONNX Runtime: the native engine and compiled models against it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from exact_products import exact_options
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from processor import multiplies_bytes_exactly

import mlbridge
from mlbridge import cli, errors

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


def pictures(pick: random.Random) -> onnx.ModelProto:
    """Convolutions, of which one has more products than a float32 holds, pools and a softmax."""
    numbers = np.random.default_rng(pick.randint(0, 2**31))
    channels, middle = pick.choice((3, 4)), pick.choice((8, 30))
    shapes: dict[str, tuple[int, ...]] = {"w": (middle, channels, 3, 3), "b": (middle,)}
    shapes |= {"v": (middle, 1, 3, 3), "u": (5, middle, 3, 3)}
    weights = [
        numpy_helper.from_array(numbers.standard_normal(shape).astype(np.float32) / 4, name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "v"], ["c2"], group=middle, pads=[1, 1, 1, 1]),
        helper.make_node("AveragePool", ["c2"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("MaxPool", ["r1"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Concat", ["p", "m"], ["both"], axis=0),
        helper.make_node("Conv", ["both", "u"], ["c3"]),
        helper.make_node("GlobalAveragePool", ["c3"], ["g"]),
        helper.make_node("Flatten", ["g"], ["y"]),
    ]
    values = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, channels, 9, 9]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 5]),
    ]
    graph = helper.make_graph(nodes, "pictures", values[:1], values[1:], weights)
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


@pytest.mark.parametrize(("make", "quanta"), [(network, 1), (pictures, 2)])
@pytest.mark.parametrize("way", WAYS)
def test_answers_are_those_of_onnx_runtime_to_some_quanta(
    way: str, make: Callable[[random.Random], onnx.ModelProto], quanta: int, tmp_path: Path
) -> None:
    if way == "QOperator" and not multiplies_bytes_exactly():
        pytest.skip("ONNX Runtime's QLinearMatMul saturates on this CPU, which has no VNNI")
    path = tmp_path / "model.onnx"
    for seed in range(SEEDS):
        made = make(random.Random(f"{way} {seed}"))
        shape = [d.dim_value for d in made.graph.input[0].type.tensor_type.shape.dim]
        numbers = np.random.default_rng(seed)
        inputs = [numbers.standard_normal(shape).astype(np.float32) for _ in range(4)]
        quantize(way, made, inputs, seed, path)
        session = onnxruntime.InferenceSession(
            path, exact_options(), providers=["CPUExecutionProvider"]
        )
        expected = np.concatenate([session.run(None, {"x": x})[0] for x in inputs])
        found = np.concatenate([evaluated(f"native:{path}", x) for x in inputs])
        quantum = np.ptp(np.append(expected, 0)) / 255
        np.testing.assert_allclose(
            found, expected, 0, 1.01 * quanta * quantum, err_msg=f"seed {seed}"
        )
    library = tmp_path / "model.so"
    assert cli.main(["aot", str(path), "-o", str(library), "--shared", "--isa", "portable"]) == 0
    compiled = np.concatenate([evaluated(f"aot:{library}", x) for x in inputs])
    np.testing.assert_array_equal(compiled, found)


@pytest.mark.parametrize(
    ("op", "inputs", "options", "message"),
    [
        ("QLinearConcat", ["s", "z", "x", ""], {"axis": 0}, "is missing"),
        ("QLinearConcat", ["s", "z", "x", "", "z"], {"axis": 0}, "input 3 is missing"),
        ("QLinearConcat", ["s", "z", "x", "s", "z", "", "s", "z"], {"axis": 0}, "is missing"),
        ("QLinearConcat", ["s", "z", "x", "s", "z", "x"], {"axis": 0}, "this way of it"),
        ("QLinearSoftmax", ["x", "s", "z", "s", "z"], {"opset": -7}, "this way of it"),
        ("QLinearAveragePool", ["x", "s", "z", "s"], {"channels_last": 1}, "this way of it"),
        ("QLinearSigmoid", ["x", "many", "z", "s", "z"], {}, "scales that aren't scalars"),
    ],
)
def test_what_cannot_be_done_is_refused(
    op: str, inputs: list[str], options: dict[str, Any], message: str
) -> None:
    node = helper.make_node(op, inputs, ["y"], domain="com.microsoft", **options)
    weights = [
        numpy_helper.from_array(np.asarray(value), name)
        for name, value in (
            ("s", np.float32(0.5)),
            ("z", np.uint8(3)),
            ("many", np.ones(4, np.float32)),
        )
    ]
    x = helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 2, 4, 4])
    y = helper.make_tensor_value_info("y", TensorProto.UINT8, None)
    graph = helper.make_graph([node], "graph", [x], [y], weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    with pytest.raises((errors.InvalidModel, errors.Unsupported), match=message):
        mlbridge.Model.from_bytes("native:model.onnx", made.SerializeToString())
