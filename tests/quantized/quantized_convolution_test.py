# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions of bytes: sums are exact, and quantized results those of ONNX Runtime."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from exact_products import exact_options
from onnx import TensorProto, helper, numpy_helper

import mlbridge
from mlbridge import cli

Array = np.ndarray[Any, Any]
SEEDS = 60
#: Channels and window lengths: sums that float32 has exactly, and longer ones.
SIZES = ((1, 3), (3, 3), (4, 1), (40, 3), (300, 1))


class Convolution:
    """A random convolution of bytes and its exact sums."""

    def __init__(self, seed: int) -> None:
        pick, numbers = random.Random(seed), np.random.default_rng(seed)
        channels, window = pick.choice(SIZES)
        dimensions = pick.choice((1, 2, 2, 3 if channels < 40 else 2))
        self.groups = pick.choice((1, 1, 2)) if channels < 300 else 1
        outputs = pick.choice((1, 3, 8)) * self.groups
        batch = pick.choice((1, 2))
        self.attributes: dict[str, Any] = {
            "strides": [pick.choice((1, 2)) for _ in range(dimensions)],
            "dilations": [pick.choice((1, 1, 2)) for _ in range(dimensions)],
            "pads": [pick.choice((0, 1)) for _ in range(2 * dimensions)],
            "group": self.groups,
        }

        def array(dtype: Any, *shape: int) -> Array:
            info = np.iinfo(dtype)
            return numbers.integers(info.min, info.max + 1, shape).astype(dtype)

        unsigned = pick.random() < 0.6
        self.x = array(
            np.uint8 if unsigned else np.int8, batch, channels * self.groups, *[9] * dimensions
        )
        weights = np.uint8 if unsigned and pick.random() < 0.3 else np.int8
        self.w = array(weights, outputs, channels, *[window] * dimensions)
        self.zero_x = array(self.x.dtype) if pick.random() < 0.8 else np.zeros((), self.x.dtype)
        per_channel = weights == np.int8 and pick.random() < 0.5
        self.zero_w = np.zeros(outputs if per_channel else (), weights)
        if pick.random() < 0.4:
            self.zero_w = array(weights, *self.zero_w.shape)
        size = self.zero_w.shape
        self.scale_w = numbers.uniform(0.001, 0.02, size).astype(np.float32)
        self.bias = numbers.integers(-4000, 4000, outputs).astype(np.int32)

    def sums(self) -> Array:
        pads = self.attributes["pads"]
        half = len(pads) // 2
        x = self.x.astype(np.int64) - int(self.zero_x)
        x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:half], pads[half:], strict=True)])
        each = (-1, *[1] * (self.w.ndim - 1))
        w = self.w.astype(np.int64) - self.zero_w.astype(np.int64).reshape(each)
        covered = [
            (k - 1) * d + 1
            for k, d in zip(self.w.shape[2:], self.attributes["dilations"], strict=True)
        ]
        axes = tuple(range(2, x.ndim))
        windows = np.lib.stride_tricks.sliding_window_view(x, covered, axes)
        steps = tuple(slice(None, None, s) for s in self.attributes["strides"])
        taps = tuple(slice(None, None, d) for d in self.attributes["dilations"])
        windows = windows[(slice(None), slice(None), *steps, *taps)]
        parts = [
            np.tensordot(
                group_x, group_w, ((1, *range(2 + half, 2 + 2 * half)), tuple(range(1, w.ndim)))
            )
            for group_x, group_w in zip(
                np.split(windows, self.groups, 1), np.split(w, self.groups), strict=True
            )
        ]
        return np.moveaxis(np.concatenate(parts, -1), -1, 1)

    def model(self, op: str, inputs: dict[str, Array]) -> onnx.ModelProto:
        """One node, whose inputs but the first are constants."""
        kinds = {"ConvInteger": TensorProto.INT32}
        output = kinds.get(op, helper.np_dtype_to_tensor_dtype(self.x.dtype))
        node = helper.make_node(op, list(inputs), ["y"], **self.attributes)
        given = [numpy_helper.from_array(a, name) for name, a in inputs.items() if name != "x"]
        x = helper.make_tensor_value_info(
            "x", helper.np_dtype_to_tensor_dtype(self.x.dtype), self.x.shape
        )
        y = helper.make_tensor_value_info("y", output, [None] * self.x.ndim)
        graph = helper.make_graph([node], "convolution", [x], [y], given)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def evaluated(uri: str, x: Array) -> Array:
    opened = mlbridge.Model.open(uri)
    signature = opened.model_signature
    assert signature
    opened.bind(signature)
    return np.array(opened.new_runner().evaluate(x=x)["y"])


def test_sums_are_exact(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    for seed in range(SEEDS):
        made = Convolution(seed)
        inputs = {"x": made.x, "w": made.w, "zero_x": made.zero_x, "zero_w": made.zero_w}
        onnx.save(made.model("ConvInteger", inputs), path)
        found = evaluated(f"native:{path}", made.x)
        np.testing.assert_array_equal(found, made.sums(), err_msg=f"seed {seed}")


def quantized(made: Convolution) -> onnx.ModelProto:
    sums = made.sums()
    scale = np.float32(np.ptp(sums) * 0.02 * float(made.scale_w.mean()) / 200 + 1e-6)
    inputs = {
        "x": made.x,
        "scale_x": np.array(0.02, np.float32),
        "zero_x": made.zero_x,
        "w": made.w,
        "scale_w": made.scale_w,
        "zero_w": made.zero_w,
        "scale_y": np.array(scale),
        "zero_y": np.array(10, made.x.dtype),
        "bias": made.bias,
    }
    return made.model("QLinearConv", inputs)


def test_quantized_results_are_those_of_onnx_runtime_to_a_quantum(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    different = count = compared = 0
    for seed in range(SEEDS):
        made = Convolution(seed)
        onnx.save(quantized(made), path)
        found = evaluated(f"native:{path}", made.x)
        try:
            session = onnxruntime.InferenceSession(
                path, exact_options(), providers=["CPUExecutionProvider"]
            )
            expected = session.run(None, {"x": made.x})[0]
        except Exception:  # zero points of each channel that differ
            continue
        compared += 1
        difference = np.abs(found.astype(int) - expected.astype(int))
        assert difference.max(initial=0) <= 1, f"seed {seed}"
        different += int((difference != 0).sum())
        count += difference.size
    assert compared > SEEDS // 2
    assert different <= count / 200
    library = tmp_path / "model.so"
    assert cli.main(["aot", str(path), "-o", str(library), "--shared", "--isa", "portable"]) == 0
    np.testing.assert_array_equal(evaluated(f"aot:{library}", made.x), found)


@pytest.mark.parametrize("changed", ["scale_x", "scale_w", "scale_y", "zero_y", "bias", "zero_w"])
def test_inputs_of_other_types_are_refused(changed: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    model = quantized(Convolution(1))
    kinds = {"scale_x": np.int8, "scale_w": np.float64, "scale_y": np.uint8, "zero_y": np.int64,
             "bias": np.float32, "zero_w": np.int64}  # fmt: skip
    for weights in model.graph.initializer:
        if weights.name == changed:
            array = numpy_helper.to_array(weights).astype(kinds[changed])
            weights.CopyFrom(numpy_helper.from_array(array, changed))
    onnx.save(model, path)
    with pytest.raises((mlbridge.Unsupported, mlbridge.InvalidModel)):
        mlbridge.Model.open(f"native:{path}")
