# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs of a few nodes over every operator that the engine has, with values at their extremes:
NaN, infinities, zeros of both signs, denormals, the least and greatest numbers, no elements at all,
indices and ends far outside."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from network import Array, Network
from onnx import TensorProto, helper, numpy_helper

FLOATS = ("float32", "float32", "float32", "float64", "float16")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTS = (*SIGNED, *UNSIGNED, "int32", "int64")
OPSETS = (13, 17, 18, 21, 22, 23)
IR_VERSION = {13: 7, 17: 8, 18: 8, 21: 10, 22: 10, 23: 11, 24: 11}
HUGE = (2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**31, 1000, -1000)
Shape = tuple[int, ...]


class Draft:
    """A graph while it is made. All that is random comes from the seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(f"extremes {seed}")
        self.numbers = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.feeds: list[dict[str, Array]] = [{}, {}]
        self.changes = True  #: whether dimensions may be dynamic
        self.opset = self.random.choice(OPSETS)
        self.count = 0
        #: The least operator set that has the graph's operators.
        self.least = 1

    def one(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def shape(self, least: int = 0, most: int = 4, zero: float = 0.08) -> Shape:
        rank = self.random.randint(least, most)
        return tuple(
            0 if self.chance(zero) else self.random.choice((1, 2, 3, 3, 4, 5)) for _ in range(rank)
        )

    def together(self, shape: Shape) -> Shape:
        """One that broadcasts with it."""
        other = [1 if self.chance(0.3) else d for d in shape]
        return tuple(other[self.random.randint(0, len(other)) if self.chance(0.3) else 0 :])

    def floats(self, dtype: str, shape: Shape, tame: bool = False) -> Array:
        info = np.finfo(dtype)
        ordinary = [0.5, -0.5, 1, -1, 2, -2.5, 3, 0.25, 88, -104, 7.75, -0.0, 0.0]
        far = [np.nan, np.inf, -np.inf]
        if not tame:
            far += [
                float(info.max), float(info.min), float(info.smallest_subnormal),
                -float(info.smallest_subnormal), float(info.tiny), 1e10, -1e10, 30000, -1e30,
                1e30, 2.0**31, -(2.0**31), 2.0**63, 0.99999, -1.0001, 1.0001, 709, -745,
            ]  # fmt: skip
        count = int(np.prod(shape))
        share = self.random.choice((0.0, 0.1, 0.5))
        values = [
            self.random.choice(far) if self.chance(share) else self.random.choice(ordinary)
            for _ in range(count)
        ]
        with np.errstate(all="ignore"):
            return np.asarray(values, "float64").reshape(shape).astype(dtype)

    def array(self, dtype: str, shape: Shape, tame: bool = False) -> Array:
        if dtype.startswith("float"):
            return self.floats(dtype, shape, tame)
        if dtype == "bool":
            return np.asarray(self.numbers.integers(0, 2, shape), bool)
        info = np.iinfo(dtype)
        ends = [info.min, info.max, info.min + 1, info.max - 1]
        near = [n for n in (0, 1, 2, 3, 5, 7, -1, -2, -3, 100) if info.min <= n <= info.max]
        share = 0.0 if tame else self.random.choice((0.0, 0.2, 0.6))
        count = int(np.prod(shape))
        values = [
            self.random.choice(ends) if self.chance(share) else self.random.choice(near)
            for _ in range(count)
        ]
        return np.asarray(values, dtype).reshape(shape)

    def input(self, dtype: str, shape: Shape, tame: bool = False, constant: float = 0.2) -> str:
        """A new input, or at times a constant, of such values."""
        if self.chance(constant):
            return self.constant(self.array(dtype, shape, tame))
        return self.given([self.array(dtype, shape, tame) for _ in self.feeds])

    def given(self, arrays: Sequence[Array]) -> str:
        name = f"x{len(self.feeds[0])}"
        for feed, array in zip(self.feeds, arrays, strict=True):
            feed[name] = array
        return name

    def constant(self, value: Any, dtype: str | None = None) -> str:
        self.count += 1
        array = np.asarray(value, dtype)
        self.constants.append(numpy_helper.from_array(array, f"c{self.count}"))
        return f"c{self.count}"

    def numbers_of(self, values: Sequence[int], constant: float = 0.8) -> str:
        """int64s that decide a shape."""
        array = np.asarray(values, "int64")
        return self.constant(array) if self.chance(constant) else self.given([array, array])

    def node(self, kind: str, inputs: Sequence[str], outputs: int = 1, **options: Any) -> list[str]:
        made = []
        for _ in range(outputs):
            self.count += 1
            made.append(f"y{self.count}")
        self.nodes.append(helper.make_node(kind, list(inputs), made, **options))
        return made

    def since(self, opset: int) -> None:
        self.least = max(self.least, opset)


#: Adds nodes, and says which values are the results.
Maker = Callable[[Draft], list[str]]


# ---- elements ------------------------------------------------------------------------------------

_FUNCTIONS = {
    "Acos": 7, "Acosh": 9, "Asin": 7, "Asinh": 9, "Atan": 7, "Atanh": 9, "Ceil": 13, "Cos": 7,
    "Cosh": 9, "Erf": 13, "Exp": 13, "Floor": 13, "HardSwish": 14, "Log": 13, "Mish": 18,
    "Reciprocal": 13, "Round": 11, "Sigmoid": 13, "Sin": 7, "Sinh": 9, "Softplus": 1,
    "Softsign": 1, "Sqrt": 13, "Tan": 7, "Tanh": 13, "Celu": 12, "Elu": 6, "HardSigmoid": 6,
    "LeakyRelu": 6, "Selu": 6, "Shrink": 9, "Swish": 24, "ThresholdedRelu": 10, "Gelu": 20,
    "Relu": 14, "Abs": 13, "Neg": 13, "Sign": 13, "Identity": 13, "IsNaN": 13, "IsInf": 13,
    "Dropout": 13,
}  # fmt: skip
_ALPHA = {"Celu", "Elu", "LeakyRelu", "Swish", "ThresholdedRelu"}


def function(d: Draft) -> list[str]:
    kind = d.one(*_FUNCTIONS)
    d.since(_FUNCTIONS[kind])
    options: dict[str, Any] = {}
    if kind in _ALPHA and d.chance(0.5):
        options["alpha"] = d.one(0.25, 1.5, 2.0)
    if kind == "Shrink" and d.chance(0.7):
        options = {"lambd": d.one(0.0, 1.0, 2.0), "bias": d.one(0.0, 0.5)}
    if kind == "HardSigmoid" and d.chance(0.5):
        options = {"alpha": 0.25, "beta": 0.75}
    if kind == "Gelu" and d.chance(0.5):
        options["approximate"] = "tanh"
    if kind == "IsInf" and d.chance(0.5):
        options = {"detect_positive": d.one(0, 1), "detect_negative": d.one(0, 1)}
    dtype = d.one(*FLOATS)
    if kind in ("Abs", "Sign", "Identity", "Neg", "Relu") and d.chance(0.6):
        dtype = d.one(*SIGNED) if kind in ("Neg", "Relu") else d.one(*INTS)
    return d.node(kind, [d.input(dtype, d.shape(), constant=0)], **options)


def arithmetic(d: Draft) -> list[str]:
    kind = d.one("Add", "Sub", "Mul", "Div", "Pow", "Mod", "PRelu", "Max", "Min", "Sum", "Mean")
    whole = d.chance(0.5) and kind not in ("Sum", "Mean")
    dtype = d.one(*INTS) if whole else d.one(*FLOATS)
    d.since(14 if kind in ("Add", "Sub", "Mul", "Div") else 13 if kind != "PRelu" else 16)
    shape = d.shape()
    options: dict[str, Any] = {}
    if kind == "Mod":
        options["fmod"] = d.one(0, 1) if whole else 1
    if kind == "Pow" and whole:
        dtype = d.one("int32", "int64")
    inputs = [d.input(dtype, shape, constant=0)]
    if kind == "Pow":  # to a negative power of zero there is nothing
        exponents = [0, 1, 2, 3, 5, 64] if whole else [0.0, 1.0, 2.0, -1.0, 0.5, -2.0, np.nan]
        inputs.append(d.constant(d.one(*exponents), dtype))
    elif kind in ("Max", "Min", "Sum", "Mean"):
        tame = kind in ("Sum", "Mean")
        inputs = [d.input(dtype, d.together(shape), tame) for _ in range(d.one(1, 2, 3))]
    else:
        inputs.append(d.input(dtype, d.together(shape)))
    if kind in ("Add", "Sub", "Mul", "Div", "Max", "Min") and d.chance(0.5):
        inputs.reverse()
    return d.node(kind, inputs, **options)


def bits(d: Draft) -> list[str]:
    kind = d.one("BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "And", "Or",
                 "Xor", "Not")  # fmt: skip
    shape = d.shape()
    if kind == "BitShift":
        dtype = d.one(*UNSIGNED)
        inputs = [d.input(dtype, shape), d.input(dtype, d.together(shape))]
        return d.node(kind, inputs, direction=d.one("LEFT", "RIGHT"))
    dtype = "bool"
    if kind.startswith("Bitwise"):
        d.since(18)
        dtype = d.one(*INTS)
    inputs = [d.input(dtype, shape, constant=0)]
    if not kind.endswith("Not"):
        inputs.append(d.input(dtype, d.together(shape)))
    return d.node(kind, inputs)


def comparison(d: Draft) -> list[str]:
    kind = d.one("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Where")
    d.since(16)
    dtype = d.one(*FLOATS, *INTS)
    shape = d.shape()
    inputs = [d.input(dtype, shape), d.input(dtype, d.together(shape))]
    if kind == "Where":
        inputs.insert(0, d.input("bool", d.together(shape)))
    return d.node(kind, inputs)


def clip(d: Draft) -> list[str]:
    dtype = d.one(*FLOATS, *INTS)
    bounds = [d.one("", d.input(dtype, ())) for _ in range(2)]
    while bounds and not bounds[-1]:
        bounds.pop()
    return d.node("Clip", [d.input(dtype, d.shape(), constant=0), *bounds])


def cast(d: Draft) -> list[str]:
    """Within what the type holds: the rest isn't defined."""
    d.since(15)
    kinds = ("float32", "float64", "float16", "bool", *INTS)
    dtype, to = d.one(*kinds), d.one(*kinds)
    shape = d.shape()
    if dtype.startswith("float") and not to.startswith("float") and to != "bool":
        low = 0 if to in UNSIGNED else -100
        arrays = [
            np.asarray(d.numbers.uniform(low, 100, shape), dtype).reshape(shape) for _ in d.feeds
        ]
        x = d.given(arrays)
    else:
        x = d.input(dtype, shape, constant=0)
    if d.chance(0.3):
        return d.node("CastLike", [x, d.input(to, (1,), tame=True)])
    return d.node("Cast", [x], to=int(helper.np_dtype_to_tensor_dtype(np.dtype(to))))


