# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Complete binary trees of one depth, in NumPy and as a TreeEnsemble of ai.onnx.ml.

`inputs` and `limits` [trees, 2^depth - 1] are what the nodes compare, level by level. The right
child follows where an input is greater than the limit, the left one otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx.numpy_helper import from_array as tensor

#: The limit of a node whose left child always follows.
NO_LIMIT = 3e38
#: The target of a leaf, and what the leaf adds to it.
Leaf = tuple[int, float]
#: A leaf; or an input, its limit, and the trees on both sides.
Tree = Any
GREATER = 3  # the number of BRANCH_GT


def leaves(x: Any, inputs: Any, limits: Any, depth: int) -> Any:
    """The number of the leaf that each row of x reaches in each tree, [rows, trees]."""
    bits = x[:, np.asarray(inputs)] > np.asarray(limits, np.float32)
    at = np.zeros(bits.shape[:2], int)
    for level in range(depth):
        bit = np.take_along_axis(bits, (at + (1 << level) - 1)[..., None], axis=2)[..., 0]
        at = 2 * at + bit
    return at


def pruned(
    inputs: Sequence[int],
    limits: Sequence[float],
    leaves: Sequence[Leaf],
    node: int = 0,
    known: Mapping[int, tuple[float, float]] | None = None,
) -> Tree:
    """The part of a tree below a node, without comparisons that change nothing: the two sides are
    the same, or nodes above have compared the input. `known` has the limits that it is known to lie
    between."""
    if node >= len(inputs):
        return leaves[node - len(inputs)]
    known = known or {}
    column, limit = inputs[node], float(np.float32(limits[node]))
    low, high = known.get(column, (-np.inf, float(np.float32(NO_LIMIT))))

    def side(child: int, bounds: tuple[float, float]) -> Tree:
        return pruned(inputs, limits, leaves, 2 * node + child, {**known, column: bounds})

    if limit >= high:
        return side(1, (low, high))
    if limit <= low:
        return side(2, (low, high))
    left, right = side(1, (low, limit)), side(2, (limit, high))
    return left if left == right else (column, limit, left, right)


def ensemble(trees: Sequence[Tree]) -> dict[str, Any]:
    """The attributes of a TreeEnsemble that adds what is reached in each tree. Leaves that give the
    same are one."""
    numbers: dict[Leaf, int] = {}
    columns: list[int] = []
    limits: list[float] = []
    sides: list[tuple[list[int], list[int]]] = [([], []), ([], [])]  # ids of children; is it a leaf

    def add(tree: Tree) -> int:
        """Appends the nodes of a tree, its root first."""
        column, limit, *children = tree if len(tree) == 4 else (0, 0.0, tree, tree)
        node = len(columns)
        columns.append(column)
        limits.append(limit)
        for (ids, is_leaf), child in zip(sides, children, strict=True):
            ids.append(numbers.setdefault(child, len(numbers)) if len(child) == 2 else 0)
            is_leaf.append(int(len(child) == 2))
        for (ids, _), child in zip(sides, children, strict=True):
            if len(child) == 4:
                ids[node] = add(child)
        return node

    roots = [add(tree) for tree in trees]
    return {
        "n_targets": 1 + max(target for target, _ in numbers),
        "tree_roots": roots,
        "nodes_featureids": columns,
        "nodes_splits": tensor(np.array(limits, np.float32)),
        "nodes_modes": tensor(np.full(len(columns), GREATER, np.uint8)),
        "nodes_falsenodeids": sides[0][0],
        "nodes_falseleafs": sides[0][1],
        "nodes_truenodeids": sides[1][0],
        "nodes_trueleafs": sides[1][1],
        "leaf_targetids": [target for target, _ in numbers],
        "leaf_weights": tensor(np.array([weight for _, weight in numbers], np.float32)),
    }
