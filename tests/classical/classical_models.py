# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random models of the operators of ai.onnx.ml, as exporters of scikit-learn, XGBoost and LightGBM
write them, and others that only a hostile or careless one would write.

    classical_models.py FOLDER    writes some
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
TYPES: dict[int, Any] = {
    TensorProto.FLOAT: np.float32,
    TensorProto.DOUBLE: np.float64,
    TensorProto.INT64: np.int64,
    TensorProto.INT32: np.int32,
}


Outputs = list[tuple[str, int, list[Any]]]


@dataclass
class Trees:
    """The lists of nodes of version 1, and what leaves give: (tree, node, target, weight)."""

    nodes: dict[str, Any] = field(default_factory=dict)
    leaves: list[tuple[int, int, int, float]] = field(default_factory=list)


def threshold(chance: random.Random) -> float:
    """A number that inputs have, too."""
    return chance.choice((-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0))


def trees(
    chance: random.Random, *, count: int, depth: int, features: int, targets: int,
    modes: tuple[str, ...], whole: bool = False, positive: bool = False,
) -> Trees:  # fmt: skip
    """`whole`: each leaf gives something to all targets."""
    made = Trees()
    columns = ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids",
               "falsenodeids", "missing_value_tracks_true")  # fmt: skip
    nodes: dict[str, list[Any]] = {column: [] for column in columns}

    def grow(tree: int, level: int) -> int:
        number = len([t for t in nodes["treeids"] if t == tree])
        row = len(nodes["treeids"])
        is_leaf = level == depth or (level > 0 and chance.random() < 0.2)
        mode = "LEAF" if is_leaf else chance.choice(modes)
        values = (tree, number, 0 if is_leaf else chance.randrange(features), mode,
                  0.0 if is_leaf else threshold(chance), 0, 0, chance.randrange(2))  # fmt: skip
        for column, value in zip(columns, values, strict=True):
            nodes[column].append(value)
        if is_leaf:
            given = range(targets) if whole else [tree % targets]
            for target in given:
                weight = chance.random() if positive else chance.uniform(-1, 1)
                made.leaves.append((tree, number, target, float(np.float32(weight))))
        else:
            nodes["truenodeids"][row] = grow(tree, level + 1)
            nodes["falsenodeids"][row] = grow(tree, level + 1)
        return number

    for tree in range(count):
        grow(tree, 0)
    made.nodes = {f"nodes_{column}": values for column, values in nodes.items()}
    return made


def model(
    node: onnx.NodeProto, kind: int, width: int, outputs: Outputs,
    version: int = 3,
) -> onnx.ModelProto:  # fmt: skip
    """One node of x [n, width]."""
    graph = helper.make_graph(
        [node],
        "classical",
        [helper.make_tensor_value_info("x", kind, ["n", width])],
        [helper.make_tensor_value_info(*output) for output in outputs],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def rows(chance: random.Random, kind: int, width: int, *, nan: bool) -> np.ndarray[Any, Any]:
    """Some rows of numbers, among them thresholds and NaN."""
    numbers = [
        [
            float("nan") if nan and chance.random() < 0.1
            else threshold(chance) if chance.random() < 0.5
            else chance.uniform(-3, 4)
            for _ in range(width)
        ]
        for _ in range(chance.choice((1, 2, 7)))
    ]  # fmt: skip
    if kind in (TensorProto.INT64, TensorProto.INT32):
        numbers = [[int(number) for number in row] for row in numbers]
    return np.array(numbers, TYPES[kind])


def tree_regressor(seed: int) -> tuple[onnx.ModelProto, np.ndarray[Any, Any]]:
    chance = random.Random(seed)
    kind = chance.choice(list(TYPES))
    width, targets = chance.randint(1, 6), chance.choice((1, 1, 2, 5))
    made = trees(
        chance, count=chance.choice((5, 8, 9, 30)), depth=chance.randint(0, 6), features=width,
        targets=targets, modes=chance.choice((MODES[:1], MODES)), whole=chance.random() < 0.5,
    )  # fmt: skip
    lists: dict[str, Any] = {
        "target_treeids": [t for t, _, _, _ in made.leaves],
        "target_nodeids": [n for _, n, _, _ in made.leaves],
        "target_ids": [i for _, _, i, _ in made.leaves],
        "target_weights": [w for _, _, _, w in made.leaves],
    }
    more: dict[str, Any] = {}
    if chance.random() < 0.5:
        more["base_values"] = [float(np.float32(chance.uniform(-1, 1))) for _ in range(targets)]
    aggregate = chance.choice(("SUM", "SUM", "AVERAGE", "MIN", "MAX"))
    transform = chance.choice(("NONE", "NONE", "LOGISTIC", "SOFTMAX"))
    if targets == 1 and transform == "SOFTMAX":
        transform = "NONE"
    node = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=targets,
        aggregate_function=aggregate, post_transform=transform, **made.nodes, **lists, **more,
    )  # fmt: skip
    result = model(node, kind, width, [("y", TensorProto.FLOAT, ["n", targets])])
    return result, rows(chance, kind, width, nan=kind < TensorProto.UINT8)