# ---- along axes ----------------------------------------------------------------------------------


def softmax(d: Draft) -> list[str]:
    kind = d.one("Softmax", "LogSoftmax", "Hardmax")
    d.since(13)
    shape = d.shape(1)
    x = d.input(d.one(*FLOATS), shape, kind != "Hardmax", constant=0)
    return d.node(kind, [x], axis=d.random.randrange(-len(shape), len(shape)))


def reduction(d: Draft) -> list[str]:
    kind = d.one("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp",
                 "SumSquare")  # fmt: skip
    d.since(18)
    whole = d.chance(0.4) and kind in ("Sum", "Max", "Min", "Prod", "L1", "SumSquare")
    dtype = d.one("int32", "int64", "int8", "uint8") if whole else d.one(*FLOATS)
    shape = d.shape(zero=0.04)
    axes = d.random.sample(range(len(shape)), d.random.randint(0, len(shape)))
    x = d.input(dtype, shape, kind not in ("Max", "Min"), constant=0)
    given = [d.numbers_of([a - len(shape) if d.chance(0.3) else a for a in axes])] if axes else []
    return d.node(f"Reduce{kind}", [x, *given], keepdims=d.one(0, 1),
                  noop_with_empty_axes=d.one(0, 0, 1))  # fmt: skip


