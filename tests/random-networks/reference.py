# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The answers of ONNX Runtime, and how far from them another right answer may be.

A right answer differs by rounding, which later nodes may magnify. How much is measured: the network
is evaluated again with random relative noise of eight times the unit roundoff on every input,
weight and intermediate value of floating point. An answer may be four times as far away as the
farthest of those, and 2e-6 of itself (4e-15 in double precision) for functions that are
approximated, which need not round correctly. Elements that noise makes another integer, infinite or
not a number (a near-tie of an ArgMax, for instance) aren't compared; they are counted.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from network import Array, Network
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from processor import multiplies_bytes_exactly

_FLOATING: dict[int, Any] = {TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64}
# ONNX Runtime subtracts numbers near 1, so that small results have the error of those.
_CANCELLING = ("Elu", "Selu", "Celu", "Tanh", "Mish", "Gelu", "Erf", "Softplus")
_OF_BYTES = ("QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "QGemm")
_DRAWS = 3
_NOISE = 8.0  # unit roundoffs
_ALLOWED = 4.0
_RELATIVE = 16.0  # unit roundoffs besides, for approximated functions
_ABSOLUTE = 1.0  # unit roundoff of a number near 1: functions such as tanh in ONNX Runtime


class NoReference(Exception):
    """ONNX Runtime doesn't evaluate this network."""


@dataclass(frozen=True)
class Bounds:
    """The answer, how far another may be, and whether it is compared at all."""

    value: Array
    distance: Array
    compared: Array


class Reference:
    """ONNX Runtime without any optimization, on the network with places for noise."""

    def __init__(self, network: Network) -> None:
        has_bytes = any(node.op_type in _OF_BYTES for node in network.model.graph.node)
        if has_bytes and not multiplies_bytes_exactly():
            raise NoReference("ONNX Runtime's products of bytes saturate on CPUs without VNNI")
        model = onnx.ModelProto()
        model.CopyFrom(network.model)
        graph = model.graph
        _end_with_nodes(graph)
        self.outputs = [output.name for output in graph.output]
        self.weights: dict[str, Array] = {}
        self.noisy: list[str] = []  # intermediate values
        self.cancelling: set[str] = set()
        kinds = _element_types(model)
        self._take_weights(graph, kinds)
        self._add_noise(graph, kinds)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            self.session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise NoReference(str(error)) from error
        self.kinds = kinds

    def _take_weights(self, graph: Any, kinds: Mapping[str, int]) -> None:
        """Weights become inputs, so that they can be perturbed too."""
        kept = []
        for tensor in graph.initializer:
            if tensor.data_type in _FLOATING:
                self.weights[tensor.name] = numpy_helper.to_array(tensor)
            else:
                kept.append(tensor)
        del graph.initializer[:]
        graph.initializer.extend(kept)
        nodes = []
        for node in graph.node:
            if node.op_type == "Constant" and kinds.get(node.output[0]) in _FLOATING:
                self.weights[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
            else:
                nodes.append(node)
        del graph.node[:]
        graph.node.extend(nodes)
        for name, value in self.weights.items():
            graph.input.append(helper.make_tensor_value_info(name, kinds[name], value.shape))

    def _add_noise(self, graph: Any, kinds: Mapping[str, int]) -> None:
        nodes = []
        for node in graph.node:
            nodes.append(node)
            for i, name in enumerate(node.output):
                kind = kinds.get(name)
                if kind not in _FLOATING:
                    continue
                node.output[i] = f"{name}__raw"
                nodes.append(helper.make_node("Mul", [f"{name}__raw", f"{name}__noise"], [name]))
                graph.input.append(helper.make_tensor_value_info(f"{name}__noise", kind, None))
                graph.output.append(helper.make_tensor_value_info(f"{name}__raw", kind, None))
                self.noisy.append(name)
                if node.op_type in _CANCELLING:
                    self.cancelling.add(name)
        del graph.node[:]
        graph.node.extend(nodes)

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        try:
            found = self.session.run(None, dict(feed))
        except Exception as error:
            raise NoReference(str(error)) from error
        names = [output.name for output in self.session.get_outputs()]
        return dict(zip(names, found, strict=True))

    def _type(self, name: str) -> Any:
        return _FLOATING[self.kinds[name]]

    def answers(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """All values of the network, without noise."""
        calm = {f"{n}__noise": np.ones((), self._type(n)) for n in self.noisy}
        with np.errstate(all="ignore"):
            found = self.run({**feed, **self.weights, **calm})
        return {name.removesuffix("__raw"): value for name, value in found.items()}

    def exact(self, feed: Mapping[str, Array]) -> dict[str, Bounds]:
        """The bound for each output of a network that rounds nothing."""
        calm = self.answers(feed)
        return {
            name: Bounds(value, np.zeros(value.shape), np.ones(value.shape, bool))
            for name, value in calm.items()
            if name in self.outputs
        }

    def bounds(
        self, feed: Mapping[str, Array], seed: int, draws: int = _DRAWS, strength: float = 1.0
    ) -> dict[str, Bounds]:
        """The bound for each output of the network."""
        calm = self.answers(feed)
        values = {name: calm[name] for name in self.outputs}
        distance = {name: np.zeros(value.shape) for name, value in values.items()}
        compared = {name: np.ones(value.shape, bool) for name, value in values.items()}
        numbers = np.random.default_rng((seed, draws))
        with np.errstate(all="ignore"):
            for _ in range(draws):
                noise = {
                    f"{n}__noise": _noise(numbers, calm[n], strength, n in self.cancelling)
                    for n in self.noisy
                }
                moved = {
                    name: np.asarray(value * _noise(numbers, value, strength))
                    if np.asarray(value).dtype in (np.float32, np.float64)
                    else value
                    for name, value in {**feed, **self.weights}.items()
                }
                found = self.run({**moved, **noise})
                for name, value in values.items():
                    _widen(value, found[name], distance[name], compared[name])
        return {
            name: Bounds(value, _allowed(value, distance[name]), compared[name])
            for name, value in values.items()
        }


def _roundoff(dtype: Any) -> float:
    return float(np.finfo(dtype).eps) / 2


def _noise(
    numbers: np.random.Generator, value: Array, strength: float, cancelling: bool = False
) -> Array:
    scale: Any = strength * _NOISE * _roundoff(value.dtype)
    if cancelling:  # the error is that of a number near 1
        size = np.abs(np.where((value == 0) | ~np.isfinite(value), 1, value))
        scale = scale * np.maximum(1, 0.25 / size)
    return np.asarray(1 + scale * numbers.uniform(-1, 1, value.shape), value.dtype)


def _widen(value: Array, other: Array, distance: Array, compared: Array) -> None:
    """Takes one more evaluation with noise into account."""
    if value.shape != other.shape:
        compared[...] = False
    elif value.dtype.kind != "f":
        compared &= value == other
    else:
        a, b = value.astype(np.float64), other.astype(np.float64)
        finite = np.isfinite(a) & np.isfinite(b)
        compared &= finite | (a == b) | (np.isnan(a) & np.isnan(b))
        np.maximum(distance, np.where(finite, np.abs(a - b), 0), out=distance)


def _allowed(value: Array, distance: Array) -> Array:
    if value.dtype.kind != "f":
        return distance
    unit = _roundoff(value.dtype)
    size = np.where(np.isfinite(value), np.abs(value.astype(np.float64)), 0)
    return _ALLOWED * distance + (_RELATIVE * 2 * size + _ABSOLUTE * 2) * unit


def outside(found: Array, bounds: Bounds) -> Array:
    """Which elements are too far away."""
    value = bounds.value
    if value.dtype.kind != "f":
        return np.asarray(bounds.compared & (found != value))
    a, b = found.astype(np.float64), value.astype(np.float64)
    with np.errstate(all="ignore"):
        near = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= bounds.distance)
    return np.asarray(bounds.compared & ~near)


def _end_with_nodes(graph: onnx.GraphProto) -> None:
    """Gives each output of the inner graphs a node of its own, which ONNX Runtime needs."""
    for node in graph.node:
        for attribute in node.attribute:
            if not attribute.HasField("g"):
                continue
            inner = attribute.g
            _end_with_nodes(inner)
            free = {name for n in inner.node for name in n.output}
            for i, output in enumerate(inner.output):
                if output.name in free:
                    free.remove(output.name)
                    continue
                name = f"{inner.name}__{i}"
                inner.node.append(helper.make_node("Identity", [output.name], [name]))
                output.name = name


def _element_types(model: onnx.ModelProto) -> dict[str, int]:
    """The element types of all values of the main graph."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    kinds = {t.name: t.data_type for t in graph.initializer}
    for info in [*graph.input, *graph.output, *graph.value_info]:
        kinds[info.name] = info.type.tensor_type.elem_type
    for node in graph.node:
        if node.op_type == "Constant":
            kinds[node.output[0]] = node.attribute[0].t.data_type
    return kinds