def tree_classifier(seed: int) -> tuple[onnx.ModelProto, np.ndarray[Any, Any]]:
    chance = random.Random(seed)
    kind = chance.choice(list(TYPES))
    width, classes = chance.randint(1, 6), chance.choice((2, 2, 3, 5))
    is_binary = classes == 2 and chance.random() < 0.7
    made = trees(
        chance, count=chance.choice((3, 8, 9, 30)), depth=chance.randint(1, 6), features=width,
        targets=1 if is_binary else classes, modes=chance.choice((MODES[:1], MODES)),
        whole=is_binary or chance.random() < 0.7, positive=chance.random() < 0.5,
    )  # fmt: skip
    only = chance.randrange(2) if is_binary else 0
    lists: dict[str, Any] = {
        "class_treeids": [t for t, _, _, _ in made.leaves],
        "class_nodeids": [n for _, n, _, _ in made.leaves],
        "class_ids": [i + only for _, _, i, _ in made.leaves],
        "class_weights": [w for _, _, _, w in made.leaves],
    }
    more: dict[str, Any] = {}
    # ONNX Runtime forgets some scores if two classes have two base values, or one that the second
    # class should get.
    if (classes > 2 or (is_binary and only == 0)) and chance.random() < 0.5:
        count = 1 if classes == 2 else classes
        more["base_values"] = [float(np.float32(chance.uniform(-1, 1))) for _ in range(count)]
    labels = chance.choice((list(range(classes)), [7 * i - 3 for i in range(classes)]))
    node = helper.make_node(
        "TreeEnsembleClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml",
        classlabels_int64s=labels,
        post_transform=chance.choice(("NONE", "NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")),
        **made.nodes, **lists, **more,
    )  # fmt: skip
    outputs: Outputs = [("scores", TensorProto.FLOAT, ["n", classes])]
    # If both of two classes have scores, ONNX Runtime chooses the second whose score is positive.
    if classes > 2 or is_binary:
        outputs.insert(0, ("label", TensorProto.INT64, ["n"]))
    return model(node, kind, width, outputs), rows(chance, kind, width, nan=kind < 2)


def linear_classifier(seed: int) -> tuple[onnx.ModelProto, np.ndarray[Any, Any]]:
    chance = random.Random(seed)
    kind = chance.choice((TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64))
    width, classes = chance.randint(1, 6), chance.choice((2, 2, 3, 5))
    outputs = 1 if classes == 2 and chance.random() < 0.5 else classes
    node = helper.make_node(
        "LinearClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml",
        classlabels_ints=[3 * i + 1 for i in range(classes)],
        coefficients=[chance.uniform(-1, 1) for _ in range(outputs * width)],
        intercepts=[chance.uniform(-1, 1) for _ in range(outputs)],
        multi_class=chance.randrange(2),
        post_transform=chance.choice(("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")),
    )  # fmt: skip
    given: Outputs = [
        ("label", TensorProto.INT64, ["n"]),
        ("scores", TensorProto.FLOAT, ["n", classes]),
    ]
    return model(node, kind, width, given), rows(chance, kind, width, nan=False)


def linear_regressor(seed: int) -> tuple[onnx.ModelProto, np.ndarray[Any, Any]]:
    chance = random.Random(seed)
    kind, width, targets = TensorProto.FLOAT, chance.randint(1, 6), chance.choice((1, 3))
    node = helper.make_node(
        "LinearRegressor", ["x"], ["y"], domain="ai.onnx.ml", targets=targets,
        coefficients=[chance.uniform(-1, 1) for _ in range(targets * width)],
        intercepts=[chance.uniform(-1, 1) for _ in range(targets)],
        post_transform=chance.choice(("NONE", "LOGISTIC", "SOFTMAX")) if targets > 1 else "NONE",
    )  # fmt: skip
    result = model(node, kind, width, [("y", TensorProto.FLOAT, ["n", targets])])
    return result, rows(chance, kind, width, nan=False)


