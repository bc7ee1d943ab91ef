# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions, pooling and resizing: the native engine against ONNX Runtime, and refusals."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import mlbridge
from mlbridge import cli

Array = np.ndarray[Any, Any]
Case = tuple[onnx.ModelProto, Array]
SEEDS = 60


def model(
    op: str, shape: tuple[int, ...], weights: list[Array], outputs: int = 1, **attributes: Any
) -> onnx.ModelProto:
    """One node, after which comes a Relu."""
    names = [f"w{i}" for i in range(len(weights))]
    results = ["a", "indices"][:outputs]
    nodes = [
        helper.make_node(op, ["x", *names], results, **attributes),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    given = [numpy_helper.from_array(w, name) for name, w in zip(names, weights, strict=True)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(shape))
    found = [y, helper.make_tensor_value_info("indices", TensorProto.INT64, [None] * len(shape))]
    graph = helper.make_graph(nodes, "spatial", [x], found[:outputs], given)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def window(pick: random.Random, dimensions: int) -> dict[str, Any]:
    """Attributes of a window."""
    attributes: dict[str, Any] = {
        "kernel_shape": [pick.randint(1, 4) for _ in range(dimensions)],
        "strides": [pick.choice((1, 1, 2, 3)) for _ in range(dimensions)],
    }
    way = pick.random()
    # A stride longer than the window makes ONNX Runtime's pools leave out what comes first.
    longest = max(np.subtract(attributes["strides"], attributes["kernel_shape"]))
    if way < 0.2 and longest <= 0:
        attributes["auto_pad"] = pick.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    elif way < 0.8:
        most = [k - 1 for k in attributes["kernel_shape"]]
        attributes["pads"] = [pick.randint(0, n) for n in most + most]
    return attributes


def lengths(pick: random.Random, dimensions: int) -> tuple[int, ...]:
    return tuple(pick.choice((9, 12, 16, 17, 20, 33)) for _ in range(dimensions))


def convolution(pick: random.Random, transposed: bool) -> Case:
    dimensions = pick.choice((1, 2, 2, 3))
    groups = pick.choice((1, 1, 2, 3))
    channels = groups * pick.choice((1, 1, 2, 5))
    outputs = groups * pick.choice((1, 2, 4, 6, 17))
    attributes = window(pick, dimensions) | {"group": groups}
    if "auto_pad" not in attributes:
        attributes["dilations"] = [pick.choice((1, 1, 2)) for _ in range(dimensions)]
    shape = (pick.choice((1, 2)), channels, *lengths(pick, dimensions))
    random_numbers = np.random.default_rng(pick.randint(0, 2**31))
    size = (channels, outputs // groups) if transposed else (outputs, channels // groups)
    weights = [random_numbers.standard_normal((*size, *attributes["kernel_shape"]))]
    if pick.random() < 0.7:
        weights.append(random_numbers.standard_normal(outputs))
    x = random_numbers.standard_normal(shape).astype(np.float32)
    op = "ConvTranspose" if transposed else "Conv"
    return model(op, shape, [w.astype(np.float32) for w in weights], **attributes), x


def pool(pick: random.Random, op: str) -> Case:
    dimensions = pick.choice((1, 2, 2, 3))
    shape = (pick.choice((1, 2)), pick.choice((1, 3)), *lengths(pick, dimensions))
    attributes = window(pick, dimensions)
    outputs = 1
    if op == "AveragePool":
        attributes["count_include_pad"] = pick.randint(0, 1)
    if op == "LpPool":
        attributes["p"] = pick.choice((1, 2, 3))
    if op == "MaxPool":
        attributes["storage_order"] = pick.randint(0, 1)
        outputs = pick.randint(1, 2)
        if "auto_pad" not in attributes:
            attributes["dilations"] = [pick.choice((1, 1, 2)) for _ in range(dimensions)]
    x = np.random.default_rng(pick.randint(0, 2**31)).standard_normal(shape).astype(np.float32)
    return model(op, shape, [], outputs, **attributes), x


def resize(pick: random.Random) -> Case:
    shape = (1, 2, *lengths(pick, 2))
    mode = pick.choice(("nearest", "linear", "cubic"))
    scales = [1, 1, pick.choice((0.5, 1, 2, 3)), pick.choice((0.5, 1, 2, 4))]
    attributes: dict[str, Any] = {
        "mode": mode,
        "coordinate_transformation_mode": pick.choice(
            ("half_pixel", "asymmetric", "pytorch_half_pixel")
        ),
    }
    if mode == "nearest":
        attributes["nearest_mode"] = pick.choice(("floor", "ceil", "round_prefer_floor"))
    x = np.random.default_rng(pick.randint(0, 2**31)).standard_normal(shape).astype(np.float32)
    none = np.zeros(0, np.float32)
    return model("Resize", shape, [none, np.array(scales, np.float32)], **attributes), x


KINDS: dict[str, Callable[[random.Random], Case]] = {
    "Conv": lambda pick: convolution(pick, False),
    "ConvTranspose": lambda pick: convolution(pick, True),
    "MaxPool": lambda pick: pool(pick, "MaxPool"),
    "AveragePool": lambda pick: pool(pick, "AveragePool"),
    "LpPool": lambda pick: pool(pick, "LpPool"),
    "Resize": resize,
}


def of_onnxruntime(made: onnx.ModelProto, x: Array) -> list[Array] | None:
    """None if it doesn't take the model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            made.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        found: list[Array] = session.run(None, {"x": x})
    except Exception:
        return None
    return found


def of_mlbridge(uri: str, x: Array) -> list[Array]:
    opened = mlbridge.Model.open(uri)
    signature = opened.model_signature
    assert signature
    opened.bind(signature)
    return [np.array(y) for y in opened.new_runner().evaluate(x=x).values()]


def saved(made: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_onnx_runtime(kind: str, tmp_path: Path) -> None:
    compared = 0
    for seed in range(SEEDS):
        made, x = KINDS[kind](random.Random(f"{kind} {seed}"))
        expected = of_onnxruntime(made, x)
        if expected is None:
            continue
        found = of_mlbridge(f"native:{saved(made, tmp_path)}", x)
        for ours, theirs in zip(found, expected, strict=True):
            node = onnx.printer.to_text(made.graph.node[0])
            np.testing.assert_allclose(ours, theirs, 1e-4, 1e-4, err_msg=f"{seed}: {node}")
        compared += 1
    assert compared > SEEDS // 3


CHILD = """
import sys, numpy, mlbridge
model = mlbridge.Model.open(sys.argv[1])
model.bind(model.model_signature)
y = model.new_runner().evaluate(x=numpy.load(sys.argv[2]))
numpy.save(sys.argv[3], y["y"])
"""


@pytest.mark.parametrize("kind", KINDS)
def test_instruction_sets_and_compiled_models_give_the_same_bits(kind: str, tmp_path: Path) -> None:
    made, x = KINDS[kind](random.Random(f"{kind} 5"))
    path, inputs, output = saved(made, tmp_path), tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(inputs, x)
    expected = of_mlbridge(f"native:{path}", x)[0]
    for isa in ("portable", "avx2"):
        arguments: list[str | Path] = [
            sys.executable,
            "-c",
            CHILD,
            f"native:{path}",
            inputs,
            output,
        ]
        subprocess.run(arguments, check=True, env=os.environ | {"MLBRIDGE_NATIVE_ISA": isa})
        np.testing.assert_array_equal(np.load(output), expected)
    library = tmp_path / "model.so"
    assert cli.main(["aot", str(path), "-o", str(library), "--shared", "--isa", "portable"]) == 0
    np.testing.assert_array_equal(of_mlbridge(f"aot:{library}", x)[0], expected)


def test_extremes_stay_where_they_are(tmp_path: Path) -> None:
    x = np.zeros((1, 1, 4, 40), np.float32)
    x[0, 0, 1, 3], x[0, 0, 2, 30] = np.nan, -np.inf
    made = model("MaxPool", x.shape, [], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    found = of_mlbridge(f"native:{saved(made, tmp_path)}", x)[0]
    assert np.isnan(found[0, 0, :3, 2:5]).all() and np.isnan(found).sum() == 9
    least = np.full((1, 1, 4, 8), -np.inf, np.float32)
    least[0, 0, 3, 6] = np.nan
    made = model("MaxPool", least.shape, [], 2, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
    _, indices = of_mlbridge(f"native:{saved(made, tmp_path)}", least)
    assert indices.tolist() == [[[[0, 1, 3, 5], [8, 9, 11, 30]]]]  # never of the padding
    weights = [np.ones((1, 1, 3, 3), np.float32)]
    made = model("Conv", x.shape, weights, pads=[1, 1, 1, 1])
    assert np.isnan(of_mlbridge(f"native:{saved(made, tmp_path)}", x)[0]).sum() == 9


@pytest.mark.parametrize("window", [1, 3])
def test_a_batch_of_none_and_lengths_that_change(window: int, tmp_path: Path) -> None:
    weights = [np.ones((4, 2, window), np.float32)]
    made = model("Conv", (1, 2, 8), weights, pads=[window // 2] * 2)
    for dimension in (0, 2):
        made.graph.input[0].type.tensor_type.shape.dim[dimension].dim_param = f"n{dimension}"
    path = saved(made, tmp_path)
    for shape in ((0, 2, 8), (3, 2, 5), (1, 2, 1)):
        found = of_mlbridge(f"native:{path}", np.ones(shape, np.float32))[0]
        assert found.shape == (shape[0], 4, shape[2])


@pytest.mark.parametrize("corner", [2.0**53, 1e30, np.inf, np.nan])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_corners_far_outside_make_what_is_extrapolated(
    mode: str, corner: float, tmp_path: Path
) -> None:
    weights = [np.array([corner] * 4, np.float32), np.array([2, 2], np.float32)]
    attributes: dict[str, Any] = {"mode": mode, "extrapolation_value": 7.0}
    attributes["coordinate_transformation_mode"] = "tf_crop_and_resize"
    made = model("Resize", (4, 4), weights, **attributes)
    found = of_mlbridge(f"native:{saved(made, tmp_path)}", np.ones((4, 4), np.float32))[0]
    np.testing.assert_array_equal(found, np.full((8, 8), 7, np.float32))


ONES = np.ones((4, 2, 3), np.float32)


@pytest.mark.parametrize(
    ("op", "shape", "weights", "attributes", "message"),
    [
        ("Conv", (1, 4, 9), [ONES], {"group": 3}, "3 groups don't fit an input of [1, 4, 9]"),
        ("Conv", (1, 2, 9), [ONES], {"pads": [-1, 0]}, "'pads' has the number -1; each must be 0"),
        ("Conv", (1, 2, 9), [ONES], {"pads": [2**40, 0]}, "'pads' has the number 1099511627776"),
        ("Conv", (1, 2, 9), [ONES], {"pads": [2**31, 0]}, "is too large"),
        ("Conv", (1, 2, 9), [ONES], {"strides": [0]}, "'strides' has the number 0; each must be 1"),
        ("Conv", (1, 2, 9), [ONES], {"dilations": [9]}, "covers 19 is longer than the padded"),
        ("Conv", (1, 2, 9), [ONES[:, :, :0]], {}, "a window of [0]"),
        ("Conv", (1, 2, 9), [ONES, ONES[0, 0]], {}, "its bias is [3] instead of [4]"),
        ("Conv", (1, 2, 9), [ONES], {"auto_pad": "SAME"}, "'auto_pad' is 'SAME'; it can be"),
        ("ConvTranspose", (1, 4, 9), [ONES], {"output_shape": [-1]}, "'output_shape' has the num"),
        ("MaxPool", (1, 2, 9), [], {}, "'kernel_shape' is missing"),
        ("MaxPool", (1, 2, 9), [], {"kernel_shape": [3, 3]}, "a window of [3, 3]"),
        ("LpPool", (1, 2, 9), [], {"kernel_shape": [3], "p": 0}, "'p' is 0"),
        ("Resize", (1, 2), [ONES[0, 0, :0], ONES[0, 0, :2] * -1], {}, "becomes -2"),
        ("LRN", (1, 2, 9), [], {"size": 0}, "'size' is 0"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_when_the_model_is_opened(
    op: str,
    shape: tuple[int, ...],
    weights: list[Array],
    attributes: dict[str, Any],
    message: str,
    tmp_path: Path,
) -> None:
    path = saved(model(op, shape, weights, **attributes), tmp_path)
    with pytest.raises(mlbridge.Error) as error:
        mlbridge.Model.open(f"native:{path}")
    assert message in str(error.value)
    assert op in str(error.value)
