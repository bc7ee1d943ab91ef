# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trees that expect the time of each choice, and the network that chooses by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx_text import network as network_of
from trees import NO_LIMIT, ensemble, leaves, pruned

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
    columns = np.take_along_axis(rows, np.maximum(at, 0)[..., None], axis=-2) * there
    every = columns[..., ACCESSES : ACCESSES + 1]
    reused = columns[..., TEMPORAL : SPATIAL + 1]
    strided = every - reused[..., :1] - reused[..., 1:]
    shares = np.concatenate([reused, strided], -1) / (every + np.float32(0.5))
    seen = np.concatenate([columns, strided, shares], -1)
    flat = seen.reshape(*seen.shape[:-2], -1)
    return np.concatenate([flat, depth[..., None].astype(np.float32)], -1)


def scores(x: Any, trees: Mapping[str, Any]) -> Any:
    """The score of each choice; the least is taken."""
    values = np.asarray(trees["leaves"], np.float64)
    at = leaves(x, trees["inputs"], trees["limits"], trees["depth"])
    total = values[np.arange(values.shape[0]), at].sum(axis=1)
    return total + np.asarray(trees["margins"])


def grown(x: Any, y: Any, depth: int, fewest: int, among: int, rng: np.random.Generator) -> Trees:
    """A tree whose leaves have the means of y; each node compares one of a few inputs."""
    nodes = (1 << depth) - 1
    chosen, limits = [0] * nodes, [NO_LIMIT] * nodes
    at = np.zeros(len(x), int)
    for level in range(depth):
        first = (1 << level) - 1
        for node in range(first, 2 * first + 1):
            inside = np.flatnonzero(at == node - first)
            best = 1e-9
            for column in rng.permutation(x.shape[1])[:among]:
                values = x[inside, column]
                order = np.argsort(values, kind="stable")
                sorted_values = values[order]
                ends = np.flatnonzero(sorted_values[1:] > sorted_values[:-1]) + 1
                ends = ends[(ends >= fewest) & (len(sorted_values) - ends >= fewest)]
                if not len(ends):
                    continue
                sums = np.cumsum(y[inside][order], axis=0)
                below, above = sums[ends - 1], sums[-1] - sums[ends - 1]
                gains = (
                    (below**2).sum(1) / ends
                    + (above**2).sum(1) / (len(sorted_values) - ends)
                    - (sums[-1] ** 2).sum() / len(sorted_values)
                )
                if gains.max() > best:
                    best, end = gains.max(), ends[gains.argmax()]
                    chosen[node] = int(column)
                    limits[node] = float(
                        np.float32((sorted_values[end - 1] + sorted_values[end]) / 2)
                    )
        bits = x[np.arange(len(x)), np.array(chosen)[at + first]] > np.array(
            limits, np.float32
        )[at + first]  # fmt: skip
        at = 2 * at + bits
    return {"inputs": chosen, "limits": limits}


def fit(
    x: Any, y: Any, count: int, depth: int, fewest: int, among: int, margin: float, seed: int = 0
) -> Trees:
    """Trees that predict y, the logarithms of the ratios of times, each grown from a sample. The
    first choice costs nothing, the others a margin."""
    rng = np.random.default_rng(seed)
    made: Trees = {"depth": depth, "inputs": [], "limits": [], "leaves": []}
    made["margins"] = [0.0] + [margin] * (y.shape[1] - 1)
    for _ in range(count):
        sample = rng.integers(0, len(x), len(x))
        one = grown(x[sample], y[sample], depth, fewest, among, rng)
        at = leaves(x[sample], [one["inputs"]], [one["limits"]], depth)
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
    """Chooses one of the vectors. Each tree gives the number of a row of `leaves`, which are whole
    multiples of UNIT."""
    found = np.round(np.array(trees["leaves"]) / UNIT).astype(np.int8)
    rows, numbers = np.unique(found.reshape(-1, len(vectors)), axis=0, return_inverse=True)
    each = zip(trees["inputs"], trees["limits"], numbers.reshape(found.shape[:2]), strict=True)
    pruned_trees = [
        pruned(nodes, limits, [(tree, float(row)) for row in of_tree])
        for tree, (nodes, limits, of_tree) in enumerate(each)
    ]
    graph = f"""
"polly-tiling" (float[{LOOPS}, {COLUMNS}] loops) => (int64[{LOOPS}] sizes)
<int64 nests = {{{NESTS}}}, int64[1] accesses = {{{ACCESSES}}}, int64[1] temporal = {{{TEMPORAL}}},
 int64[1] spatial = {{{SPATIAL}}}, float zero = {{0}}, float half = {{0.5}}, int64 none = {{0}},
 int64[1] flat = {{-1}}, int64[2] column = {{{SEEN}, 1}}, int64[2] row = {{1, -1}},
 int64[1] rows = {{0}}> {{
  nests_of = Gather <axis = 1> (loops, nests)
  exists = Greater (nests_of, zero)
  ones = Cast <to = 7> (exists)
  count = ReduceSum <keepdims = 1> (ones, rows)
  at = Sub (count, behind)
  is_outside = Less (at, none)
  is_there = Not (is_outside)
  there = Cast <to = 1> (is_there)
  place = Max (at, none)
  found = Gather <axis = 0> (loops, place)
  weight = Reshape (there, column)
  seen = Mul (found, weight)
  every = Gather <axis = 1> (seen, accesses)
  again = Gather <axis = 1> (seen, temporal)
  near = Gather <axis = 1> (seen, spatial)
  others = Sub (every, again)
  strided = Sub (others, near)
  kinds = Concat <axis = 1> (again, near, strided)
  total_accesses = Add (every, half)
  shares = Div (kinds, total_accesses)
  table = Concat <axis = 1> (seen, strided, shares)
  flat_table = Reshape (table, flat)
  depth = Cast <to = 1> (count)
  compared = Concat <axis = 0> (flat_table, depth)
  x = Reshape (compared, row)
  reached = ai.onnx.ml.TreeEnsemble (x)
  numbers = Cast <to = 7> (reached)
  leaf = Reshape (numbers, flat)
  units = Gather <axis = 0> (leaves, leaf)
  values = Cast <to = 1> (units)
  total = ReduceSum <keepdims = 0> (values, rows)
  score = Add (total, margins)
  best = ArgMin <axis = 0, keepdims = 0> (score)
  sizes = Gather <axis = 0> (vectors, best)
}}"""
    constants = {
        "leaves": rows,
        "margins": np.array(trees["margins"], np.float32) / np.float32(UNIT),
        "vectors": np.array(vectors, np.int64),
        "behind": np.arange(1, SEEN + 1, dtype=np.int64),
    }
    return network_of(graph, constants, trees=ensemble(pruned_trees))