def svm(seed: int) -> tuple[onnx.ModelProto, np.ndarray[Any, Any]]:
    chance = random.Random(seed)
    kind, width = TensorProto.FLOAT, chance.randint(1, 6)
    kernel = chance.choice(("LINEAR", "POLY", "RBF", "SIGMOID"))
    numbers: dict[str, Any] = {
        "kernel_type": kernel,
        "kernel_params": [chance.uniform(0.1, 1), chance.uniform(-1, 1), 3.0],
    }
    if chance.random() < 0.4:
        vectors = chance.randint(1, 9)
        node = helper.make_node(
            "SVMRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_supports=vectors,
            support_vectors=[chance.uniform(-1, 1) for _ in range(vectors * width)],
            coefficients=[chance.uniform(-1, 1) for _ in range(vectors)],
            rho=[chance.uniform(-1, 1)], one_class=chance.randrange(2), **numbers,
        )  # fmt: skip
        result = model(node, kind, width, [("y", TensorProto.FLOAT, ["n", 1])])
        return result, rows(chance, kind, width, nan=False)
    classes = chance.choice((2, 3, 4))
    counts = [chance.randint(1, 4) for _ in range(classes)]
    pairs = classes * (classes - 1) // 2
    more: dict[str, Any] = {}
    if has_probabilities := chance.random() < 0.7:
        more["prob_a"] = [chance.uniform(-2, -1) for _ in range(pairs)]
        more["prob_b"] = [chance.uniform(-0.2, 0.2) for _ in range(pairs)]
    node = helper.make_node(
        "SVMClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml",
        classlabels_ints=[i + 5 for i in range(classes)], vectors_per_class=counts,
        support_vectors=[chance.uniform(-1, 1) for _ in range(sum(counts) * width)],
        coefficients=[chance.uniform(-1, 1) for _ in range(sum(counts) * (classes - 1))],
        rho=[chance.uniform(-0.5, 0.5) for _ in range(pairs)],
        post_transform="NONE", **numbers, **more,
    )  # fmt: skip
    wide = classes if has_probabilities or classes == 2 else pairs
    outputs: Outputs = [
        ("label", TensorProto.INT64, ["n"]),
        ("scores", TensorProto.FLOAT, ["n", wide]),
    ]
    return model(node, kind, width, outputs), rows(chance, kind, width, nan=False)


def features(seed: int) -> tuple[onnx.ModelProto, np.ndarray[Any, Any]]:
    """Operators that prepare features."""
    chance = random.Random(seed)
    width = chance.randint(1, 6)
    some = [chance.uniform(0.5, 2) for _ in range(width)]
    kind: int = TensorProto.FLOAT
    shape: list[Any] = ["n", width]
    result: int = TensorProto.FLOAT
    which = seed % 7
    more: dict[str, Any]
    if which == 0:
        kind = chance.choice(list(TYPES))
        op, more = "Scaler", {"offset": some, "scale": some[::-1]}
    elif which == 1:
        op, more = "Normalizer", {"norm": chance.choice(("L1", "L2"))}
    elif which == 2:
        op, more = "Binarizer", {"threshold": threshold(chance)}
    elif which == 3:
        op = "Imputer"
        replaced = chance.choice((float("nan"), threshold(chance)))
        more = {"imputed_value_floats": chance.choice((some, some[:1])),
                "replaced_value_float": replaced}  # fmt: skip
    elif which == 4:
        kind = chance.choice((TensorProto.INT64, TensorProto.FLOAT))
        op, more = "OneHotEncoder", {"cats_int64s": [-1, 0, 2, 3], "zeros": 1}
        shape = ["n", width, 4]
    elif which == 5:
        op, kind, result = "LabelEncoder", TensorProto.INT64, TensorProto.FLOAT
        more = {"keys_int64s": [3, -1, 0, 2], "values_floats": [0.5, 1.5, 2.5, 3.5],
                "default_float": 9.0}  # fmt: skip
    else:
        op = "FeatureVectorizer"
        more = {"inputdimensions": [width]}
    node = helper.make_node(op, ["x"], ["y"], domain="ai.onnx.ml", **more)
    made = model(node, kind, width, [("y", result, shape)])
    return made, rows(chance, kind, width, nan=op == "Imputer")


KINDS = {
    "tree_regressor": tree_regressor,
    "tree_classifier": tree_classifier,
    "linear_classifier": linear_classifier,
    "linear_regressor": linear_regressor,
    "svm": svm,
    "features": features,
}


def main() -> None:
    """Writes models of each kind into a folder, for the fuzzer to start from."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for kind, make in KINDS.items():
        for seed in range(10):
            made, _ = make(seed)
            (folder / f"{kind}-{seed}.onnx").write_bytes(made.SerializeToString())


if __name__ == "__main__":
    main()
