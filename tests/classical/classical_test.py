# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operators of ai.onnx.ml: the native engine against ONNX Runtime, and refusals."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import mlbridge

sys.path.insert(0, str(Path(__file__).resolve().parent))
from classical_models import KINDS, model

from mlbridge import cli, errors

Answers = dict[str, np.ndarray[Any, Any]]
SEEDS = 60


def of_onnxruntime(made: onnx.ModelProto, x: np.ndarray[Any, Any]) -> Answers | None:
    """None if it doesn't take the model: it has some operators for some types only."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            made.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return None
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"x": x}), strict=True))


def of_mlbridge(uri: str, x: np.ndarray[Any, Any]) -> Answers:
    opened = mlbridge.Model.open(uri)
    signature = opened.model_signature
    assert signature
    opened.bind(signature)
    return {name: np.array(y) for name, y in opened.new_runner().evaluate(x=x).items()}


def saved(made: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def assert_same(found: Answers, expected: Answers) -> None:
    assert found.keys() == expected.keys()
    for name, y in expected.items():
        np.testing.assert_allclose(found[name], y, rtol=1e-4, atol=1e-5, err_msg=name)
        assert found[name].dtype == y.dtype


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_onnx_runtime(kind: str, tmp_path: Path) -> None:
    compared = 0
    for seed in range(SEEDS):
        made, x = KINDS[kind](seed)
        if (expected := of_onnxruntime(made, x)) is not None:
            assert_same(of_mlbridge(f"native:{saved(made, tmp_path)}", x), expected)
            compared += 1
    assert compared > SEEDS // 3


@pytest.mark.parametrize("kind", ["tree_classifier", "svm"])
def test_a_compiled_model_gives_the_same_bits(kind: str, tmp_path: Path) -> None:
    made, x = KINDS[kind](3)
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = len(x)
    path, library = saved(made, tmp_path), tmp_path / "model.so"
    assert cli.main(["aot", str(path), "-o", str(library), "--shared", "--isa", "portable"]) == 0
    found, expected = of_mlbridge(f"aot:{library}", x), of_mlbridge(f"native:{path}", x)
    for name, y in expected.items():
        np.testing.assert_array_equal(found[name], y)


def classifier(labels: dict[str, Any], zipped: list[Any] | None = None) -> onnx.ModelProto:
    """One that chooses by a tree of two leaves."""
    nodes = [
        helper.make_node(
            "TreeEnsembleClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml",
            nodes_treeids=[0] * 3, nodes_nodeids=[0, 1, 2], nodes_featureids=[0] * 3,
            nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values=[0.5, 0.0, 0.0],
            nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], class_treeids=[0] * 6,
            class_nodeids=[1, 1, 1, 2, 2, 2], class_ids=[0, 1, 2] * 2,
            class_weights=[0.5, 0.25, 0.25, 0.125, 0.25, 0.625], **labels,
        )
    ]  # fmt: skip
    made = model(nodes[0], TensorProto.FLOAT, 1, [("scores", TensorProto.FLOAT, ["n", 3])])
    kind = TensorProto.STRING if "classlabels_strings" in labels else TensorProto.INT64
    made.graph.output.insert(0, helper.make_tensor_value_info("label", kind, ["n"]))
    if zipped is not None:
        key = "classlabels_strings" if isinstance(zipped[0], str) else "classlabels_int64s"
        named: dict[str, Any] = {key: zipped}
        zip_map = helper.make_node("ZipMap", ["scores"], ["maps"], domain="ai.onnx.ml", **named)
        made.graph.node.append(zip_map)
        made.graph.output.pop()
        keys = TensorProto.STRING if isinstance(zipped[0], str) else TensorProto.INT64
        value = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
        maps = helper.make_sequence_type_proto(helper.make_map_type_proto(keys, value))
        made.graph.output.append(helper.make_value_info("maps", maps))
    return made


X = np.array([[0.0], [1.0]], np.float32)


def test_in_place_of_maps_the_scores_of_all_classes_are_given(tmp_path: Path) -> None:
    path = saved(classifier({"classlabels_int64s": [4, 5, 9]}, [4, 5, 9]), tmp_path)
    found = of_mlbridge(f"native:{path}", X)
    assert found["label"].tolist() == [4, 9]
    assert found["maps"].tolist() == [[0.5, 0.25, 0.25], [0.125, 0.25, 0.625]]
    metadata = mlbridge.Model.open(f"native:{path}").metadata
    assert json.loads(metadata["onnx.classes.maps"]) == [4, 5, 9]


def test_a_model_with_maps_is_inspected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(classifier({"classlabels_int64s": [4, 5, 9]}, [4, 5, 9]), tmp_path)
    assert cli.main(["inspect", str(path)]) == 0
    [line] = [s for s in capsys.readouterr().out.splitlines() if s.startswith("native:")]
    assert "runs, with" in line and "lacks" not in line


def test_labels_that_are_texts_are_left_out_and_said(tmp_path: Path) -> None:
    texts = ["cold", 'wa"rm', "hot"]
    path = saved(classifier({"classlabels_strings": texts}, texts), tmp_path)
    opened = mlbridge.Model.open(f"native:{path}")
    assert "STRING" in opened.metadata["onnx.left_out.label"]
    assert json.loads(opened.metadata["onnx.classes.maps"]) == texts
    found = of_mlbridge(f"native:{path}", X)
    assert found.keys() == {"maps"}
    assert found["maps"].argmax(axis=1).tolist() == [0, 2]


def with_nodes(**changed: Any) -> onnx.ModelProto:
    lists: dict[str, Any] = {
        "nodes_treeids": [0] * 5, "nodes_nodeids": [0, 1, 2, 3, 4], "nodes_featureids": [0] * 5,
        "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
        "nodes_values": [0.5, 0.25, 0.0, 0.0, 0.0], "nodes_truenodeids": [1, 3, 0, 0, 0],
        "nodes_falsenodeids": [2, 4, 0, 0, 0], "target_treeids": [0] * 3,
        "target_nodeids": [2, 3, 4], "target_ids": [0] * 3, "target_weights": [1.0, 2.0, 3.0],
    }  # fmt: skip
    node = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml",
        **{"n_targets": 1, **lists, **changed},
    )  # fmt: skip
    return model(node, TensorProto.FLOAT, 2, [("y", TensorProto.FLOAT, ["n", 1])])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"nodes_truenodeids": [1, 0, 0, 0, 0]}, "cycle"),
        ({"nodes_truenodeids": [1, 2, 0, 0, 0]}, "two parents"),
        ({"nodes_truenodeids": [1, 7, 0, 0, 0]}, "has no node 7"),
        ({"nodes_featureids": [0, 2, 0, 0, 0]}, "compares feature 2 of 2"),
        ({"nodes_featureids": [0, -1, 0, 0, 0]}, "compares feature -1"),
        ({"nodes_modes": ["BRANCH_LEQ", "BRANCH_XX", "LEAF", "LEAF", "LEAF"]}, "BRANCH_XX"),
        ({"nodes_values": [0.5]}, "different lengths"),
        ({"nodes_nodeids": [0, 1, 2, 3, 3]}, "more than one"),
        ({"target_ids": [0, 0, 1]}, "target 1 of 1"),
        ({"target_ids": [0, 0, -1]}, "target -1 of 1"),
        ({"target_nodeids": [0, 3, 4]}, "no leaf"),
        ({"target_weights": [1.0, 2.0]}, "different lengths"),
        ({"n_targets": -1}, "-1 targets"),
        ({"n_targets": 1 << 40}, "targets"),
        ({"aggregate_function": "MEDIAN"}, "MEDIAN"),
        ({"base_values": [1.0, 2.0, 3.0]}, "3 numbers for 1 columns"),
    ],
)
def test_a_broken_ensemble_is_refused(changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = saved(with_nodes(**changed), tmp_path)
    with pytest.raises((errors.InvalidModel, errors.Unsupported)) as error:
        mlbridge.Model.open(f"native:{path}")
    assert said in str(error.value)


def test_thresholds_that_are_no_numbers_are_never_met(tmp_path: Path) -> None:
    nan = float("nan")
    x = np.array([[0.0, 0.0], [9.0, 0.0], [nan, 0.0]], np.float32)
    for mode in ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE", "BRANCH_EQ"):
        modes = [mode, mode, "LEAF", "LEAF", "LEAF"]
        made = with_nodes(nodes_values=[nan, nan, 0.0, 0.0, 0.0], nodes_modes=modes)
        found = of_mlbridge(f"native:{saved(made, tmp_path)}", x)
        assert found["y"].ravel().tolist() == [1.0, 1.0, 1.0], mode


def test_a_tree_of_one_leaf_and_a_chain_of_a_hundred_thousand_nodes(tmp_path: Path) -> None:
    alone = with_nodes(
        nodes_treeids=[0], nodes_nodeids=[0], nodes_featureids=[0], nodes_modes=["LEAF"],
        nodes_values=[0.0], nodes_truenodeids=[0], nodes_falsenodeids=[0], target_treeids=[0],
        target_nodeids=[0], target_ids=[0], target_weights=[5.0],
    )  # fmt: skip
    x = np.array([[1.0, 0.0]], np.float32)
    assert of_mlbridge(f"native:{saved(alone, tmp_path)}", x)["y"].tolist() == [[5.0]]
    tests, count = 100_000, 200_001
    chain = with_nodes(
        nodes_treeids=[0] * count, nodes_nodeids=list(range(count)), nodes_featureids=[0] * count,
        nodes_modes=["BRANCH_LEQ"] * tests + ["LEAF"] * (tests + 1),
        nodes_values=[-1.0] * count,
        nodes_truenodeids=[tests + 1 + i for i in range(tests)] + [0] * (tests + 1),
        nodes_falsenodeids=[*range(1, tests + 1)] + [0] * (tests + 1),
        target_treeids=[0], target_nodeids=[tests], target_ids=[0], target_weights=[7.0],
    )  # fmt: skip
    assert of_mlbridge(f"native:{saved(chain, tmp_path)}", x)["y"].tolist() == [[7.0]]


def test_sets_of_values_are_found(tmp_path: Path) -> None:
    members = [3.0, -1.0, 0.5, 4.0]
    node = helper.make_node(
        "TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1,
        nodes_featureids=[0, 1], nodes_truenodeids=[1, 1], nodes_trueleafs=[0, 1],
        nodes_falsenodeids=[0, 2], nodes_falseleafs=[1, 1], tree_roots=[0],
        nodes_modes=helper.make_tensor("modes", TensorProto.UINT8, [2], [6, 0]),
        nodes_splits=helper.make_tensor("splits", TensorProto.FLOAT, [2], [0.0, 0.5]),
        membership_values=helper.make_tensor(
            "members", TensorProto.FLOAT, [5], [*members, float("nan")]
        ),
        leaf_targetids=[0, 0, 0],
        leaf_weights=helper.make_tensor("weights", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0]),
    )  # fmt: skip
    made = model(node, TensorProto.FLOAT, 2, [("y", TensorProto.FLOAT, ["n", 1])], version=5)
    values = [-2.0, *members, 0.0, 3.5, 9.0, float(np.nextafter(np.float32(3), np.float32(9)))]
    x = np.array([[v, 0.0] for v in values], np.float32)
    found = of_mlbridge(f"native:{saved(made, tmp_path)}", x)
    assert found["y"].ravel().tolist() == [2.0 if v in members else 1.0 for v in values]


def test_a_label_encoder_takes_tensors(tmp_path: Path) -> None:
    node = helper.make_node(
        "LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml",
        keys_tensor=helper.make_tensor("keys", TensorProto.INT64, [3], [5, -1, 5]),
        values_tensor=helper.make_tensor("values", TensorProto.INT16, [3], [1, 2, 3]),
        default_tensor=helper.make_tensor("default", TensorProto.INT16, [1], [9]),
    )  # fmt: skip
    made = model(node, TensorProto.INT64, 2, [("y", TensorProto.INT16, ["n", 2])], version=4)
    found = of_mlbridge(f"native:{saved(made, tmp_path)}", np.array([[5, 0], [-1, 5]]))
    assert found["y"].dtype == np.int16
    assert found["y"].tolist() == [[3, 9], [2, 3]]
