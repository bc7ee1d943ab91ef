# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps that move elements. A step returns False if nothing fits it."""

from __future__ import annotations

import math

import numpy as np
from network import FLOATS, INTEGERS, Builder, Dim, Shape, Value, tensor_type

ANY = ("bool", *FLOATS, *INTEGERS)


def _some(net: Builder, least: int = 0) -> Value | None:
    return net.pick(*ANY, least=least) if net.chance(0.3) else net.pick(*FLOATS, least=least)


def _same(
    net: Builder, kind: str, x: Value, others: list[Value], shape: Shape, **options: object
) -> bool:
    net.node(kind, [x, *others], x.dtype, shape, x.low, x.high, **options)
    return True


def reshape(net: Builder) -> bool:
    x = _some(net)
    if x is None:
        return False
    if not x.fixed:
        # Names of dimensions stay where they are: 0 copies them, the rest becomes one.
        if isinstance(x.shape[0], int) or not all(isinstance(d, int) for d in x.shape[1:]):
            return False
        rest = math.prod(int(d) for d in x.shape[1:])
        shape = net.constant(net.random.choice(([0, rest], [-1, rest])), "int64")
        return _same(net, "Reshape", x, [shape], (x.shape[0], rest))
    count = math.prod(x.ints)
    if count == 0:
        return False
    dims: list[int] = []
    left = count
    while left > 1 and len(dims) < 3:
        factors = [f for f in range(2, left + 1) if left % f == 0]
        dims.append(net.random.choice(factors))
        left //= dims[-1]
    dims += [left] if left > 1 else []
    if net.chance(0.3):
        dims.insert(net.random.randint(0, len(dims)), 1)
    asked = list(dims)
    if dims and net.chance(0.5):
        asked[net.random.randrange(len(dims))] = -1
    target = net.constant(np.asarray(asked, "int64"), "int64")
    return _same(net, "Reshape", x, [target], tuple(dims))


def flatten(net: Builder) -> bool:
    x = _some(net)
    if x is None or not x.fixed:
        return False
    axis = net.random.randint(0, x.rank)
    shape = (math.prod(x.ints[:axis]), math.prod(x.ints[axis:]))
    return _same(net, "Flatten", x, [], shape, axis=axis)


def squeeze(net: Builder) -> bool:
    x = _some(net, 1)
    if x is None:
        return False
    ones = [i for i, d in enumerate(x.shape) if d == 1]
    if ones and net.chance(0.6):
        axes = sorted(net.random.sample(ones, net.random.randint(1, len(ones))))
        kind, shape = "Squeeze", tuple(d for i, d in enumerate(x.shape) if i not in axes)
    elif x.rank < 5:
        axes = [net.random.randint(0, x.rank)]
        kind, shape = "Unsqueeze", (*x.shape[: axes[0]], 1, *x.shape[axes[0] :])
    else:
        return False
    if net.opset >= 13:
        return _same(net, kind, x, [net.constant(axes, "int64")], shape)
    return _same(net, kind, x, [], shape, axes=axes)


def transpose(net: Builder) -> bool:
    x = _some(net, 1)
    if x is None:
        return False
    if net.chance(0.2):
        return _same(net, "Transpose", x, [], x.shape[::-1])
    order = net.random.sample(range(x.rank), x.rank)
    return _same(net, "Transpose", x, [], tuple(x.shape[i] for i in order), perm=order)


def concat(net: Builder) -> bool:
    x = _some(net, 1)
    if x is None:
        return False
    axis = net.random.randrange(x.rank)
    if not isinstance(x.shape[axis], int):
        return False
    fitting = [
        v
        for v in net.values
        if v.dtype == x.dtype
        and v.rank == x.rank
        and isinstance(v.shape[axis], int)
        and all(a == b for i, (a, b) in enumerate(zip(v.shape, x.shape, strict=True)) if i != axis)
    ]
    parts = [x, *(net.random.choice(fitting) for _ in range(net.random.randint(0, 2)))]
    if x.fixed and net.chance(0.4):
        other = list(x.ints)
        other[axis] = net.random.randint(1, 3)
        value = net.array(x.dtype, other, 0 if x.dtype == "bool" else -2, 2)
        parts.insert(net.random.randint(0, len(parts)), net.constant(value, x.dtype))
    length = sum(int(v.shape[axis]) for v in parts)
    shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
    low, high = min(v.low for v in parts), max(v.high for v in parts)
    axis = axis if net.chance(0.7) else axis - x.rank
    net.node("Concat", parts, x.dtype, shape, low, high, axis=axis)
    return True