def choice(d: Draft) -> list[str]:
    kind = d.one("ArgMax", "ArgMin", "TopK", "CumSum")
    shape = d.shape(1, zero=0.03)
    dtype = d.one(*FLOATS, "int32", "int64", "uint8", "int8")
    if kind == "CumSum":
        dtype = d.one("float32", "float64", "int32", "int64")
    d.since(14)
    x = d.input(dtype, shape, kind == "CumSum", constant=0)
    axis = d.random.randrange(-len(shape), len(shape))
    if kind == "CumSum":
        place = d.constant(axis, d.one("int32", "int64"))
        return d.node(kind, [x, place], exclusive=d.one(0, 1), reverse=d.one(0, 1))
    if kind == "TopK":
        k = d.random.randint(0, shape[axis])
        return d.node(kind, [x, d.numbers_of([k])], 2, axis=axis, largest=d.one(0, 1))
    return d.node(kind, [x], axis=axis, keepdims=d.one(0, 1), select_last_index=d.one(0, 1))


def normalization(d: Draft) -> list[str]:
    kind = d.one("BatchNormalization", "InstanceNormalization", "GroupNormalization",
                 "LayerNormalization", "RMSNormalization", "MeanVarianceNormalization",
                 "LpNormalization")  # fmt: skip
    dtype = d.one("float32", "float32", "float64")
    n, c = d.one(1, 2), 4
    shape = (n, c, *d.shape(1, 2, zero=0))
    x = d.input(dtype, shape, tame=True, constant=0)

    def weights(count: int) -> str:
        return d.constant(d.numbers.uniform(-2, 2, count), dtype)

    d.since(
        {"GroupNormalization": 21, "LayerNormalization": 17, "RMSNormalization": 23}.get(kind, 15)
    )
    if kind == "BatchNormalization":
        variance = d.constant(d.numbers.uniform(0, 2, c), dtype)
        return d.node(kind, [x, weights(c), weights(c), weights(c), variance])
    if kind in ("InstanceNormalization", "GroupNormalization"):
        groups = {} if kind[0] == "I" else {"num_groups": 2}
        return d.node(kind, [x, weights(c), weights(c)], **groups)
    if kind == "LayerNormalization":
        return d.node(kind, [x, weights(shape[-1]), weights(shape[-1])])
    if kind == "RMSNormalization":
        return d.node(kind, [x, weights(shape[-1])])
    if kind == "LpNormalization":
        return d.node(kind, [x], p=d.one(1, 2), axis=d.random.randrange(len(shape)))
    return d.node(kind, [x], axes=d.one([0, 2], [1], [0, 1, 2]))


