# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of Transformers: attention, positions, Einsum, losses, and what ONNX Runtime fuses."""

from __future__ import annotations

import math
from typing import Any

from network import MICROSOFT, Builder, Shape, Value

FIRST = 23  # opset with attention


def attention(net: Builder) -> bool:
    if net.opset < FIRST or net.float != "float32":
        return False
    batch, heads, group = (
        net.random.choice((1, 2)),
        net.random.choice((1, 2)),
        net.random.choice((1, 1, 2)),
    )
    size, width = net.random.choice((1, 4, 8, 17)), net.random.choice((4, 8, 16))
    queries, keys = net.random.choice((1, 3, 7, 18)), net.random.choice((1, 4, 9, 33))
    flat = net.chance(0.5)

    def tensor(length: int, count: int, each: int) -> Value:
        shape = (batch, length, count * each) if flat else (batch, count, length, each)
        same = [v for v in net.values if v.shape == shape and v.dtype == "float32"]
        if same and net.chance(0.5):
            return net.tame(net.random.choice(same), 2.0)
        return net.input("float32", shape) if net.chance(0.7) else net.weight(shape, 1.0)

    q, k, v = (
        tensor(queries, heads * group, size),
        tensor(keys, heads, size),
        tensor(keys, heads, width),
    )
    inputs: list[Value | str] = [q, k, v]
    whole, outputs = keys, 1
    past = net.random.choice((0, 0, 3))
    if net.chance(0.5):
        dtype = net.random.choice(("bool", "float32"))
        inputs.append(net.weight((queries, keys + past), 1.0, dtype))
    if past:
        inputs += [""] * (4 - len(inputs))
        inputs += [net.weight((batch, heads, past, n), 1.0) for n in (size, width)]
        whole, outputs = keys + past, 3
    options: dict[str, Any] = {}
    if net.chance(0.5) and not (past and queries == 1):  # ONNX Runtime doesn't mask it then
        options["is_causal"] = 1
    if flat:
        options |= {"q_num_heads": heads * group, "kv_num_heads": heads}
    if net.chance(0.3):
        options["softcap"] = 2.0
    if net.chance(0.3):
        options["scale"] = 0.4
    shape: Shape = (
        (batch, queries, heads * group * width) if flat else (batch, heads * group, queries, width)
    )
    made = [("float32", shape, -v.largest, v.largest)]
    for each, value in ((size, k), (width, v)):
        most = max(1.0, value.largest)
        made.append(("float32", (batch, heads, whole, each), -most, most))
    net.many("Attention", inputs, made[:outputs], **options)
    return True


def positions(net: Builder) -> bool:
    if net.opset < FIRST or net.float != "float32":
        return False
    batch, heads, length, half = (net.random.choice(c) for c in ((1, 2), (1, 3), (1, 5), (1, 4, 9)))
    x = net.input("float32", (batch, heads, length, 2 * half))
    caches = [net.weight((length, half)) for _ in range(2)]
    if net.chance(0.5):
        places = net.array("int64", (batch, length), 0, length - 1)
        inputs = [x, *caches, net.constant(places, "int64")]
    else:
        inputs = [x, *(net.weight((batch, length, half)) for _ in range(2))]
    way = net.random.randint(0, 1)
    net.node("RotaryEmbedding", inputs, "float32", x.shape, -4, 4, interleaved=way)
    return True


_EQUATIONS = (
    "ij,jk->ik", "bij,bjk->bik", "ij->ji", "ij->", "i,j->ij", "ij,ij->i", "bhqd,bhkd->bhqk",
    "ij,kj,lk->il", "abc,bad->cd", "ab,ab,ab->b", "ii->i", "...ij,jk->...ik", "ba,a->b",
)  # fmt: skip