def split(net: Builder) -> bool:
    x = _some(net, 1)
    if x is None:
        return False
    axis = net.random.randrange(x.rank)
    length = x.shape[axis]
    if not isinstance(length, int) or length < 2:
        return False
    cut = net.random.randint(1, length - 1)
    sizes = [cut, length - cut]
    inputs, options = [x], {"axis": axis}
    if length % 2 == 0 and net.chance(0.3):
        sizes = [length // 2, length // 2]
        options |= {"num_outputs": 2} if net.opset >= 18 else {}
    elif net.opset >= 13:
        inputs.append(net.constant(sizes, "int64"))
    else:
        options["split"] = sizes  # type: ignore[assignment]
    shapes = [(*x.shape[:axis], size, *x.shape[axis + 1 :]) for size in sizes]
    net.many("Split", inputs, [(x.dtype, shape, x.low, x.high) for shape in shapes], **options)
    return True


def slice_(net: Builder) -> bool:
    x = _some(net, 1)
    if x is None:
        return False
    axes = sorted(net.random.sample(range(x.rank), net.random.randint(1, x.rank)))
    axes = [a for a in axes if isinstance(x.shape[a], int)]
    if not axes:
        return False
    starts, ends, steps, shape = [], [], [], list(x.shape)
    for axis in axes:
        length = int(x.shape[axis])
        step = net.random.choice((1, 1, 1, 2, -1, -2))
        first, last = sorted(net.random.randint(0, length) for _ in range(2))
        if first == last:
            first, last = 0, length
        taken: range
        if step > 0:
            start, end = first, last if net.chance(0.7) else 2**31 - 1
            taken = range(length)[start : min(end, length) : step]
            start = start - length if net.chance(0.3) else start
        else:
            start, end = last - 1, -(2**31)
            taken = range(length)[start::step]
        starts.append(start)
        ends.append(end)
        steps.append(step)
        shape[axis] = len(taken)
    lists = [starts, ends, axes, steps]
    if all(s == 1 for s in steps) and net.chance(0.5):
        lists.pop()
    dtype = net.random.choice(INTEGERS)
    return _same(net, "Slice", x, [net.constant(v, dtype) for v in lists], tuple(shape))


def pad(net: Builder) -> bool:
    x = net.pick(*FLOATS, least=1)
    if x is None or any(d in (0, 1) for d in x.shape):
        return False
    mode = net.random.choice(("constant", "constant", "reflect", "edge"))
    before, after, shape = [], [], []
    for d in x.shape:
        a, b = (net.random.randint(0, 1) if isinstance(d, int) else 0 for _ in range(2))
        before.append(a)
        after.append(b)
        shape.append(d + a + b if isinstance(d, int) else d)
    inputs = [net.constant(before + after, "int64")]
    low, high = x.low, x.high
    if mode == "constant" and net.chance(0.5):
        inputs.append(net.constant(0.75, x.dtype))
    net.node("Pad", [x, *inputs], x.dtype, tuple(shape), min(low, 0), max(high, 1), mode=mode)
    return True


def tile(net: Builder) -> bool:
    x = _some(net, 1)
    if x is None:
        return False
    times = [net.random.randint(1, 2) if isinstance(d, int) and d < 20 else 1 for d in x.shape]
    if net.chance(0.5):
        shape: Shape = tuple(
            d * t if isinstance(d, int) else d for d, t in zip(x.shape, times, strict=True)
        )
        return _same(net, "Tile", x, [net.constant(times, "int64")], shape)
    if not x.fixed:
        return False
    target = [net.random.choice((d, 1)) if d != 1 else net.random.randint(1, 3) for d in x.ints]
    if net.chance(0.3):
        target = [2, *target]
    lead = len(target) - x.rank
    shape = tuple(
        t if i < lead or x.ints[i - lead] == 1 else x.ints[i - lead] for i, t in enumerate(target)
    )
    return _same(net, "Expand", x, [net.constant(target, "int64")], shape)


def gather(net: Builder) -> bool:
    x = _some(net, 1)
    if x is None:
        return False
    axis = net.random.randrange(x.rank)
    length = x.shape[axis]
    if not isinstance(length, int) or length == 0:
        return False
    kind = net.random.choice(("Gather", "Gather", "GatherElements", "GatherND"))
    low = -length if net.chance(0.5) else 0
    dtype = net.random.choice(INTEGERS)
    if kind == "Gather":
        dims = [net.random.randint(1, 4) for _ in range(net.random.randint(0, 2))]
        index = net.constant(net.array(dtype, dims, low, length - 1), dtype)
        shape: Shape = (*x.shape[:axis], *dims, *x.shape[axis + 1 :])
        return _same(net, kind, x, [index], shape, axis=axis)
    if not x.fixed or 0 in x.shape:
        return False
    if kind == "GatherElements":
        dims = [net.random.randint(1, d) for d in x.ints]
        dims[axis] = net.random.randint(1, 4)
        index = net.constant(net.array(dtype, dims, low, length - 1), dtype)
        return _same(net, kind, x, [index], tuple(dims), axis=axis)
    depth = net.random.randint(1, x.rank)
    count = net.random.randint(1, 4)
    index = net.constant(_indexes(net, x, count, depth), "int64")
    return _same(net, kind, x, [index], (count, *x.shape[depth:]))


def _indexes(net: Builder, x: Value, count: int, depth: int) -> list[list[int]]:
    return [[net.random.randrange(x.ints[i]) for i in range(depth)] for _ in range(count)]


def scatter(net: Builder) -> bool:
    x = net.pick(*FLOATS, least=1)
    if x is None or not x.fixed or 0 in x.shape:
        return False
    x = net.tame(x)
    # Which of several updates of one place counts is not defined without a reduction.
    how = net.random.choice(("none", "add", "mul", "max", "min"))
    if net.opset < (18 if how in ("max", "min") else 16):
        how = "none"
    options = {} if how == "none" else {"reduction": how}
    most = 2 + 6 * x.largest
    if net.chance(0.5):
        axis = net.random.randrange(x.rank)
        count = net.random.randint(1, x.ints[axis]) if how == "none" else net.random.randint(1, 6)
        dims = [net.random.randint(1, d) for d in x.ints]
        dims[axis] = count
        index = net.array("int64", dims, 0, x.ints[axis] - 1)
        if how == "none":
            line = net.random.sample(range(x.ints[axis]), count)
            index[...] = np.reshape(line, [-1 if i == axis else 1 for i in range(x.rank)])
        updates = net.weight(dims, 2.0, x.dtype)
        inputs = [x, net.constant(index, "int64"), updates]
        net.node("ScatterElements", inputs, x.dtype, x.shape, -most, most, axis=axis, **options)
        return True
    depth = net.random.randint(1, x.rank)
    places = _indexes(net, x, net.random.randint(1, 5), depth)
    if how == "none":
        places = [list(p) for p in dict.fromkeys(map(tuple, places))]
    updates = net.weight((len(places), *x.ints[depth:]), 2.0, x.dtype)
    inputs = [x, net.constant(places, "int64"), updates]
    net.node("ScatterND", inputs, x.dtype, x.shape, -most, most, **options)
    return True


def one_hot(net: Builder) -> bool:
    x = net.pick("int64", "int32")
    if x is None or not x.rank:
        return False
    depth = net.random.randint(2, 5)
    index = net.node("Mod", [x, net.constant(depth, x.dtype)], x.dtype, x.shape, 0, depth - 1)
    off, on = (-1.0, 2.0) if net.chance(0.5) else (0.0, 1.0)
    values = net.constant([off, on], "float32")
    width = net.constant(depth, "int64")
    if index.dtype == "int32":
        index = net.node("Cast", [index], "int64", x.shape, 0, depth - 1, to=tensor_type("int64"))
    net.node("OneHot", [index, width, values], "float32", (*x.shape, depth), off, on, axis=-1)
    return True


def by_shape(net: Builder) -> bool:
    """The nodes that exporters write to keep a batch dimension: Shape, Gather, Concat, Reshape."""
    x = net.pick(*FLOATS, least=2)
    if x is None or 0 in x.shape or not all(isinstance(d, int) for d in x.shape[1:]):
        return False
    rest = math.prod(int(d) for d in x.shape[1:])
    first: Dim = x.shape[0]
    shape = net.node("Shape", [x], "int64", (x.rank,), 0, 100)
    zero = net.constant([0] if net.chance(0.5) else 0, "int64")
    length = net.node("Gather", [shape, zero], "int64", zero.shape, 0, 100, axis=0)
    if zero.rank == 0:
        if net.opset >= 13:
            axes = [net.constant([0], "int64")]
            length = net.node("Unsqueeze", [length, *axes], "int64", (1,), 0, 100)
        else:
            length = net.node("Unsqueeze", [length], "int64", (1,), 0, 100, axes=[0])
    kind = net.random.choice(("Reshape", "Expand", "ConstantOfShape", "Range"))
    if kind == "Reshape":
        tail = net.constant([rest] if net.chance(0.5) else [-1], "int64")
        target = net.node("Concat", [length, tail], "int64", (2,), 0, 100, axis=0)
        net.node(kind, [x, target], x.dtype, (first, rest), x.low, x.high)
    elif kind == "Range":
        scalar = net.node("ReduceMax", [length], "int64", (), 0, 100, keepdims=0)
        ends = [net.constant(0, "int64"), scalar, net.constant(1, "int64")]
        net.node(kind, ends, "int64", (first,), 0, 100)
    else:
        tail = net.constant([3], "int64")
        target = net.node("Concat", [length, tail], "int64", (2,), 0, 100, axis=0)
        if kind == "Expand":
            row = net.weight((1, 3))
            net.node(kind, [row, target], row.dtype, (first, 3), row.low, row.high)
        else:
            net.node(kind, [target], "float32", (first, 3), 0, 0)
    net.values = [v for v in net.values if v not in (shape, length)]
    return True


def triangle(net: Builder) -> bool:
    x = net.pick(*FLOATS, least=2)
    if x is None or net.opset < 14:
        return False
    inputs = [net.constant(net.random.randint(-2, 2), "int64")] if net.chance(0.6) else []
    low, high = min(x.low, 0), max(x.high, 0)
    upper = net.random.randint(0, 1)
    net.node("Trilu", [x, *inputs], x.dtype, x.shape, low, high, upper=upper)
    return True