# ---- products ------------------------------------------------------------------------------------


def product(d: Draft) -> list[str]:
    kind = d.one("MatMul", "MatMul", "Gemm", "MatMulInteger")
    whole = d.chance(0.6)
    dtype = d.one("int32", "int64", "uint32", "uint64") if whole else d.one(*FLOATS)
    m, k, n = (0 if d.chance(0.06) else d.one(1, 2, 3, 5, 17) for _ in range(3))
    if kind == "Gemm":
        # The reference multiplies integers by 1.0, and saturates.
        tame = True
        across, over = d.one(0, 1), d.one(0, 1)
        inputs = [
            d.input(dtype, (k, m) if across else (m, k), tame, constant=0),
            d.input(dtype, (n, k) if over else (k, n), tame),
        ]
        if d.chance(0.6):
            inputs.append(d.input(dtype, d.one((m, n), (n,), (1, n), (m, 1), ()), tame))
        options = {"alpha": d.one(1.0, 2.0, -3.0), "beta": d.one(1.0, 0.0, 2.0)}
        return d.node(kind, inputs, transA=across, transB=over,
                      **(options if d.chance(0.4) else {}))  # fmt: skip
    if kind == "MatMulInteger":
        a, b = d.one("int8", "uint8"), d.one("int8", "uint8")
        inputs = [d.input(a, (m, k), constant=0), d.input(b, (k, n))]
        inputs += [d.input(a, ()), d.input(b, ())] if d.chance(0.5) else []
        return d.node(kind, inputs)
    batch = d.shape(0, 2)
    left, right = (*batch, m, k), (*d.together(batch), k, n)
    if d.chance(0.2):
        left = (k,)
    if d.chance(0.2):
        right = (k,)
    return d.node(kind, [d.input(dtype, left, not whole, constant=0),
                         d.input(dtype, right, not whole)])  # fmt: skip


