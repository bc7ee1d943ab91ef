# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps that work on elements, and on all of an axis. A step returns False if nothing fits it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from network import FLOATS, INTEGERS, Builder, Shape, Value, broadcast, tensor_type

# name, first opset, range of the result as a function of the range of the operand
_UNARY: dict[str, tuple[int, Callable[[float, float], tuple[float, float]]]] = {
    "Relu": (6, lambda a, b: (max(a, 0.0), max(b, 0.0))),
    "Tanh": (6, lambda a, b: (-1.0, 1.0)),
    "Sigmoid": (6, lambda a, b: (0.0, 1.0)),
    "Elu": (6, lambda a, b: (-2.0, max(b, 0.0))),
    "LeakyRelu": (6, lambda a, b: (min(a, 0.0), max(b, 0.0))),
    "Selu": (6, lambda a, b: (-1.8, max(1.1 * b, 0.0))),
    "Softplus": (1, lambda a, b: (0.0, max(b, 0.0) + 0.7)),
    "Softsign": (1, lambda a, b: (-1.0, 1.0)),
    "HardSigmoid": (6, lambda a, b: (0.0, 1.0)),
    "HardSwish": (14, lambda a, b: (-0.4, max(b, 0.0))),
    "ThresholdedRelu": (10, lambda a, b: (0.0, max(b, 0.0))),
    "Celu": (12, lambda a, b: (-2.0, max(b, 0.0))),
    "Mish": (18, lambda a, b: (-0.4, max(b, 0.0))),
    "Gelu": (20, lambda a, b: (-0.2, max(b, 0.0))),
    "Erf": (9, lambda a, b: (-1.0, 1.0)),
    "Abs": (6, lambda a, b: (0.0, max(abs(a), abs(b)))),
    "Neg": (6, lambda a, b: (-b, -a)),
    "Sin": (7, lambda a, b: (-1.0, 1.0)),
    "Cos": (7, lambda a, b: (-1.0, 1.0)),
    "Atan": (7, lambda a, b: (-1.6, 1.6)),
    "Floor": (6, lambda a, b: (math.floor(a), math.floor(b))),
    "Ceil": (6, lambda a, b: (math.ceil(a), math.ceil(b))),
    "Round": (11, lambda a, b: (a - 1, b + 1)),
    "Sign": (9, lambda a, b: (-1.0, 1.0)),
    "Identity": (1, lambda a, b: (a, b)),
    "Dropout": (13, lambda a, b: (a, b)),
}
ACTIVATIONS = ("Relu", "Tanh", "Sigmoid", "Elu", "LeakyRelu", "Selu", "Softplus", "HardSigmoid")
# Only float32 in ONNX Runtime.
_SINGLE = {
    "Atan", "Celu", "Elu", "Erf", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Selu",
    "Softplus", "Softsign", "ThresholdedRelu",
}  # fmt: skip


def _unary(net: Builder, kind: str, x: Value) -> Value | None:
    first, span = _UNARY[kind]
    if net.opset < first or (x.dtype == "float64" and kind in _SINGLE):
        return None
    options: dict[str, Any] = {}
    if kind in ("Elu", "LeakyRelu", "ThresholdedRelu", "Celu") and net.chance(0.5):
        options["alpha"] = net.random.choice((0.1, 0.5, 1.25))
    if kind == "HardSigmoid" and net.chance(0.5):
        options = {"alpha": 0.3, "beta": 0.4}
    if kind == "Gelu" and net.chance(0.5):
        options["approximate"] = net.random.choice(("none", "tanh"))
    return net.node(kind, [x], x.dtype, x.shape, *span(x.low, x.high), **options)


def activation(net: Builder, x: Value, *kinds: str) -> Value:
    """The value after an activation."""
    return _unary(net, net.random.choice(kinds or ACTIVATIONS), net.tame(x)) or x


def unary(net: Builder) -> bool:
    x = net.pick(*FLOATS)
    return x is not None and _unary(net, net.random.choice(list(_UNARY)), net.tame(x)) is not None


