# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fourier transforms, determinants, unique elements and boxes: the native engine against NumPy."""

from __future__ import annotations

import random
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


def evaluate(
    path: Path,
    op: str,
    inputs: list[Array | None],
    constant: int = 0,
    opset: int = 20,
    outputs: int = 1,
    **attributes: Any,
) -> list[Array]:
    """The results of one node, whose last inputs are constants; native: and aot: are the same."""
    names = ["" if value is None else f"i{k}" for k, value in enumerate(inputs)]
    results = [f"o{k}" for k in range(outputs)]
    own = TensorProto.FLOAT if op.endswith("Window") else TensorProto.INT64
    if inputs[0] is not None and op in ("DFT", "STFT", "Det", "Unique", "MaxUnpool"):
        own = helper.np_dtype_to_tensor_dtype(inputs[0].dtype)
    kinds = [own, *[TensorProto.INT64] * (outputs - 1)]
    fed = {n: a for n, a in zip(names, inputs, strict=True) if a is not None}
    fixed = [numpy_helper.from_array(fed.pop(n), n) for n in list(fed)[len(fed) - constant :]]
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in fed.items()
    ]
    graph = helper.make_graph(
        [helper.make_node(op, names, results, **attributes)],
        "signal",
        infos,
        [helper.make_tensor_value_info(n, k, None) for n, k in zip(results, kinds, strict=True)],
        fixed,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    onnx.save(model, path)
    opened = mlbridge.Model.open(f"native:{path}")
    signature = opened.model_signature
    assert signature
    opened.bind(signature)
    found = opened.new_runner().evaluate(**fed)
    return [np.array(found[name]) for name in results]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.onnx"


@pytest.mark.parametrize("seed", range(12))
def test_transforms_are_those_of_numpy(seed: int, path: Path) -> None:
    pick, numbers = random.Random(seed), np.random.default_rng(seed)
    dtype = pick.choice((np.float32, np.float64))
    shape = [pick.randint(1, 4), pick.choice((5, 8, 30)), pick.randint(2, 9)]
    axis = pick.choice((0, 1, 2, -2, -3))
    parts = pick.choice((1, 2))
    inverse, one_sided = pick.random() < 0.5, pick.random() < 0.5
    if one_sided:
        inverse, parts = False, 1
    x = numbers.standard_normal((*shape, parts)).astype(dtype)
    along = axis if axis >= 0 else axis + 1
    n = pick.choice((None, 3, 16, 31))
    wide = x.astype(np.complex128) @ np.array([1, 1j][:parts])
    made = (np.fft.ifft if inverse else np.fft.fft)(wide, n, along)
    if one_sided:
        made = np.fft.rfft(wide.real, n, along)
    expected = np.stack([made.real, made.imag], -1)
    length = None if n is None else np.array(n, np.int64)
    [found] = evaluate(
        path,
        "DFT",
        [x, length, np.array(axis, np.int64)],
        constant=1 if n is None else 2,
        inverse=int(inverse),
        onesided=int(one_sided),
    )
    tolerance = 1e-4 if dtype == np.float32 else 1e-11
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    if seed == 0:
        library = str(path.with_suffix(".so"))
        assert cli.main(["aot", str(path), "-o", library, "--shared", "--isa", "portable"]) == 0
        compiled = mlbridge.Model.open(f"aot:{library}")
        signature = compiled.model_signature
        assert signature
        compiled.bind(signature)
        again = compiled.new_runner().evaluate(i0=x)["o0"]
        np.testing.assert_array_equal(again, found)


@pytest.mark.parametrize("length", [0, 1, 2, 64])
@pytest.mark.parametrize("periodic", [0, 1])
def test_windows(length: int, periodic: int, path: Path) -> None:
    turns = np.arange(length) / max(length - (not periodic), 1) * 2 * np.pi
    windows = {
        "HannWindow": 0.5 - 0.5 * np.cos(turns),
        "HammingWindow": 25 / 46 - 21 / 46 * np.cos(turns),
        "BlackmanWindow": 0.42 - 0.5 * np.cos(turns) + 0.08 * np.cos(2 * turns),
    }
    for op, expected in windows.items():
        for fixed in (0, 1):  # a length that is known beforehand, or not
            size = np.array(length, np.int32)
            [found] = evaluate(path, op, [size], fixed, periodic=periodic)
            np.testing.assert_allclose(found, expected, atol=1e-7)


def test_determinants(path: Path) -> None:
    numbers = np.random.default_rng(1)
    for shape in ((1, 1), (2, 2), (5, 4, 4), (2, 3, 9, 9), (0, 0), (3, 0, 0)):
        for dtype in (np.float32, np.float64):
            x = numbers.standard_normal(shape)
            [found] = evaluate(path, "Det", [x.astype(dtype)])
            np.testing.assert_allclose(found, np.linalg.det(x), rtol=1e-4)
    singular = np.array([[0, 1, 2], [0, 3, 4], [0, 5, 6]], np.float32)
    assert evaluate(path, "Det", [singular])[0] == 0
    with pytest.raises(mlbridge.InvalidModel):
        evaluate(path, "Det", [np.zeros((2, 3), np.float32)])


@pytest.mark.parametrize("seed", range(40))
def test_unique_elements_are_those_of_numpy(seed: int, path: Path) -> None:
    pick, numbers = random.Random(seed), np.random.default_rng(seed)
    dtype = np.dtype(
        pick.choice(("float32", "float64", "float16", "int64", "uint64", "int8", "uint8", "bool"))
    )
    shape = tuple(pick.choice((1, 2, 3, 40)) for _ in range(pick.randint(0, 3)))
    x = np.asarray(numbers.integers(-2, 3, shape)).astype(dtype)
    if dtype.kind == "f" and x.size:
        x.flat[0] = pick.choice((np.inf, -np.inf, -0.0, 1))
    axis = pick.choice((None, *range(-len(shape), len(shape))))
    is_sorted = pick.random() < 0.5
    values, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    if not is_sorted:
        order = np.argsort(first)
        values = np.take(values, order, 0 if axis is None else axis)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    attributes = {} if axis is None else {"axis": axis}
    found = evaluate(path, "Unique", [x], outputs=4, sorted=int(is_sorted), **attributes)
    for one, other in zip(found, (values, first, inverse.reshape(-1), counts), strict=True):
        np.testing.assert_array_equal(one, other)


def test_nan_is_one_value_and_the_greatest(path: Path) -> None:
    x = np.array([np.nan, 2, np.inf, np.nan, 2], np.float32)
    values, first, inverse, counts = evaluate(path, "Unique", [x], outputs=4)
    np.testing.assert_array_equal(values, [2, np.inf, np.nan])
    np.testing.assert_array_equal(first, [1, 2, 0])
    np.testing.assert_array_equal(inverse, [2, 0, 1, 2, 0])
    np.testing.assert_array_equal(counts, [2, 1, 2])


@pytest.mark.parametrize("seed", range(12))
def test_boxes_that_overlap_are_suppressed_as_by_onnx_runtime(seed: int, path: Path) -> None:
    pick, numbers = random.Random(seed), np.random.default_rng(seed)
    batch, classes, n = pick.randint(1, 2), pick.randint(1, 3), pick.choice((1, 7, 60))
    boxes = numbers.uniform(0, 1, (batch, n, 4)).astype(np.float32)
    scores = numbers.uniform(0, 1, (batch, classes, n)).astype(np.float32).round(2)
    most = None if seed == 0 else np.array([pick.choice((0, 1, 5, 100))], np.int64)
    bounds = [np.array([pick.choice((0.1, 0.5))], np.float32) for _ in range(2)]
    inputs = [boxes, scores, most, *bounds][: pick.choice((3, 4, 5))]
    center = pick.randint(0, 1)
    [found] = evaluate(path, "NonMaxSuppression", inputs, opset=11, center_point_box=center)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    fed = {f"i{k}": a for k, a in enumerate(inputs) if a is not None}
    np.testing.assert_array_equal(found, session.run(None, fed)[0])


def test_what_fits_no_signal_is_refused(path: Path) -> None:
    x = np.zeros((2, 8, 1), np.float32)
    for length in (0, -1, 1 << 40):
        with pytest.raises(mlbridge.Error, match=r"length|longer"):
            evaluate(path, "DFT", [x, np.array(length, np.int64)], 1)
    for step, length in ((0, 4), (1, 9), (1, 0), (-1, 2)):
        with pytest.raises(mlbridge.InvalidModel, match="frames"):
            evaluate(path, "STFT", [x, np.array(step), None, np.array(length)], 2)
    for size in (-1, 1 << 40):
        with pytest.raises(mlbridge.Error):
            evaluate(path, "HannWindow", [np.array(size, np.int64)], 1)
    one = np.zeros((1, 1, 2, 2), np.float32)
    where = np.zeros(one.shape, np.int64)
    for shape in ((1, 1, 2, 2), (1, 1, 9), (1, 1, 3, -3)):
        with pytest.raises(mlbridge.InvalidModel):
            evaluate(path, "MaxUnpool", [one, where, np.array(shape, np.int64)], 1,
                     kernel_shape=[2, 2])  # fmt: skip
    with pytest.raises(mlbridge.Error, match="out of range"):
        evaluate(path, "MaxUnpool", [one, where + 99], kernel_shape=[2, 2])