def recurrent(d: Draft) -> list[str]:
    kind, gates = d.one(("LSTM", 4), ("GRU", 3), ("RNN", 1))
    steps, batch, width, hidden = d.one(0, 1, 3), d.one(1, 2), d.one(1, 3), d.one(1, 4)
    x = d.input("float32", (steps, batch, width), tame=True, constant=0)

    def weights(columns: int) -> str:
        return d.constant(d.numbers.uniform(-1, 1, (1, gates * hidden, columns)), "float32")

    d.since(14)
    return d.node(kind, [x, weights(width), weights(hidden)], 2, hidden_size=hidden)


# ---- places --------------------------------------------------------------------------------------

ANY = ("float32", "float32", "float64", "float16", "bool", *INTS)


def moved(d: Draft) -> list[str]:
    kind = d.one("Transpose", "Expand", "Tile", "Concat", "Flatten", "Squeeze", "Unsqueeze",
                 "Trilu", "DepthToSpace", "SpaceToDepth", "ReverseSequence")  # fmt: skip
    dtype = d.one(*ANY)
    shape = d.shape(1)
    if kind == "Trilu":
        shape = d.shape(2)
        k = d.one(0, 1, -1, 7, *HUGE)
        return d.node(kind, [d.input(dtype, shape, constant=0), d.numbers_of(k)], upper=d.one(0, 1))
    if kind in ("DepthToSpace", "SpaceToDepth"):
        dtype = d.one("float32", "float64", "float16")
        size = d.one(1, 2, 3)
        deep = kind == "DepthToSpace"
        n, c, h, w = d.one(0, 1, 2), d.one(0, 1, 2), d.one(0, 1, 3), d.one(1, 2)
        shape = (n, c * size * size, h, w) if deep else (n, c, h * size, w * size)
        mode = {"mode": d.one("DCR", "CRD")} if deep else {}
        return d.node(kind, [d.input(dtype, shape, constant=0)], blocksize=size, **mode)
    if kind == "ReverseSequence":
        n, t = d.one(1, 2, 3), d.one(1, 2, 5)
        lengths = d.constant(d.numbers.integers(1, t + 1, n), "int64")
        return d.node(
            kind, [d.input(dtype, (t, n, 2), constant=0), lengths], time_axis=0, batch_axis=1
        )
    x = d.input(dtype, shape, constant=0)
    rank = len(shape)
    if kind == "Transpose":
        return d.node(kind, [x], perm=d.random.sample(range(rank), rank))
    if kind == "Expand":
        wanted = [d.one(d2, d2, 1) if d2 != 1 else d.one(0, 1, 3) for d2 in shape]
        return d.node(kind, [x, d.numbers_of([*([2] if d.chance(0.3) else []), *wanted])])
    if kind == "Tile":
        return d.node(kind, [x, d.numbers_of([d.one(0, 1, 1, 2, 3) for _ in shape])])
    if kind == "Concat":
        axis = d.random.randrange(-rank, rank)
        others = []
        for _ in range(d.one(0, 1, 2)):
            other = list(shape)
            other[axis] = d.one(0, 1, 2)
            others.append(d.input(dtype, tuple(other)))
        return d.node(kind, [x, *others], axis=axis)
    if kind == "Flatten":
        return d.node(kind, [x], axis=d.random.randint(-rank, rank))
    if kind == "Squeeze":
        ones = [i for i, length in enumerate(shape) if length == 1]
        return d.node(kind, [x, d.numbers_of(ones)] if ones and d.chance(0.7) else [x])
    axes = d.random.sample(range(rank + 2), 2)
    return d.node(kind, [x, d.numbers_of([a - rank - 2 if d.chance(0.3) else a for a in axes])])


