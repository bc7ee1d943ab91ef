# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The models of the benchmark: one operator each, for element types and sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Array = NDArray[Any]
SIZES = (16, 256, 4096, 65536)
OPSET = {"": 23, "ai.onnx.ml": 3}

F32, F64, F16 = "float32", "float64", "float16"
I64, I32, I8, U8, BOOL = "int64", "int32", "int8", "uint8", "bool"
REALS = (F32, F64, F16)
WHOLE = (I64, I32, I8, U8)
NUMBERS = (*REALS, *WHOLE)
TYPES = (*NUMBERS, BOOL)

POSITIVE = {"Log", "Sqrt", "Acosh"}
WITHIN_ONE = {"Acos", "Asin", "Atanh"}
UNARY = """Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu
    HardSigmoid HardSwish LeakyRelu Log Mish Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin
    Sinh Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu IsNaN IsInf""".split()
UNARY_WHOLE = ("Abs", "Neg", "Sign", "Relu", "BitwiseNot")
COMPARISONS = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min")
LOGIC = ("And", "Or", "Xor")
REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")


@dataclass(frozen=True)
class Case:
    """A model of one operator."""

    family: str
    name: str
    size: int
    nodes: list[onnx.NodeProto]
    inputs: dict[str, Array]
    constants: dict[str, Array]

    def model(self) -> onnx.ModelProto:
        inputs = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for name, value in self.inputs.items()
        ]
        constants = [numpy_helper.from_array(value, name) for name, value in self.constants.items()]
        outputs = [onnx.ValueInfoProto(name=name) for name in self.nodes[-1].output if name]
        graph = helper.make_graph(self.nodes, "operator", inputs, outputs, constants)
        opsets = [helper.make_opsetid(*pair) for pair in OPSET.items()]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return onnx.shape_inference.infer_shapes(model, data_prop=True)

    def data(self) -> bytes:
        return b"".join(np.ascontiguousarray(value).tobytes() for value in self.inputs.values())


def int64(*numbers: int) -> Array:
    """A list as operators take shapes and axes."""
    return np.array(numbers, np.int64)


