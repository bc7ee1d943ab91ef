# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The network of a seed.

generate.py COUNT FOLDER        writes so many, each into a file
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import aliases
import attention as a
import elementwise as e
import extremes
import images as i
import quantized as q
import shaping as s
import structures as t
from network import Builder, Dim, Network, Shape, Value

Step = Callable[[Builder], bool]

_NUMERIC: list[Step] = [
    e.unary, e.unary, e.unary, e.binary, e.binary, e.binary, e.restricted, e.clip, e.softmax,
    e.normalization, e.reduce, e.reduce, e.choose, e.logic, e.where, e.cast, t.product,
]  # fmt: skip
_SHAPES: list[Step] = [
    s.reshape, s.flatten, s.squeeze, s.transpose, s.concat, s.split, s.slice_, s.pad, s.tile,
    s.gather, s.scatter, s.one_hot, s.by_shape, s.triangle,
]  # fmt: skip
_INTEGERS: list[Step] = [
    e.integers, e.integers, e.bits, e.cast, e.logic, e.where, s.gather, s.one_hot,
]  # fmt: skip
_IMAGES: list[Step] = [
    i.convolution, i.convolution, i.transposed, i.pool, i.pool, i.resize, i.sampled,
    i.local_response, e.unary, e.binary, e.normalization,
]  # fmt: skip
_TRANSFORMERS: list[Step] = [
    a.attention, a.attention, a.positions, a.einsum, a.fused, a.fused, a.loss, t.layers,
    e.normalization, e.softmax,
]  # fmt: skip
_QUANTIZED: list[Step] = [
    q.product,
    q.product,
    q.elementwise,
    q.elementwise,
    q.convolution,
    e.unary,
    e.binary,
]
_CLASSICAL: list[Step] = [q.trees, q.trees, q.classical, q.classical, e.binary, e.softmax]
_CONTROL: list[Step] = [t.branch, t.loop, t.scan, e.unary, e.binary]

# how often, the steps, the least and the most of them
_FAMILIES: list[tuple[int, list[Step], int, int]] = [
    (3, [t.layers], 1, 2),
    (2, [t.layers, e.softmax, e.normalization, e.choose, e.clip, e.binary], 2, 5),
    (4, _NUMERIC, 2, 10),
    (3, _SHAPES, 2, 8),
    (2, _INTEGERS, 2, 6),
    (2, [t.recurrent, t.recurrent, s.squeeze, s.transpose, t.layers], 1, 3),
    (2, [t.graph], 1, 1),
    (2, _CONTROL, 1, 4),
    (3, _IMAGES, 1, 4),
    (3, _TRANSFORMERS, 1, 4),
    (2, _QUANTIZED, 1, 3),
    (2, _CLASSICAL, 1, 3),
    (
        5,
        [
            *_NUMERIC,
            *_SHAPES,
            *_INTEGERS,
            *_CONTROL,
            *_IMAGES,
            *_TRANSFORMERS,
            *_QUANTIZED,
            *_CLASSICAL,
            t.layers,
            t.recurrent,
        ],
        4,
        16,
    ),
]


def _dimension(net: Builder) -> int:
    return net.random.choice((1, 2, 3, 3, 4, 5, 7, 8, 9, 15, 16, 17, 18, 33))


def _inputs(net: Builder) -> None:
    if net.chance(0.3):
        lengths = tuple(net.random.choice((1, 2, 3, 5, 8)) for _ in range(2))
        net.lengths["n"] = (*lengths, lengths[0])
    for number in range(net.random.randint(1, 3)):
        rank = net.random.choice((0, 1, 2, 2, 2, 3, 3, 4))
        shape: list[Dim] = [_dimension(net) for _ in range(rank)]
        while len(shape) > 2 and _product(shape) > 2000:
            shape.pop()
        if shape and net.lengths and net.chance(0.7):
            shape[0] = "n"
        kind = "float" if number == 0 else net.random.choice(("float", "float", "int", "bool"))
        if kind == "float":
            net.input(net.float, tuple(shape))
        elif kind == "int":
            net.input(net.random.choice(("int32", "int64")), tuple(shape), -9, 9)
        else:
            net.input("bool", tuple(shape), 0, 1)


def _product(shape: list[Dim]) -> int:
    count = 1
    for d in shape:
        count *= d if isinstance(d, int) else 8
    return count


def _facts(value: Value) -> tuple[str, Shape, float, float]:
    return value.dtype, value.shape, value.low, value.high


def network(seed: int) -> Network:
    """Always the same for a seed."""
    net = Builder(seed)
    _, steps, least, most = net.random.choices(_FAMILIES, [f[0] for f in _FAMILIES])[0]
    _inputs(net)
    if steps is _INTEGERS:
        net.input(net.random.choice(("int32", "int64")), (_dimension(net), 3), -9, 9)
    wanted = net.random.randint(least, most)
    for _ in range(20 * wanted):
        if not wanted:
            break
        if net.random.choice(steps)(net):
            wanted -= 1
    if not net.nodes:
        e.unary(net) or net.node("Identity", [net.values[0]], *_facts(net.values[0]))
    return net.finish()


KINDS: dict[str, Callable[[int], Network]] = {
    "networks": network,
    "aliases": aliases.network,
    "many-aliases": aliases.many,
    "extremes": extremes.network,
}


def main() -> None:
    """Write some, for a fuzzer to start from."""
    count, folder = int(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(count):
        (folder / f"{seed}.onnx").write_bytes(network(seed).model.SerializeToString())


if __name__ == "__main__":
    main()