def restricted(net: Builder) -> bool:
    """Functions that aren't defined, or explode, for some operands."""
    x = net.pick(*FLOATS)
    if x is None:
        return False
    x = net.tame(x)
    kind = net.random.choice(("Exp", "Log", "Sqrt", "Reciprocal", "Pow", "Asin", "LogOfMask"))
    positive = net.node("Abs", [x], x.dtype, x.shape, 0, x.largest) if x.low < 0 else x
    if kind == "Exp":
        net.node("Exp", [x], x.dtype, x.shape, math.exp(x.low), math.exp(x.high))
    elif kind == "Sqrt":
        net.node("Sqrt", [positive], x.dtype, x.shape, 0, math.sqrt(positive.high))
    elif kind == "LogOfMask":
        mask = net.node("Cast", [_compare(net, x)], x.dtype, x.shape, 0, 1, to=tensor_type(x.dtype))
        log = net.node("Log", [mask], x.dtype, x.shape, -math.inf, 0)
        masked = net.node("Add", [x, log], x.dtype, x.shape, -math.inf, x.high)
        net.values = [v for v in net.values if v not in (log, masked)]
        if x.rank and x.dtype == "float32":
            # Not a number where a whole row is masked: what other nodes make of that isn't defined.
            y = net.node("Softmax", [masked], x.dtype, x.shape, 0, 1, axis=x.rank - 1)
            net.values.remove(y)
            net.ends.append(y)
        net.node("Max", [masked, x], x.dtype, x.shape, x.low, x.high)
    elif kind == "Asin":
        if x.dtype != "float32":
            return False
        small = net.node("Sin", [x], x.dtype, x.shape, -1, 1)
        name = net.random.choice(("Sinh", "Cosh", "Tan"))
        net.node(name, [small], x.dtype, x.shape, -2, 2)
    else:
        half = net.constant(0.5, x.dtype)
        shape = positive.shape
        span = (positive.low + 0.5, positive.high + 0.5)
        above = net.node("Add", [positive, half], x.dtype, shape, *span)
        if kind == "Log":
            net.node("Log", [above], x.dtype, shape, -1, math.log(above.high))
        elif kind == "Reciprocal":
            net.node("Reciprocal", [above], x.dtype, shape, 0, 2)
        else:
            power = net.random.choice((2.0, 0.5, 3.0, -1.0, 1.5))
            high = max(above.high**power, 0.5**power)
            net.node("Pow", [above, net.constant(power, x.dtype)], x.dtype, shape, 0, high)
    return True


def partner(net: Builder, x: Value) -> Value:
    """A second operand that broadcasting allows: a value so far, or a new constant."""
    others = [
        v for v in net.values if v.dtype == x.dtype and broadcast(v.shape, x.shape) is not None
    ]
    if others and net.chance(0.5):
        other = net.random.choice(others)
        return net.tame(other) if x.dtype in FLOATS else other
    shape = [d if isinstance(d, int) and net.chance(0.6) else 1 for d in x.shape]
    if net.chance(0.2):
        shape = [net.random.choice((1, 2, 3)), *shape]
    elif net.chance(0.4):
        shape = shape[net.random.randint(0, len(shape)) :]
    if x.dtype == "bool":
        return net.constant(net.array("bool", shape, 0, 1), "bool")
    scale = 2.0 if x.dtype in FLOATS else 5.0
    return net.weight(shape, scale, x.dtype)


def _together(a: Value, b: Value) -> Shape:
    shape = broadcast(a.shape, b.shape)
    assert shape is not None
    return shape


_BINARY = ("Add", "Add", "Sub", "Mul", "Mul", "Div", "Max", "Min", "Mean", "PRelu")
_INTEGRAL = ("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Neg", "Abs", "Sign")


def binary(net: Builder) -> bool:
    x = net.pick(*FLOATS)
    if x is None:
        return False
    x = net.tame(x)
    y = partner(net, x)
    if net.chance(0.5):
        x, y = y, x
    shape = _together(x, y)
    kind = net.random.choice(_BINARY)
    if kind == "Mean" and x.dtype != "float32":
        return False
    if kind in ("Max", "Min", "Mean"):
        operands = [x, y]
        if net.chance(0.4):
            operands.append(net.weight((), 1.0, x.dtype))
        low, high = min(v.low for v in operands), max(v.high for v in operands)
        net.node(kind, operands, x.dtype, shape, low, high)
        return True
    if kind == "PRelu":
        if shape != x.shape or x.dtype != "float32":
            return False
        most = x.largest * max(1.0, y.largest)
        net.node(kind, [x, y], x.dtype, shape, -most, most)
        return True
    if kind == "Div":
        square = net.node("Mul", [y, y], y.dtype, y.shape, 0, y.largest**2)
        y = net.node(
            "Add", [square, net.constant(0.25, y.dtype)], y.dtype, y.shape, 0.25, square.high + 0.25
        )
        most = 4 * x.largest
    else:
        most = x.largest * y.largest if kind == "Mul" else x.largest + y.largest
    net.node(kind, [x, y], x.dtype, shape, -most, most)
    return True


def _compare(net: Builder, x: Value) -> Value:
    kind = net.random.choice(("Greater", "Less", "GreaterOrEqual", "LessOrEqual"))
    if net.opset < 12:
        kind = kind.removesuffix("OrEqual")
    return net.node(kind, [x, net.constant(0.25, x.dtype)], "bool", x.shape)


