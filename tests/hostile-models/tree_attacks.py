# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""More of attacks.py: ensembles of trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from attacks import MAX, Attack, attack, f32, register
from more_attacks import ATTACKS as ATTACKS
from nodes import FLOAT, build, info, node
from onnx import TensorProto, helper

NAN, INFINITY = float("nan"), float("inf")
ROWS = f32((0, 0), (9, -9), (NAN, 0.25), (INFINITY, -INFINITY), (-0.0, 0.5))
#: Two tests and three leaves.
LISTS: dict[str, Any] = {
    "nodes_treeids": [0] * 5, "nodes_nodeids": [0, 1, 2, 3, 4], "nodes_featureids": [0, 1, 0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
    "nodes_values": [0.5, 0.25, 0.0, 0.0, 0.0], "nodes_truenodeids": [1, 3, 0, 0, 0],
    "nodes_falsenodeids": [2, 4, 0, 0, 0], "target_treeids": [0] * 3, "target_nodeids": [2, 3, 4],
    "target_ids": [0] * 3, "target_weights": [1.0, 2.0, 3.0], "n_targets": 1,
}  # fmt: skip


def of(kind: str, version: int, **lists: Any) -> Attack:
    """An empty list can only be left out."""
    lists = {name: value for name, value in lists.items() if value != []}
    made = build(
        [node(kind, ["x"], ["y"], domain="ai.onnx.ml", **lists)],
        [info("x", None, 2, kind=FLOAT)],
        [info("y", None, None, kind=FLOAT)],
    )
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", version))
    return made, [{"x": ROWS}, {"x": ROWS[:1]}, {"x": ROWS[:0]}]


for _name, _changed in {
    "whole": {},
    "in-a-cycle": {"nodes_truenodeids": [1, 0, 0, 0, 0]},
    "that-is-its-own-child": {"nodes_truenodeids": [0, 3, 0, 0, 0]},
    "whose-children-are-one": {"nodes_falsenodeids": [2, 3, 0, 0, 0]},
    "without-a-child": {"nodes_truenodeids": [1, 7, 0, 0, 0]},
    "of-negative-numbers": {"nodes_truenodeids": [1, -(1 << 63), 0, 0, 0]},
    "of-nodes-named-twice": {"nodes_nodeids": [0, 1, 2, 3, 3]},
    "in-two-parts": {"nodes_treeids": [0, 0, 0, 1, 0]},
    "of-huge-numbers": {"nodes_treeids": [MAX] * 5, "target_treeids": [MAX] * 3},
    "with-a-feature-out-of-range": {"nodes_featureids": [0, 2, 0, 0, 0]},
    "with-a-huge-feature": {"nodes_featureids": [0, 1 << 62, 0, 0, 0]},
    "with-thresholds-of-nan": {"nodes_values": [NAN, NAN, 0.0, 0.0, 0.0]},
    "with-infinite-thresholds": {"nodes_values": [INFINITY, -INFINITY, 0.0, 0.0, 0.0]},
    "with-a-target-out-of-range": {"target_ids": [0, 0, 1]},
    "with-a-negative-target": {"target_ids": [0, -1, 0]},
    "with-huge-targets": {"n_targets": 1 << 40},
    "without-weights": {"target_weights": []},
    "with-some-weights": {"target_treeids": [0], "target_nodeids": [3], "target_ids": [0],
                          "target_weights": [2.0]},
    "with-a-weight-of-a-test": {"target_nodeids": [0, 3, 4]},
    "with-infinite-weights": {"target_weights": [INFINITY, -INFINITY, NAN]},
    "with-few-values": {"nodes_values": [0.5]},
    "with-few-modes": {"nodes_modes": ["BRANCH_LEQ"]},
    "with-few-children": {"nodes_falsenodeids": [2]},
    "with-few-flags": {"nodes_missing_value_tracks_true": [1]},
    "of-nothing": {k: [] for k in LISTS if k != "n_targets"},
}.items():  # fmt: skip
    register(
        f"trees-{_name}",
        lambda c=_changed: of("TreeEnsembleRegressor", 3, **{**LISTS, **c}),  # type: ignore[misc]
    )


def compact(tests: int, roots: list[int], **lists: Any) -> Attack:
    """A TreeEnsemble whose node i leads to node i + 1, or to the only leaf."""
    last = [0] * (tests - 1)
    given: dict[str, Any] = {
        "nodes_featureids": [0] * tests, "nodes_modes": np.zeros(tests, np.uint8),
        "nodes_splits": np.full(tests, -1, np.float32), "nodes_truenodeids": [0] * tests,
        "nodes_trueleafs": [1] * tests, "nodes_falsenodeids": [*range(1, tests), 0],
        "nodes_falseleafs": [*last, 1], "leaf_targetids": [0],
        "leaf_weights": f32(1), "tree_roots": roots, "n_targets": 1, **lists,
    }  # fmt: skip
    kinds = {"nodes_modes": TensorProto.UINT8}
    for name, value in given.items():
        if isinstance(value, np.ndarray):
            kind = kinds.get(name, FLOAT)
            given[name] = helper.make_tensor(name, kind, value.shape, value.tobytes(), raw=True)
    return of("TreeEnsemble", 5, **given)


#: More nodes than open within the deadline, in one chain.
MANY = 1_000_000

for _name, _make in {
    "compact": lambda: compact(3, [0]),
    "compact-in-a-cycle": lambda: compact(3, [0], nodes_falseleafs=[0] * 3),
    "compact-without-roots": lambda: compact(3, []),
    "compact-with-one-root-twice": lambda: compact(3, [0, 0]),
    "compact-with-a-root-out-of-range": lambda: compact(3, [3]),
    "compact-with-a-leaf-out-of-range": lambda: compact(3, [0], nodes_truenodeids=[0, 1, 0]),
    "compact-with-a-bad-mode": lambda: compact(3, [0], nodes_modes=np.full(3, 7, np.uint8)),
    "compact-without-members": lambda: compact(3, [0], nodes_modes=np.full(3, 6, np.uint8)),
    "of-a-million-nodes": lambda: compact(MANY, [0]),
}.items():  # fmt: skip
    register(f"trees-{_name}", _make)


@attack
def trees_of_a_million_leaves() -> Attack:
    """Each tree is a leaf."""
    return compact(MANY, [*range(MANY)], nodes_falsenodeids=[0] * MANY, nodes_falseleafs=[1] * MANY)