def reshape(d: Draft) -> list[str]:
    shape = d.shape(zero=0.15)
    wanted = list(shape)
    d.random.shuffle(wanted)
    zeros = {"allowzero": 1} if 0 in wanted and d.chance(0.7) else {}
    if wanted and d.chance(0.4):
        wanted[d.random.randrange(len(wanted))] = -1
    if d.chance(0.2):
        wanted.append(1)
    return d.node(
        "Reshape", [d.input(d.one(*ANY), shape, constant=0), d.numbers_of(wanted)], **zeros
    )


def sliced(d: Draft) -> list[str]:
    shape = d.shape(1)
    axes = d.random.sample(range(len(shape)), d.random.randint(1, len(shape)))
    place = [0, 1, -1, 2, -2, 5, -6, *HUGE]
    starts, ends = ([d.one(*place) for _ in axes] for _ in range(2))
    steps = [d.one(1, 1, 2, 3, -1, -1, -2, *HUGE[:5]) for _ in axes]
    given = [[a - len(shape) if d.chance(0.3) else a for a in axes], steps]
    inputs = [d.numbers_of(v) for v in (starts, ends, *given)]
    return d.node("Slice", [d.input(d.one(*ANY), shape, constant=0), *inputs])


def split(d: Draft) -> list[str]:
    shape = d.shape(1, 3, zero=0.2)
    axis = d.random.randrange(-len(shape), len(shape))
    x = d.input(d.one(*ANY), shape, constant=0)
    if d.chance(0.5):
        d.since(18)
        parts = d.random.randint(1, max(1, shape[axis]) + 1)
        return d.node("Split", [x], parts, axis=axis, num_outputs=parts)
    cut = d.random.randint(0, shape[axis])
    return d.node("Split", [x, d.numbers_of([cut, 0, shape[axis] - cut])], 3, axis=axis)


def pad(d: Draft) -> list[str]:
    d.since(19)
    shape = d.shape(1, 3, zero=0.04)
    mode = d.one("constant", "constant", "reflect", "edge", "wrap")
    dtype = (
        d.one("float32", "float64", "int32", "int64", "bool") if mode == "constant" else "float32"
    )
    most = 3 if mode == "constant" else 1
    pads = [d.random.randint(-1 if mode == "constant" else 0, most) for _ in range(2 * len(shape))]
    inputs = [d.input(dtype, shape, constant=0), d.numbers_of(pads)]
    if mode == "constant" and d.chance(0.6):
        inputs.append(d.input(dtype, ()))
    return d.node("Pad", inputs, mode=mode)


def _indices(d: Draft, length: int, shape: Shape, outside: float = 0.03) -> Array:
    """Indices, of which one is out of range at times."""
    array = (
        d.numbers.integers(-length, max(length, 1), shape) if length else np.zeros(shape, "int64")
    )
    if array.size and d.chance(outside):
        array.flat[0] = d.one(length, -length - 1, *HUGE)
    return np.asarray(array, "int64").reshape(shape)