def logic(net: Builder) -> bool:
    x = net.pick("bool", *FLOATS, *INTEGERS)
    if x is None:
        return False
    if x.dtype != "bool":
        y = partner(net, x)
        kind = net.random.choice(("Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual"))
        if kind == "Equal" and x.dtype in FLOATS:
            return False  # right answers that differ by rounding are equal or not
        if net.opset < 12:
            kind = kind.removesuffix("OrEqual")
        net.node(kind, [x, y], "bool", _together(x, y))
    elif net.chance(0.3):
        net.node("Not", [x], "bool", x.shape)
    else:
        y = partner(net, x)
        net.node(net.random.choice(("And", "Or", "Xor")), [x, y], "bool", _together(x, y))
    return True


def where(net: Builder) -> bool:
    x = net.pick(*FLOATS, *INTEGERS)
    condition = net.pick("bool")
    if x is None or condition is None:
        return False
    y = partner(net, x)
    both = _together(x, y)
    shape = broadcast(condition.shape, both)
    if shape is None:
        return False
    net.node("Where", [condition, x, y], x.dtype, shape, min(x.low, y.low), max(x.high, y.high))
    return True


def integers(net: Builder) -> bool:
    x = net.pick(*INTEGERS)
    if x is None:
        return False
    if x.largest > 1000:
        x = net.node("Mod", [x, net.constant(97, x.dtype)], x.dtype, x.shape, 0, 97)
    y = partner(net, x)
    shape = _together(x, y)
    kind = net.random.choice(_INTEGRAL)
    if kind in ("Neg", "Abs", "Sign"):
        net.node(kind, [x], x.dtype, x.shape, -x.largest, x.largest)
    elif kind in ("Div", "Mod"):
        divisor = net.constant(net.random.choice((2, 3, 5, -4)), x.dtype)
        net.node(kind, [x, divisor], x.dtype, x.shape, -x.largest, x.largest)
    elif kind in ("Max", "Min"):
        if net.opset < 12:
            return False
        net.node(kind, [x, y], x.dtype, shape, min(x.low, y.low), max(x.high, y.high))
    else:
        most = x.largest * y.largest if kind == "Mul" else x.largest + y.largest
        net.node(kind, [x, y], x.dtype, shape, -most, most)
    return True


