# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of quantized networks and of classical models."""

from __future__ import annotations

from typing import Any

import images
from network import CLASSICAL, MICROSOFT, Builder, Value


def _rows(net: Builder) -> Value | None:
    x = net.pick("float32", rank=2)
    if x is None or not x.fixed or net.opset < 13:
        return None
    return net.tame(x)


def _scale(net: Builder, most: float, width: int | None = None) -> Value:
    """Such that a byte holds most of it."""
    shape = () if width is None else (width,)
    return net.constant(net.array("float32", shape, most / 160, most / 90), "float32")


def _zero(net: Builder, dtype: str, width: int | None = None) -> Value:
    low, high = (100, 150) if dtype == "uint8" else (-5, 5)
    return net.constant(net.array(dtype, () if width is None else (width,), low, high), dtype)


def _bytes(net: Builder, x: Value, dtype: str) -> tuple[Value, Value, Value]:
    """The value in bytes, with its scale and zero."""
    scale, zero = _scale(net, x.largest or 1.0), _zero(net, dtype)
    return net.node("QuantizeLinear", [x, scale, zero], dtype, x.shape, 0, 255), scale, zero


def _weight(net: Builder, shape: tuple[int, ...], dtype: str) -> Value:
    low, high = (0, 255) if dtype == "uint8" else (-127, 127)
    return net.constant(net.array(dtype, shape, low, high), dtype)


def _real(net: Builder, q: Value, scale: Value, zero: Value, most: float) -> None:
    net.node("DequantizeLinear", [q, scale, zero], "float32", q.shape, -most, most)


def product(net: Builder) -> bool:
    """A product of matrices of bytes, in one of the ways in which quantizers write it."""
    x = _rows(net)
    if x is None:
        return False
    rows, n = x.ints
    width = net.random.choice((1, 3, 8, 17, 33))
    first = net.random.choice(("uint8", "uint8", "int8"))
    second = net.random.choice(("int8", "uint8")) if first == "uint8" else first
    weight = _weight(net, (n, width), second)
    many = width if second == "int8" and net.chance(0.4) else None
    scale, zero = _scale(net, 1.0, many), _zero(net, second, many)
    most = n * x.largest * 2.5 + 1
    way = net.random.choice(("QDQ", "QLinear", "Integer", "Float", "Dynamic"))
    if way == "QDQ":
        q, a_scale, a_zero = _bytes(net, x, first)
        back = net.node("DequantizeLinear", [q, a_scale, a_zero], "float32", x.shape, -most, most)
        axis = {} if many is None else {"axis": 1}
        right = net.node(
            "DequantizeLinear", [weight, scale, zero], "float32", weight.shape, -3, 3, **axis
        )
        net.node("MatMul", [back, right], "float32", (rows, width), -most, most)
        return True
    if way == "QLinear":
        q, a_scale, a_zero = _bytes(net, x, first)
        y_scale, y_zero = _scale(net, most), _zero(net, first)
        inputs = [q, a_scale, a_zero, weight, scale, zero, y_scale, y_zero]
        y = net.node("QLinearMatMul", inputs, first, (rows, width), 0, 255)
        _real(net, y, y_scale, y_zero, most)
        return True
    if way == "Dynamic":
        inputs = [x, weight, scale, zero, net.weight((width,), 1.0, "float32")]
        net.node(
            "DynamicQuantizeMatMul", inputs, "float32", (rows, width), -most, most, domain=MICROSOFT
        )
        return True
    q, a_scale, a_zero = net.many(
        "DynamicQuantizeLinear", [x],
        [("uint8", x.shape, 0, 255), ("float32", (), 0, x.largest), ("uint8", (), 0, 255)],
    )  # fmt: skip
    net.values = [v for v in net.values if v not in (a_scale, a_zero)]
    if way == "Float":
        inputs = [q, weight, a_scale, scale, a_zero, zero]
        net.node(
            "MatMulIntegerToFloat", inputs, "float32", (rows, width), -most, most, domain=MICROSOFT
        )
        return True
    sums = net.node("MatMulInteger", [q, weight, a_zero, zero], "int32", (rows, width), -1e6, 1e6)
    net.values.remove(sums)
    real = net.node("Cast", [sums], "float32", sums.shape, -1e6, 1e6, to=1)
    net.values.remove(real)
    both = net.node("Mul", [a_scale, scale], "float32", scale.shape, 0, 1)
    net.node("Mul", [real, both], "float32", sums.shape, -most, most)
    return True