def looked_up(d: Draft) -> list[str]:
    kind = d.one("Gather", "GatherElements", "GatherND", "OneHot", "NonZero", "Compress")
    dtype = d.one(*ANY)
    shape = d.shape(1, 3, zero=0.04)
    axis = d.random.randrange(len(shape))
    x = d.input(dtype, shape, constant=0)
    if kind == "Gather":
        indices = d.given([_indices(d, shape[axis], wanted) for wanted in [d.shape(0, 2)] * 2])
        return d.node(kind, [x, indices], axis=axis)
    if kind == "GatherElements":
        wanted = tuple(d.random.randint(0, 3) if i == axis else d2 for i, d2 in enumerate(shape))
        # ONNX Runtime may hang at indices far outside.
        indices = d.given([_indices(d, shape[axis], wanted, 0) for _ in d.feeds])
        return d.node(kind, [x, indices], axis=axis)
    if kind == "GatherND":
        return d.node(kind, [x, d.given([_indices(d, shape[0], (2, 1)) for _ in d.feeds])])
    if kind == "OneHot":
        depth = d.one(1, 3, 5)
        places = d.one("int64", "int32", "float32")
        chosen = [_indices(d, depth, (4,), 0.4) for _ in d.feeds]
        if places != "int64":
            chosen = [np.clip(i, -100, 100).astype(places) for i in chosen]
        values = d.input(dtype, (2,))
        d.feeds = [{k: v for k, v in feed.items() if k != x} for feed in d.feeds]
        name = d.constant(chosen[0])
        return d.node(kind, [name, d.constant(depth, "int64"), values], axis=d.one(-1, 0, 1))
    if kind == "NonZero":
        return d.node(kind, [x])
    condition = d.input("bool", (shape[axis],), constant=0.5)
    return d.node(kind, [x, condition], axis=axis)


def unique(d: Draft) -> list[str]:
    dtype = d.one("float32", "float64", "int64", "int8")
    shape = d.shape(1, 3, zero=0)
    # How often NaN occurs isn't defined.
    arrays = [np.asarray(np.nan_to_num(d.array(dtype, shape)), dtype) for _ in d.feeds]
    along = {"axis": d.random.randrange(-len(shape), len(shape))} if d.chance(0.5) else {}
    return d.node("Unique", [d.given(arrays)], 4, sorted=d.one(0, 1), **along)


def scattered(d: Draft) -> list[str]:
    kind = d.one("ScatterElements", "ScatterND")
    d.since(18)
    d.changes = kind == "ScatterElements"  # how deep indices go is no length that anybody changes
    how = d.one("none", "add", "mul", "max", "min")
    dtype = d.one("float32", "float64", "int32", "int64")
    shape = d.shape(1, 3, zero=0)

    def given(shape: Shape) -> str:
        # Which of a number and NaN is the greatest isn't defined.
        arrays = [d.array(dtype, shape, how in ("add", "mul")) for _ in d.feeds]
        if how in ("max", "min"):
            arrays = [np.where(np.isnan(a), np.asarray(1, dtype), a) for a in arrays]
        return d.given(arrays)

    x = given(shape)
    axis = d.random.randrange(len(shape)) if kind == "ScatterElements" else 0
    count = d.one(0, 1, 2, 3)
    if how == "none":  # which of two at one place comes last isn't defined
        count = min(count, shape[axis])
        rows = d.numbers.permutation(shape[axis])[:count]
    else:
        rows = _indices(d, shape[axis], (count,))
    if kind == "ScatterND":
        updates = given((count, *shape[1:]))
        indices = np.asarray(rows, "int64").reshape(count, 1)
        return d.node(kind, [x, d.given([indices] * 2), updates], reduction=how)
    wanted = tuple(count if i == axis else length for i, length in enumerate(shape))
    along = [count if i == axis else 1 for i in range(len(shape))]
    indices = np.broadcast_to(np.asarray(rows, "int64").reshape(along), wanted)
    updates = given(wanted)
    return d.node(kind, [x, d.given([indices.copy()] * 2), updates], axis=axis, reduction=how)