def bits(net: Builder) -> bool:
    x = net.pick(*INTEGERS)
    if x is None or net.opset < 18:
        return False
    y = partner(net, x)
    kind = net.random.choice(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"))
    if kind == "BitwiseNot":
        net.node(kind, [x], x.dtype, x.shape, -x.largest - 1, x.largest + 1)
    else:
        most = 4 * (x.largest + y.largest + 1)
        net.node(kind, [x, y], x.dtype, _together(x, y), -most, most)
    return True


def cast(net: Builder) -> bool:
    x = net.pick("bool", *FLOATS, *INTEGERS)
    if x is None or (x.largest > 1e6 and x.dtype != "bool"):
        return False
    low, high = (0.0, 1.0) if x.dtype == "bool" else (x.low, x.high)
    if x.dtype == "float32" and net.chance(0.4):
        half = net.node("Cast", [x], "float16", x.shape, x.low, x.high, to=tensor_type("float16"))
        net.node("Cast", [half], "float32", x.shape, x.low, x.high, to=tensor_type("float32"))
        return True
    to = net.random.choice(("float32", net.float, "int32", "int64", "bool"))
    if to == "bool":
        low, high = 0.0, 1.0
    net.node("Cast", [x], to, x.shape, math.floor(low), math.ceil(high), to=tensor_type(to))
    return True


def clip(net: Builder) -> bool:
    x = net.pick("float32") if net.opset < 12 else net.pick(*FLOATS)
    if x is None:
        return False
    low, high = sorted(net.random.uniform(-2, 2) for _ in range(2))
    bounds: list[Value | str] = [net.constant(low, x.dtype), net.constant(high, x.dtype)]
    left_out = net.random.randint(0, 3)
    if left_out == 1:
        bounds[0], low = "", -math.inf
    elif left_out == 2:
        bounds[1], high = "", math.inf
    span = [min(max(end, low), high) for end in (x.low, x.high)]
    net.node("Clip", [x, *bounds], x.dtype, x.shape, *span)
    return True


def softmax(net: Builder) -> bool:
    x = net.pick(*FLOATS, least=1)
    if x is None:
        return False
    x = net.tame(x)
    axis = net.random.randrange(-x.rank, x.rank)
    if net.opset < 13 and not x.fixed:
        axis = x.rank - 1  # everything from the axis on is one row there
    kind, low, high = net.random.choice((("Softmax", 0.0, 1.0), ("LogSoftmax", -40.0, 0.0)))
    net.node(kind, [x], x.dtype, x.shape, low, high, axis=axis)
    return True


def normalization(net: Builder) -> bool:
    x = net.pick(*FLOATS, least=2)
    if x is None:
        return False
    x = net.tame(x)
    kind = net.random.choice(("LayerNormalization", "BatchNormalization", "InstanceNormalization"))
    if kind == "LayerNormalization":
        if net.opset < 17 or not isinstance(x.shape[-1], int) or x.shape[-1] < 2:
            return False
        n = x.shape[-1]
        inputs = [x, net.weight((n,), 1.0, x.dtype)]
        inputs += [net.weight((n,), 1.0, x.dtype)] if net.chance(0.7) else []
        options = {"axis": -1 if net.chance(0.7) else x.rank - 1}
        epsilon = {"epsilon": 1e-3} if net.chance(0.6) else {}
        net.node(kind, inputs, x.dtype, x.shape, -n, n, **options, **epsilon)
        return True
    channels = x.shape[1]
    if not isinstance(channels, int) or (kind == "InstanceNormalization" and x.rank < 3):
        return False
    if kind == "InstanceNormalization":
        if x.dtype != "float32" or 1 in x.shape[2:]:
            return False
        weights = [net.weight((channels,), 1.0, x.dtype) for _ in range(2)]
        net.node(kind, [x, *weights], x.dtype, x.shape, -50, 50, epsilon=1e-2)
        return True
    scale, bias, mean = (net.weight((channels,)) for _ in range(3))
    variance = net.constant(net.array(x.dtype, (channels,), 0.2, 2.0), x.dtype)
    if scale.dtype != x.dtype:
        return False
    net.node(kind, [x, scale, bias, mean, variance], x.dtype, x.shape, -40, 40)
    return True


def reduce(net: Builder) -> bool:
    x = net.pick(*FLOATS)
    if x is None or 0 in x.shape:
        return False  # ONNX Runtime makes other shapes of nothing
    x = net.tame(x)
    kind = net.random.choice(
        ("Sum", "Sum", "Mean", "Mean", "Max", "Min", "L1", "L2", "SumSquare", "LogSumExp", "Prod")
    )
    if kind == "Prod":
        x = net.node("Tanh", [x], x.dtype, x.shape, -1, 1)
    axes = sorted(net.random.sample(range(x.rank), net.random.randint(1, x.rank))) if x.rank else []
    keep = net.random.randint(0, 1)
    n = math.prod(d if isinstance(d, int) else 8 for d in x.shape)
    most = {"Mean": x.largest, "Max": x.largest, "Min": x.largest, "Prod": 1.0}.get(
        kind, n * max(x.largest, 1.0) ** 2
    )
    if axes and net.chance(0.8):
        shape = tuple(1 if i in axes else d for i, d in enumerate(x.shape) if keep or i not in axes)
        if net.chance(0.4):
            axes = [a - x.rank for a in axes]
    else:
        axes, shape = [], (1,) * x.rank if keep else ()
    inputs, options = [x], {}
    if axes and net.opset >= (13 if kind == "Sum" else 18):
        inputs.append(net.constant(axes, "int64"))
    elif axes:
        options["axes"] = axes
    net.node(f"Reduce{kind}", inputs, x.dtype, shape, -most, most, keepdims=keep, **options)
    return True


def choose(net: Builder) -> bool:
    """ArgMax and the like."""
    x = net.pick(*FLOATS, least=1)
    if x is None:
        return False
    axis = net.random.randrange(x.rank)
    length = x.shape[axis]
    kind = net.random.choice(("ArgMax", "ArgMax", "ArgMin", "TopK", "CumSum"))
    if kind == "CumSum":
        most = x.largest * (length if isinstance(length, int) else 8)
        net.node(
            kind,
            [x, net.constant(axis, net.random.choice(INTEGERS))],
            x.dtype,
            x.shape,
            -most,
            most,
            exclusive=net.random.randint(0, 1),
            reverse=net.random.randint(0, 1),
        )
        return True
    if not isinstance(length, int):
        return False
    if kind == "TopK":
        k = net.random.randint(1, length)
        shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
        net.many(
            kind,
            [x, net.constant([k], "int64")],
            [(x.dtype, shape, x.low, x.high), ("int64", shape, 0, length)],
            axis=axis,
            largest=net.random.randint(0, 1),
            sorted=1,
        )
        return True
    keep = net.random.randint(0, 1)
    shape = (*x.shape[:axis], *([1] if keep else []), *x.shape[axis + 1 :])
    options = {"select_last_index": 1} if net.opset >= 12 and net.chance(0.3) else {}
    net.node(kind, [x], "int64", shape, 0, length, axis=axis, keepdims=keep, **options)
    return True