def convolution(net: Builder) -> bool:
    if net.opset < 13 or net.float != "float32":
        return False
    x = images.image(net, 3, 4)
    n, channels, *lengths = x.ints
    groups = net.random.choice((1, 1, channels))
    options: dict[str, Any] = images.window(net, tuple(lengths)) | {"group": groups}
    outputs = groups * net.random.choice((1, 3, 8))
    weight = _weight(net, (outputs, channels // groups, *options["kernel_shape"]), "int8")
    many = outputs if net.chance(0.4) else None
    scale, zero = _scale(net, 1.0, many), _zero(net, "int8", many)
    shape, most = (n, outputs, *images.places(tuple(lengths), options)), 20 * x.largest + 1
    q, a_scale, a_zero = _bytes(net, x, "uint8")
    if net.chance(0.3):
        y = net.node("ConvInteger", [q, weight, a_zero], "int32", shape, -1e6, 1e6, **options)
        net.values.remove(y)
        y = net.node("Cast", [y], "float32", shape, -1e6, 1e6, to=1)
        net.node("Mul", [y, net.constant(1e-4, "float32")], "float32", shape, -100, 100)
        return True
    y_scale, y_zero = _scale(net, most), _zero(net, "uint8")
    inputs = [q, a_scale, a_zero, weight, scale, zero, y_scale, y_zero]
    if net.chance(0.5):
        inputs.append(net.constant(net.array("int32", (outputs,), -3000, 3000), "int32"))
    y = net.node("QLinearConv", inputs, "uint8", shape, 0, 255, **options)
    _real(net, y, y_scale, y_zero, most)
    return True


_BINARY = ("QLinearAdd", "QLinearMul", "QLinearConcat")
_UNARY = ("QLinearSigmoid", "QLinearLeakyRelu", "QLinearGlobalAveragePool")


def elementwise(net: Builder) -> bool:
    """And what else ONNX Runtime does with bytes."""
    x = net.pick("float32", least=1)
    if x is None or not x.fixed or net.opset < 13:
        return False
    x = net.tame(x)
    dtype = net.random.choice(("uint8", "int8"))
    a, a_scale, a_zero = _bytes(net, x, dtype)
    kind = net.random.choice(("None", *_BINARY, *_UNARY))
    most, shape = max(1.0, x.largest), x.shape
    if kind == "None":
        _real(net, a, a_scale, a_zero, most)
        return True
    options: dict[str, Any] = {}
    inputs = [a, a_scale, a_zero]
    if kind in _BINARY:
        b = _weight(net, x.ints, dtype)
        inputs += [b, _scale(net, 1.0), _zero(net, dtype)]
        most = 3 * most + 3
    if kind == "QLinearConcat":
        options["axis"] = 0
        shape = (2 * x.ints[0], *x.shape[1:])
    elif kind == "QLinearLeakyRelu":
        options["alpha"] = 0.1
    elif kind == "QLinearGlobalAveragePool":
        if x.rank != 4:
            return True
        shape = (*x.shape[:2], 1, 1)
    result = _scale(net, most), _zero(net, dtype)
    inputs = [*result, *inputs] if kind == "QLinearConcat" else [*inputs, *result]
    y = net.node(kind, inputs, dtype, shape, 0, 255, domain=MICROSOFT, **options)
    _real(net, y, *result, most)
    return True


# ---- classical models ----------------------------------------------------------------------------


def trees(net: Builder) -> bool:
    x = _rows(net)
    if x is None:
        return False
    rows, features = x.ints
    targets, count, depth = (
        net.random.choice((1, 3)),
        net.random.randint(1, 12),
        net.random.randint(0, 4),
    )
    nodes: dict[str, list[Any]] = {
        name: []
        for name in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids",
                     "falsenodeids", "missing_value_tracks_true")
    }  # fmt: skip
    leaves: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}

    def grow(tree: int, number: int, level: int) -> int:
        """The number of the next node."""
        row = len(nodes["nodeids"])
        leaf = level == depth or (level > 0 and net.chance(0.2))
        mode = "LEAF" if leaf else net.random.choice(("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT"))
        facts = (tree, number, net.random.randrange(features), mode,
                 net.random.uniform(-1.5, 1.5), 0, 0, net.random.randint(0, 1))  # fmt: skip
        for column, fact in zip(nodes.values(), facts, strict=True):
            column.append(fact)
        if leaf:
            weights = (tree, number, net.random.randrange(targets), net.random.uniform(-1, 1))
            for column, fact in zip(leaves.values(), weights, strict=True):
                column.append(fact)
            return number + 1
        nodes["truenodeids"][row] = number + 1
        nodes["falsenodeids"][row] = other = grow(tree, number + 1, level + 1)
        return grow(tree, other, level + 1)

    for tree in range(count):
        grow(tree, 0, 0)
    options: dict[str, Any] = {f"nodes_{name}": column for name, column in nodes.items()}
    shape, kind = (rows, targets), net.random.choice(("SUM", "AVERAGE", "MIN", "MAX"))
    options |= {f"target_{name}": column for name, column in leaves.items()}
    options |= {"n_targets": targets, "aggregate_function": kind}
    net.node(
        "TreeEnsembleRegressor", [x], "float32", shape, -count, count, domain=CLASSICAL, **options
    )
    return True


def classical(net: Builder) -> bool:
    x = _rows(net)
    if x is None:
        return False
    rows, n = x.ints
    kind = net.random.choice(("Scaler", "Normalizer", "LinearRegressor", "SVMRegressor", "Imputer"))
    shape, most = x.shape, 4 * (x.largest + 2)

    def numbers(count: int) -> list[float]:
        return [net.random.uniform(-2, 2) for _ in range(count)]

    options: dict[str, Any] = {}
    if kind == "Scaler":
        options = {"offset": numbers(n), "scale": numbers(n)}
    elif kind == "Normalizer":
        options, most = {"norm": net.random.choice(("L1", "L2", "MAX"))}, 1.0
    elif kind == "LinearRegressor":
        targets = net.random.choice((1, 3))
        options = {"coefficients": numbers(n * targets), "intercepts": numbers(targets)}
        options["targets"] = targets
        shape, most = (rows, targets), n * most
    elif kind == "SVMRegressor":
        count, shape, most = net.random.randint(1, 5), (rows, 1), 20.0
        options = {
            "kernel_type": net.random.choice(("RBF", "LINEAR", "SIGMOID")),
            "kernel_params": [0.3, 0.5, 2.0],
            "n_supports": count,
            "support_vectors": numbers(count * n),
            "coefficients": numbers(count),
            "rho": numbers(1),
        }
        most *= n * max(1.0, x.largest)
    else:
        options = {"imputed_value_floats": numbers(n), "replaced_value_float": 0.0}
    net.node(kind, [x], "float32", shape, -most, most, domain=CLASSICAL, **options)
    return True