def made(d: Draft) -> list[str]:
    kind = d.one("Shape", "Size", "ConstantOfShape", "Range", "EyeLike")
    if kind in ("Shape", "Size"):
        d.since(15)
        ends = {"start": d.one(0, 1, -1, 9, -9), "end": d.one(0, 2, -1, 9, -9)}
        x = d.input(d.one(*ANY), d.shape(), constant=0)
        return d.node(kind, [x], **(ends if kind == "Shape" and d.chance(0.6) else {}))
    if kind == "ConstantOfShape":
        value = numpy_helper.from_array(d.array(d.one(*ANY), (1,)))
        return d.node(kind, [d.numbers_of([d.one(0, 1, 2, 3) for _ in range(d.one(0, 1, 2))])],
                      value=value)  # fmt: skip
    if kind == "EyeLike":
        dtype = d.one("float32", "float64", "int32", "int64", "uint64")
        return d.node(kind, [d.input(dtype, d.shape(2, 2), constant=0)], k=d.one(0, 1, -1, 9, -9))
    dtype = d.one("int32", "int64", "float32", "float64")
    if dtype in ("int32", "int64"):
        most = int(np.iinfo(dtype).max)
        low, high, by = d.one((0, 5, 1), (5, 0, -2), (most - 3, most, 2), (3, 3, 1), (5, 0, 1),
                              (-most, most, most), (most, -most, -most))  # fmt: skip
    else:
        low, high, by = d.one((0, 2, 0.5), (1, -1, -0.25), (0, 1, 3), (1, 0, 1), (-0.0, 1, 1))
    return d.node(kind, [d.constant(v, dtype) for v in (low, high, by)])


MAKERS: tuple[Maker, ...] = (
    function, function, function, arithmetic, arithmetic, bits, comparison, clip, cast, softmax,
    reduction, reduction, choice, normalization, product, product, recurrent, moved, moved,
    reshape, sliced, split, pad, looked_up, looked_up, unique, scattered, made,
)  # fmt: skip

#: What may follow without making more of a rounding error.
FOLLOWING = (
    "Neg",
    "Abs",
    "Relu",
    "Identity",
    "IsNaN",
    "Not",
    "Transpose",
    "Flatten",
    "Shape",
    "Size",
)


def network(seed: int) -> Network:
    """Always the same for a seed."""
    for more in range(100):
        d = Draft(seed * 100 + more)
        results = d.random.choice(MAKERS)(d)
        for _ in range(d.one(0, 0, 1, 2)):
            results += d.node(d.one(*FOLLOWING), [d.one(*results)])
        d.opset = max(d.opset, d.least)
        net = _finished(seed, d, results)
        if net is not None:
            return net
    raise AssertionError(f"no graph of seed {seed}")


def _finished(seed: int, d: Draft, results: list[str]) -> Network | None:
    """None if ONNX says that the graph is invalid."""
    inputs = []
    for name, value in d.feeds[0].items():
        lengths: list[Any] = list(value.shape)
        if d.changes and d.chance(0.3):  # lengths that nobody knows beforehand
            lengths = [f"{name}_{i}" if d.chance(0.6) else n for i, n in enumerate(lengths)]
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        inputs.append(helper.make_tensor_value_info(name, kind, lengths))
    graph = helper.make_graph(
        d.nodes,
        f"extremes-{seed}",
        inputs,
        [onnx.ValueInfoProto(name=name) for name in results],
        d.constants,
    )
    opset = d.opset
    ir = IR_VERSION[min(v for v in IR_VERSION if v >= min(opset, 24))]
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=ir,
        producer_name="mlbridge-extremes",
    )
    try:
        known = onnx.shape_inference.infer_shapes(model, check_type=True)
    except onnx.shape_inference.InferenceError:
        return None
    for before, after in zip(model.graph.output, known.graph.output, strict=True):
        if after.type.tensor_type.elem_type == TensorProto.UNDEFINED:
            return None
        before.CopyFrom(after)
        # ONNX infers wrong lengths for huge ends.
        if {"Slice", "Range"} & {node.op_type for node in d.nodes}:
            before.type.tensor_type.ClearField("shape")
    return Network(seed, model, d.feeds)
