# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trees that expect the time of each choice, and the network that chooses by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import policy_networks as networks
from onnx import helper
from policy_networks import FLOAT, INT64

LOOPS, COLUMNS = 8, 9
#: Columns of a loop, as examples/tiling has them.
TRIPS, MOST, NESTS, ACCESSES, TEMPORAL, SPATIAL = 0, 1, 2, 4, 5, 6
#: The innermost loops, of which trees see everything.
SEEN = 4
#: Leaves are multiples of this, so that their sums are exact in float32 in any order.
UNIT = 1 / 1024
Trees = dict[str, Any]


def inputs(rows: Any) -> Any:
    """What trees compare, of loops [..., 8, 9]: for the innermost loops, innermost first, zeros for
    those that aren't there, their columns, accesses with a stride, and shares of accesses; and how
    many loops there are."""
    rows = np.asarray(rows, np.float32)
    depth = (rows[..., NESTS] > 0).sum(-1)
    at = depth[..., None] - 1 - np.arange(SEEN)
    there = (at >= 0).astype(np.float32)[..., None]
    its = np.take_along_axis(rows, np.maximum(at, 0)[..., None], axis=-2) * there
    every = its[..., ACCESSES : ACCESSES + 1]
    reused = its[..., TEMPORAL : SPATIAL + 1]
    strided = every - reused[..., :1] - reused[..., 1:]
    shares = np.concatenate([reused, strided], -1) / (every + np.float32(0.5))
    seen = np.concatenate([its, strided, shares], -1)
    flat = seen.reshape(*seen.shape[:-2], -1)
    return np.concatenate([flat, depth[..., None].astype(np.float32)], -1)


def leaves(x: Any, trees: Mapping[str, Any]) -> Any:
    """Which leaf each row of x reaches in each tree."""
    depth = trees["depth"]
    bits = x[:, np.asarray(trees["inputs"])] > np.asarray(trees["limits"], np.float32)
    at = np.zeros(bits.shape[:2], int)
    for level in range(depth):
        bit = np.take_along_axis(bits, (at + (1 << level) - 1)[..., None], axis=2)[..., 0]
        at = 2 * at + bit
    return at


def scores(x: Any, trees: Mapping[str, Any]) -> Any:
    """Of each choice; the least is taken."""
    values = np.asarray(trees["leaves"], np.float64)
    at = leaves(x, trees)
    total = values[np.arange(values.shape[0]), at].sum(axis=1)
    return total + np.asarray(trees["margins"])


def grown(x: Any, y: Any, depth: int, fewest: int, among: int, rng: np.random.Generator) -> Trees:
    """A tree whose leaves have the means of y; each node compares one of a few inputs."""
    nodes = (1 << depth) - 1
    chosen, limits = [0] * nodes, [3e38] * nodes
    at = np.zeros(len(x), int)
    for level in range(depth):
        first = (1 << level) - 1
        for node in range(first, 2 * first + 1):
            inside = np.flatnonzero(at == node - first)
            best = 1e-9
            for column in rng.permutation(x.shape[1])[:among]:
                values = x[inside, column]
                order = np.argsort(values, kind="stable")
                its = values[order]
                ends = np.flatnonzero(its[1:] > its[:-1]) + 1
                ends = ends[(ends >= fewest) & (len(its) - ends >= fewest)]
                if not len(ends):
                    continue
                sums = np.cumsum(y[inside][order], axis=0)
                below, above = sums[ends - 1], sums[-1] - sums[ends - 1]
                gains = (
                    (below**2).sum(1) / ends
                    + (above**2).sum(1) / (len(its) - ends)
                    - (sums[-1] ** 2).sum() / len(its)
                )
                if gains.max() > best:
                    best, end = gains.max(), ends[gains.argmax()]
                    chosen[node] = int(column)
                    limits[node] = float(np.float32((its[end - 1] + its[end]) / 2))
        bits = x[np.arange(len(x)), np.array(chosen)[at + first]] > np.array(
            limits, np.float32
        )[at + first]  # fmt: skip
        at = 2 * at + bits
    return {"inputs": chosen, "limits": limits}