class Maker:
    """Makes the cases of one size."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.side = math.isqrt(size)
        self.numbers = np.random.default_rng(size)

    def values(
        self, dtype: str, shape: Sequence[int], low: float = -3.0, high: float = 3.0
    ) -> Array:
        if dtype == BOOL:
            return self.numbers.integers(0, 2, shape).astype(bool)
        if dtype in WHOLE:
            least = max(low, 0) if dtype == U8 else low
            return self.numbers.integers(int(least), int(high) + 1, shape).astype(dtype)
        return self.numbers.uniform(low, high, shape).astype(dtype)

    def square(self, dtype: str, low: float = -3.0, high: float = 3.0) -> Array:
        return self.values(dtype, (self.side, self.side), low, high)

    def case(
        self,
        kind: str,
        dtype: str,
        *inputs: Array,
        what: str = "",
        outputs: int = 1,
        **options: Any,
    ) -> Case:
        """`constants` among the options are inputs that the file holds, by their position."""
        fixed: Sequence[int] = options.pop("constants", ())
        domain = options.pop("domain", "")
        names = [f"x{i}" for i in range(len(inputs))]
        made = helper.make_node(
            kind, names, [f"y{i}" for i in range(outputs)], domain=domain, **options
        )
        given = dict(zip(names, inputs, strict=True))
        constants = {names[i]: given.pop(names[i]) for i in fixed}
        return Case(
            kind, f"{kind} {what} {dtype}".replace("  ", " "), self.size, [made], given, constants
        )

    def unary(self) -> Iterator[Case]:
        flat = (self.size,)
        for kind in UNARY:
            low = 1.0 if kind in POSITIVE else -0.9 if kind in WITHIN_ONE else -3.0
            high = 0.9 if kind in WITHIN_ONE else 3.0
            for dtype in REALS:
                yield self.case(kind, dtype, self.values(dtype, flat, low, high))
        for dtype in (F32, F64):
            yield self.case(
                "Gelu", dtype, self.values(dtype, flat), what="tanh", approximate="tanh"
            )
        for kind in UNARY_WHOLE:
            for dtype in WHOLE:
                yield self.case(kind, dtype, self.values(dtype, flat))
        yield self.case("Not", BOOL, self.values(BOOL, flat))
        for source in TYPES:
            for target in TYPES:
                if source != target:
                    to = helper.np_dtype_to_tensor_dtype(np.dtype(target))
                    x = self.values(source, flat)
                    yield self.case("Cast", f"{source} to {target}", x, to=to)

    def pairs(self, dtype: str, low: float = -3.0) -> Iterator[tuple[str, Array, Array]]:
        """Operands of the same shape, and broadcast ones."""
        x = self.square(dtype, low)
        yield "", x, self.square(dtype, 1)
        yield "scalar", x, self.values(dtype, (), 2)
        yield "row", x, self.values(dtype, (self.side,), 1)
        yield "column", x, self.values(dtype, (self.side, 1), 1)

    def binary(self) -> Iterator[Case]:
        for kind in (*ARITHMETIC, *COMPARISONS):
            for dtype in NUMBERS:
                low = 0.5 if kind == "Pow" else -3.0
                for what, a, b in self.pairs(dtype, low):
                    if dtype in (F32, I64, I32) or what in ("", "scalar"):
                        yield self.case(kind, dtype, a, b, what=what)
        for kind in LOGIC:
            for what, a, b in self.pairs(BOOL):
                yield self.case(kind, BOOL, a, b, what=what)
        for kind in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
            for dtype in WHOLE:
                for what, a, b in self.pairs(dtype):
                    if what in ("", "scalar"):
                        yield self.case(kind, dtype, a, b, what=what)
        for dtype in (F32, F64):
            x, y = self.square(dtype), self.square(dtype, 1)
            yield self.case("Mod", dtype, x, y, fmod=1)
            yield self.case("PRelu", dtype, x, self.values(dtype, (self.side,)))
            yield self.case("Sum", dtype, x, y, x)
            yield self.case("Mean", dtype, x, y, x)
            yield self.case("Max", dtype, x, y, x, what="of three")
        for dtype in WHOLE:
            yield self.case("Mod", dtype, self.square(dtype), self.square(dtype, 1))
        x, y = self.square(U8), self.square(U8)
        yield self.case("BitShift", U8, x, y, direction="LEFT")
        for dtype in TYPES:
            x, y, chosen = self.square(dtype), self.square(dtype), self.square(BOOL)
            yield self.case("Where", dtype, chosen, x, y)
            yield self.case("Where", dtype, chosen, x, self.values(dtype, ()), what="scalar")
            yield self.case("Where", dtype, self.values(BOOL, (self.side, 1)), x, y, what="rows")
            if dtype != BOOL:
                bounds = (self.values(dtype, (), 0, 0), self.values(dtype, (), 2, 2))
                yield self.case("Clip", dtype, x, *bounds, constants=(1, 2))

    def indices(self, shape: Sequence[int], most: int) -> Array:
        return self.numbers.integers(0, most, shape).astype(I64)

    def movement(self) -> Iterator[Case]:
        side, half = self.side, max(self.side // 2, 1)
        quarter = side // 4
        for dtype in (F32, F64, F16, I64, U8, BOOL):
            x, flat = self.square(dtype), self.values(dtype, (self.size,))
            deep = flat.reshape(4, quarter, 4, quarter)
            yield self.case("Transpose", dtype, x, perm=[1, 0])
            yield self.case("Transpose", dtype, deep, what="heads", perm=[0, 2, 1, 3])
            yield self.case("Transpose", dtype, deep, what="channels", perm=[0, 2, 3, 1])
            shape, fixed = int64(side, side), (1,)
            row, column = x[:1], np.ascontiguousarray(x[:, :1])
            yield self.case("Expand", dtype, row, shape, what="row", constants=fixed)
            yield self.case("Expand", dtype, column, shape, what="column", constants=fixed)
            block = np.ascontiguousarray(x[:half, :half])
            yield self.case("Tile", dtype, block, int64(2, 2), constants=fixed)
            top, left = x[:half], np.ascontiguousarray(x[:, :half])
            yield self.case("Concat", dtype, top, top, what="rows", axis=0)
            yield self.case("Concat", dtype, left, left, what="columns", axis=1)
            for axis in (0, 1):
                yield self.case(
                    "Split", dtype, x, what=f"axis {axis}", outputs=2, axis=axis, num_outputs=2
                )
            for what, start, end, step in (("", 1, side, 1), ("step 2", 0, side, 2)):
                cut = (int64(start), int64(end), int64(1), int64(step))
                yield self.case("Slice", dtype, x, *cut, what=what, constants=(1, 2, 3, 4))
            back = (int64(-1), int64(-side - 1), int64(1), int64(-1))
            yield self.case("Slice", dtype, x, *back, what="back", constants=(1, 2, 3, 4))
            around = int64(1, 1, 1, 1)
            for mode in ("constant", "edge", "reflect"):
                yield self.case("Pad", dtype, x, around, what=mode, constants=fixed, mode=mode)
            yield self.case("Trilu", dtype, x)
            rows = self.indices((side,), side)
            yield self.case("Gather", dtype, x, rows, what="rows", axis=0)
            yield self.case("Gather", dtype, x, rows, what="columns", axis=1)
            yield self.case("Gather", dtype, x, int64(1).reshape(()), what="one", axis=0)
            places = self.indices((side, side), side)
            for axis in (0, 1):
                yield self.case("GatherElements", dtype, x, places, what=f"axis {axis}", axis=axis)
            pairs = self.indices((self.size, 2), side)
            yield self.case("GatherND", dtype, x, pairs)
            yield self.case("GatherND", dtype, x, rows.reshape(-1, 1), what="rows")
            other = self.square(dtype)
            for axis in (0, 1):
                yield self.case(
                    "ScatterElements", dtype, x, places, other, what=f"axis {axis}", axis=axis
                )
            yield self.case("ScatterND", dtype, x, pairs, flat)
            yield self.case("ScatterND", dtype, x, rows.reshape(-1, 1), other, what="rows")
            lengths = self.indices((side,), side + 1)
            yield self.case("ReverseSequence", dtype, x, lengths, batch_axis=0, time_axis=1)
            yield self.case("NonZero", dtype, x)
            yield self.case("Compress", dtype, x, self.values(BOOL, (side,)), axis=0)
            yield self.case("Identity", dtype, x)
            yield self.case("Reshape", dtype, x, int64(-1), constants=fixed)
            image = flat.reshape(1, 4, half, -1)
            for mode in ("DCR", "CRD"):
                yield self.case("DepthToSpace", dtype, image, what=mode, blocksize=2, mode=mode)
            if side > 4:
                yield self.case("SpaceToDepth", dtype, image, blocksize=2)
            yield self.case("Flatten", dtype, deep)
            yield self.case("Unsqueeze", dtype, x, int64(0), constants=fixed)
            yield self.case("Shape", dtype, x)
        for dtype in (F32, I64, I32):
            x, places, other = (
                self.square(dtype),
                self.indices((side, side), side),
                self.square(dtype),
            )
            yield self.case(
                "ScatterElements", dtype, x, places, other, what="add", axis=0, reduction="add"
            )
            pairs, flat = self.indices((self.size, 2), side), self.values(dtype, (self.size,))
            yield self.case("ScatterND", dtype, x, pairs, flat, what="add", reduction="add")
            values = self.values(dtype, (2,))
            depth = int64(side)
            yield self.case(
                "OneHot", dtype, self.indices((side,), side), depth, values, constants=(1,)
            )
            bounds = (np.array(0, dtype), np.array(self.size, dtype), np.array(1, dtype))
            yield self.case("Range", dtype, *bounds, constants=(1, 2))
            yield self.case("EyeLike", dtype, x)

    def reductions(self) -> Iterator[Case]:
        axes = {"last": [1], "first": [0], "all": [0, 1]}
        for dtype in (F32, F64, F16, I64, I32, I8, U8):
            for kind in REDUCTIONS:
                for what, over in axes.items():
                    low = 0.5 if kind in ("Prod", "LogSum") else -3.0
                    x = self.square(dtype, low, 1.5 if kind == "Prod" else 3.0)
                    yield self.case(
                        f"Reduce{kind}",
                        dtype,
                        x,
                        np.array(over, np.int64),
                        what=what,
                        constants=(1,),
                    )
            x = self.square(dtype)
            for axis, what in ((1, "last"), (0, "first")):
                for kind in ("ArgMax", "ArgMin"):
                    yield self.case(kind, dtype, x, what=what, axis=axis)
                yield self.case(
                    "CumSum", dtype, x, np.array(axis, np.int64), what=what, constants=(1,)
                )
                count = np.array([min(self.side, 8)], np.int64)
                yield self.case(
                    "TopK", dtype, x, count, what=what, outputs=2, axis=axis, constants=(1,)
                )
        for dtype in REALS:
            x = self.square(dtype)
            for kind in ("Softmax", "LogSoftmax", "Hardmax"):
                for axis, what in ((1, "last"), (0, "first")):
                    yield self.case(kind, dtype, x, what=what, axis=axis)
            side = self.side
            image = self.values(dtype, (1, 4, 2, self.size // 8))
            one, many = self.values(dtype, (4,), 1), self.values(dtype, (side,), 1)
            yield self.case("BatchNormalization", dtype, image, one, one, one, one)
            yield self.case("InstanceNormalization", dtype, image, one, one)
            yield self.case("GroupNormalization", dtype, image, one, one, num_groups=2)
            yield self.case("LayerNormalization", dtype, x, many, many)
            yield self.case("RMSNormalization", dtype, x, many)
            yield self.case("MeanVarianceNormalization", dtype, image)
            for p in (1, 2):
                yield self.case("LpNormalization", dtype, x, what=f"p {p}", p=p)

    def matrices(self) -> Iterator[Case]:
        side = self.side
        for dtype in (F32, F64, I64, I32):
            x, y, bias = self.square(dtype), self.square(dtype), self.values(dtype, (side,))
            yield self.case("MatMul", dtype, x, y)
            yield self.case("MatMul", dtype, x, y, what="weights", constants=(1,))
            yield self.case("MatMul", dtype, x[:1], y, what="vector", constants=(1,))
            yield self.case(
                "Gemm", dtype, x[:1], y, bias, what="vector", transB=1, constants=(1, 2)
            )
            yield self.case("Gemm", dtype, x, y, bias, transB=1, constants=(1, 2))
        yield self.case("MatMulInteger", U8, self.square(U8), self.square(U8), constants=(1,))
        hidden = min(side, 64)
        x = self.values(F32, (side, 1, side))
        for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
            w = self.values(F32, (1, gates * hidden, side), -0.1, 0.1)
            r = self.values(F32, (1, gates * hidden, hidden), -0.1, 0.1)
            yield self.case(kind, F32, x, w, r, constants=(1, 2), hidden_size=hidden)

        yield self.dequantized_product()
        heads = {4096: (1, 4, 32, 32), 65536: (1, 8, 128, 64)}.get(
            self.size, (1, 2, self.size // 8, 4)
        )
        q, k, v = (self.values(F32, heads) for _ in range(3))
        yield self.case("Attention", F32, q, k, v)
        yield self.case("Attention", F32, q, k, v, what="causal", is_causal=1)
        yield self.case("Attention", F32, q[:, :, :1], k, v, what="one query")

    def dequantized_product(self) -> Case:
        """A product as `onnxruntime.quantization` makes it: of dequantized bytes."""
        weights = self.values(I8, (self.side, self.side), -100, 100)
        constants = {
            "s": np.array(0.05, F32),
            "z": np.array(128, U8),
            "sw": np.array(0.01, F32),
            "zw": np.array(0, I8),
            "w": weights,
        }
        nodes = [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["dw"]),
            helper.make_node("MatMul", ["d", "dw"], ["p"]),
            helper.make_node("QuantizeLinear", ["p", "s", "z"], ["qp"]),
            helper.make_node("DequantizeLinear", ["qp", "s", "z"], ["y"]),
        ]
        x = {"x": self.values(F32, (64, self.side))}
        return Case("MatMul", "MatMul dequantized uint8", self.size, nodes, x, constants)

    def spatial(self) -> Iterator[Case]:
        for channels in (1, 16):
            side = math.isqrt(self.size // channels)
            if side < 4:
                continue
            yield from self.windows(channels, side)

    def windows(self, channels: int, side: int) -> Iterator[Case]:
        what = f"{channels} x {side} x {side}"
        shape = (1, channels, side, side)
        x = self.values(F32, shape)
        kinds: Sequence[tuple[int, int, dict[str, Any]]] = (
            (16, 1, {}),
            (16, 3, {"pads": [1] * 4}),
            (16, 3, {"pads": [1] * 4, "strides": [2, 2]}),
            (16, 3, {"pads": [2] * 4, "dilations": [2, 2]}),
            (channels, 3, {"pads": [1] * 4, "group": channels}),
        )
        for outputs, window, more in kinds:
            w = self.values(F32, (outputs, channels // more.get("group", 1), window, window))
            name = f"{window} to {outputs} {' '.join(more)} {what}"
            bias = self.values(F32, (outputs,))
            yield self.case("Conv", F32, x, w, bias, what=name, constants=(1, 2), **more)
        for window, stride, pad in ((3, 1, 1), (3, 2, 1), (2, 2, 0), (4, 2, 1)):
            w = self.values(F32, (channels, 16, window, window))
            given: dict[str, Any] = {"strides": [stride] * 2, "pads": [pad] * 4}
            name = f"{window} by {stride} {what}"
            yield self.case("ConvTranspose", F32, x, w, what=name, constants=(1,), **given)
        for window, stride, pad in ((2, 2, 0), (3, 2, 1), (3, 1, 1)):
            given = {"kernel_shape": [window] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
            name = f"{window} by {stride} {what}"
            for kind in ("MaxPool", "AveragePool", "LpPool"):
                yield self.case(kind, F32, x, what=name, **given)
            yield self.case("MaxPool", F64, x.astype(F64), what=name, **given)
            yield self.case("MaxPool", U8, self.values(U8, shape), what=name, **given)
            yield self.case("MaxPool", F32, x, what=f"indices {name}", outputs=2, **given)
        for kind in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
            yield self.case(kind, F32, x, what=what)
        yield self.case("LRN", F32, x, what=what, size=5)
        twice = np.array((1, 1, 2, 2), F32)
        for mode in ("nearest", "linear", "cubic"):
            empty = np.zeros(0, F32)
            yield self.case(
                "Resize", F32, x, empty, twice, what=f"{mode} {what}", constants=(1, 2), mode=mode
            )
        grid = self.values(F32, (1, side, side, 2), -1, 1)
        for mode in ("nearest", "linear"):
            yield self.case("GridSample", F32, x, grid, what=f"{mode} {what}", mode=mode)
        image = self.values(U8, shape)
        w, one = self.values(I8, (16, channels, 3, 3)), np.array(0.05, F32)
        zero, least = np.array(100, U8), np.array(0, I8)
        quantized = (image, one, zero, w, one, least, one, zero)
        pads = [1] * 4
        yield self.case("QLinearConv", U8, *quantized, what=what, constants=range(1, 8), pads=pads)
        yield self.case("ConvInteger", U8, image, w, what=what, constants=(1,), pads=pads)

    def classical(self) -> Iterator[Case]:
        ml = "ai.onnx.ml"
        for dtype in (F32, F64, I64):
            x = self.square(dtype)
            weights = [0.5] * self.side
            yield self.case("Binarizer", dtype, x, domain=ml, threshold=0.5)
            yield self.case("Scaler", dtype, x, domain=ml, scale=weights, offset=weights)
            yield self.case("Normalizer", dtype, x, domain=ml, norm="L2")
            yield self.case("LinearRegressor", dtype, x, domain=ml, coefficients=weights)
            yield self.case("Imputer", F32, self.square(F32), domain=ml, imputed_value_floats=[1.0])
        keys = list(range(-3, 4))
        labels: dict[str, Any] = {"keys_int64s": keys, "values_int64s": keys[::-1]}
        yield self.case("LabelEncoder", I64, self.square(I64), domain=ml, **labels)

    def all(self) -> Iterator[Case]:
        """Names that occur twice count once."""
        seen = set()
        for group in (
            self.unary,
            self.binary,
            self.movement,
            self.reductions,
            self.matrices,
            self.spatial,
            self.classical,
        ):
            for case in group():
                if case.name not in seen:
                    seen.add(case.name)
                    yield case