def einsum(net: Builder) -> bool:
    if net.opset < 12:
        return False
    equation = net.random.choice(_EQUATIONS)
    lengths = {
        c: net.random.choice((1, 2, 3, 5, 8, 17)) for c in sorted(set(equation)) if c.isalpha()
    }
    if math.prod(lengths.values()) > 20000:
        return False
    left, right = equation.split("->")
    operands = []
    for letters in left.split(","):
        shape: tuple[int, ...] = tuple(lengths[c] for c in letters if c != ".")
        shape = (2, *shape) if "..." in letters else shape
        same = [v for v in net.values if v.shape == shape and v.dtype == net.float]
        if same and net.chance(0.6):
            operands.append(net.tame(net.random.choice(same), 2.0))
        else:
            operands.append(net.input(net.float, shape) if net.chance(0.5) else net.weight(shape))
    result: Shape = tuple(lengths[c] for c in right if c != ".")
    if "..." in right:
        result = (2, *result)
    most = math.prod(v.largest for v in operands) * math.prod(lengths.values())
    net.node("Einsum", operands, net.float, result, -most, most, equation=equation)
    return True


def _matrix(net: Builder) -> Value | None:
    x = net.pick("float32", least=2)
    return net.tame(x) if x and isinstance(x.shape[-1], int) else None


def fused(net: Builder) -> bool:
    """What ONNX Runtime's optimizer writes."""
    x = _matrix(net)
    if x is None or net.float != "float32":
        return False
    n, kind = int(x.shape[-1]), net.random.choice(("Gelu", "MatMul", "Gemm", "Norm"))
    low, high = -0.2, max(x.high, 0.0) + 1
    domain = {"domain": MICROSOFT}
    if kind == "Gelu":
        kind = net.random.choice(("Gelu", "FastGelu", "QuickGelu", "BiasGelu"))
        bias = [net.weight((n,))] if kind == "BiasGelu" else []
        net.node(kind, [x, *bias], x.dtype, x.shape, low, high, **domain)
        return True
    width = net.random.choice((1, 3, 8, 17))
    across = net.random.randint(0, 1)
    weight = net.weight((width, n) if across else (n, width))
    shape, most = (*x.shape[:-1], width), n * x.largest + 2
    if kind == "MatMul":
        options: dict[str, Any] = {"alpha": 0.5, "transB": across}
        net.node("FusedMatMul", [x, weight], x.dtype, shape, -most, most, **domain, **options)
        return True
    if kind == "Gemm" and x.rank == 2:
        options = {"transB": across, "activation": net.random.choice(("Relu", "Tanh", "Sigmoid"))}
        inputs = [x, weight, net.weight((width,))]
        net.node("FusedGemm", inputs, x.dtype, shape, -most, most, **domain, **options)
        return True
    if x.rank != 3 or not x.fixed or n < 2:
        return False
    simple = "Simplified" if net.chance(0.4) else ""
    weights = [net.weight((n,)) for _ in range(1 if simple else 2)]
    skip = net.weight(x.ints)
    options = {"epsilon": 1e-3}
    net.node(
        f"Skip{simple}LayerNormalization", [x, skip, *weights], x.dtype, x.shape, -n, n,
        **domain, **options,
    )  # fmt: skip
    return True


def loss(net: Builder) -> bool:
    if net.opset < 13:
        return False
    rows, classes = net.random.choice((1, 3, 8)), net.random.choice((2, 5, 17))
    more = (4,) if net.chance(0.3) else ()
    x = net.input("float32", (rows, classes, *more))
    labels = net.input("int64", (rows, *more), 0, classes - 1)
    inputs: list[Value] = [x, labels]
    if net.chance(0.4):
        inputs.append(net.constant(net.array("float32", (classes,), 0.2, 2), "float32"))
    options: dict[str, Any] = {"reduction": net.random.choice(("none", "mean", "sum"))}
    if net.chance(0.3):
        options["ignore_index"] = 0
    shape: Shape = labels.shape if options["reduction"] == "none" else ()
    # Not a number if no label counts.
    kind = net.random.choice(("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"))
    made = [("float32", shape, -math.inf, math.inf)]
    if kind[0] == "S" and net.chance(0.5):
        made.append(("float32", x.shape, -40, 0))
    results = net.many(kind, inputs, made, **options)
    net.values.remove(results[0])
    net.ends.append(results[0])
    return True