def fit(
    x: Any, y: Any, count: int, depth: int, fewest: int, among: int, margin: float, seed: int = 0
) -> Trees:
    """Of y, the logarithms of the ratios of times: each tree of a sample. The first choice costs
    nothing, the others a margin."""
    rng = np.random.default_rng(seed)
    made: Trees = {"depth": depth, "inputs": [], "limits": [], "leaves": []}
    made["margins"] = [0.0] + [margin] * (y.shape[1] - 1)
    for _ in range(count):
        sample = rng.integers(0, len(x), len(x))
        one = grown(x[sample], y[sample], depth, fewest, among, rng)
        at = leaves(
            x[sample], {"depth": depth, "inputs": [one["inputs"]], "limits": [one["limits"]]}
        )
        values = np.zeros((1 << depth, y.shape[1]))
        for leaf in range(1 << depth):
            inside = y[sample][at[:, 0] == leaf]
            if len(inside):
                values[leaf] = inside.mean(axis=0)
        made["inputs"].append(one["inputs"])
        made["limits"].append(one["limits"])
        made["leaves"].append((np.round(values / count / UNIT) * UNIT).tolist())
    return made


def network(trees: Mapping[str, Any], vectors: Sequence[Sequence[int]]) -> onnx.ModelProto:
    """Chooses one of the vectors."""
    depth = trees["depth"]
    constants: dict[str, Any] = {
        "inputs": np.array(trees["inputs"]),
        "limits": np.array(trees["limits"], np.float32),
        "leaves": np.array(trees["leaves"], np.float32).reshape(-1, len(vectors)),
        "margins": np.array(trees["margins"], np.float32),
        "vectors": np.array(vectors, np.int64),
        "first_leaves": np.arange(len(trees["inputs"]), dtype=np.int64) << depth,
        "root": np.zeros((len(trees["inputs"]), 1), np.int64),
        "behind": np.arange(1, SEEN + 1, dtype=np.int64),
        "zero": np.float32(0),
        "half": np.float32(0.5),
        "none": np.int64(0),
        "two": np.int64(2),
        "flat": np.array([-1]),
        "column": np.array([SEEN, 1]),
        "nests": np.int64(NESTS),
        "accesses": np.array([ACCESSES]),
        "temporal": np.array([TEMPORAL]),
        "spatial": np.array([SPATIAL]),
        "columns": np.array([1]),
        "rows": np.array([0]),
    }
    nodes: list[onnx.NodeProto] = []

    def add(kind: str, *taken: str, **more: Any) -> str:
        name = f"value_{len(nodes)}"
        nodes.append(helper.make_node(kind, list(taken), [name], **more))
        return name

    exist = add("Greater", add("Gather", "loops", "nests", axis=1), "zero")
    count = add("ReduceSum", add("Cast", exist, to=INT64), "rows", keepdims=1)
    at = add("Sub", count, "behind")
    there = add("Cast", add("Not", add("Less", at, "none")), to=FLOAT)
    its = add("Gather", "loops", add("Max", at, "none"), axis=0)
    its = add("Mul", its, add("Reshape", there, "column"))
    every, temporal, spatial = (
        add("Gather", its, name, axis=1) for name in ("accesses", "temporal", "spatial")
    )
    strided = add("Sub", add("Sub", every, temporal), spatial)
    shares = add(
        "Div", add("Concat", temporal, spatial, strided, axis=1), add("Add", every, "half")
    )
    seen = add("Reshape", add("Concat", its, strided, shares, axis=1), "flat")
    x = add("Concat", seen, add("Cast", count, to=FLOAT), axis=0)
    greater = add("Greater", add("Gather", x, "inputs", axis=0), "limits")
    bits = add("Cast", greater, to=INT64)
    leaf = add("GatherElements", bits, "root", axis=1)
    for level in range(1, depth):
        constants[f"level_{level}"] = np.int64((1 << level) - 1)
        bit = add("GatherElements", bits, add("Add", leaf, f"level_{level}"), axis=1)
        leaf = add("Add", add("Mul", leaf, "two"), bit)
    where = add("Add", add("Reshape", leaf, "flat"), "first_leaves")
    total = add("ReduceSum", add("Gather", "leaves", where, axis=0), "rows", keepdims=0)
    best = add("ArgMin", add("Add", total, "margins"), axis=0, keepdims=0)
    nodes.append(helper.make_node("Gather", ["vectors", best], ["sizes"], axis=0))
    return networks.model(
        "polly-tiling",
        nodes,
        {"loops": (FLOAT, [LOOPS, COLUMNS])},
        {"sizes": (INT64, [LOOPS])},
        constants,
    )
