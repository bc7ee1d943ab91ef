# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Policies of LLVM's MLGO as ONNX files: the same decisions as TensorFlow's, in stock clang.

`make test` has what changes a converted graph; TensorFlow itself is left to `make nightly`, with
the environment of tensorflow_test.py.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from building import ROOT, attempt, run
from compiler import printed_flags
from once import SharedBuild
from onnx import TensorProto, helper

import mlbridge
from mlbridge import saved_model
from mlbridge.saved_model import OPTIMIZATIONS, Problem, adapt

POLICIES = Path(__file__).with_name("mlgo_policies.py")
FOLDER = ROOT / "build" / "tensorflow"
TOOL = ROOT / "cmake" / "tensorflow_aot.py"
CONVERTER = ("tf2onnx>=1.16,<1.18", "onnx>=1.16,<1.18", "flatbuffers", "requests")
CASES = 2000
SOURCE = """
static int g(int x) { int s = 0; for (int i = 0; i < x; ++i) s += i * x; return s; }
int f(int *v, int n) { for (int i = 0; i < n; ++i) v[i] = g(v[i]) + g(i) + v[n - i]; return g(n); }
"""


def value(name: str, kind: int = TensorProto.INT64, shape: Any = (1,)) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def graph(nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> Any:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("tf", 1)]
    made = helper.make_graph(nodes, "policy", inputs, outputs)
    return helper.make_model(made, opset_imports=opsets, ir_version=9)


def bucketized(boundaries: list[float], kind: int = TensorProto.INT64, shape: Any = (1,)) -> Any:
    """A model whose decision is the bucket of cost_estimate."""
    node = helper.make_node(
        "Bucketize", ["cost_estimate"], ["b"], domain="tf", boundaries=boundaries
    )
    cast = helper.make_node("Cast", ["b"], ["inlining_decision"], to=TensorProto.INT64)
    more = [value("discount", TensorProto.FLOAT), value("threshold")]
    inputs = [value("cost_estimate", kind, shape), *more]
    return graph([node, cast], inputs, [value("inlining_decision", shape=shape)])


@pytest.mark.parametrize("shape", [(1,), ()])
def test_bucketize_counts_the_boundaries_that_are_reached(shape: Any, tmp_path: Path) -> None:
    boundaries = [-3.0, 0.0, 0.0, 0.5, 7.0, 7.0, 7.0, 2.0**31]
    model = bucketized(boundaries, shape=shape)
    made = adapt(model, "inliner")
    assert made == {"inputs": ["cost_estimate"], "left_out": ["discount", "threshold"]}
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (tmp_path / "p.onnx").write_bytes(model.SerializeToString())
    ask = native(tmp_path / "p.onnx")
    for given in (-4, -3, -1, 0, 1, 6, 7, 8, 2**31 - 1, 2**31, 2**40):
        feed = {"cost_estimate": np.array([given])}
        expected = np.searchsorted(np.array(boundaries, np.float32), np.float32(given), "right")
        assert session.run(None, feed)[0] == ask(feed) == [expected], given


def test_scores_that_are_nan_are_passed_over(tmp_path: Path) -> None:
    """As TensorFlow's ArgMax does; the native engine's takes NaN for the greatest."""
    score = value("use_def_density", TensorProto.FLOAT, (1, 33))
    node = helper.make_node("ArgMax", [score.name], ["index_to_evict"], axis=-1, keepdims=0)
    model = graph([node], [score], [value("index_to_evict")])
    adapt(model, "regalloc-eviction")
    (tmp_path / "p.onnx").write_bytes(model.SerializeToString())
    session = onnxruntime.InferenceSession(model.SerializeToString())
    ask = native(tmp_path / "p.onnx")
    scores = np.zeros((1, 33), np.float32)
    scores[0, [0, 4]], scores[0, 9] = np.nan, 2
    for expected in (9, 1):  # then the first of those that are zero
        assert session.run(None, {score.name: scores})[0] == ask({score.name: scores}) == [expected]
        scores[0, 9] = -1


def native(path: Path) -> Any:
    """Asks a model with one output by the native engine."""
    opened = mlbridge.Model.open(f"native:{path}")
    signature = opened.model_signature
    assert signature
    opened.bind(signature)
    runner = opened.new_runner()

    def ask(feed: dict[str, Any]) -> Any:
        (answer,) = runner.evaluate(**feed).values()
        return np.array(answer)

    return ask


def test_what_does_not_fit_is_listed_as_a_whole() -> None:
    model = bucketized([1.0])
    model.graph.input.extend(
        [
            value("is_recursive"),
            value("node_count", TensorProto.FLOAT),
            value("edge_count", shape=(7,)),
        ]
    )
    with pytest.raises(Problem) as raised:
        adapt(model, "inliner")
    for expected in (
        "LLVM 22's inliner cannot ask this model:",
        "it has no feature 'is_recursive' (int64[1])",
        "'node_count' is float32[1], and LLVM's is int64[1]",
        "'edge_count' is int64[7], and LLVM's is int64[1]",
    ):
        assert expected in str(raised.value)
    other = bucketized([1.0])
    other.graph.output[0].name = "b"
    other.graph.output[0].type.tensor_type.elem_type = TensorProto.INT32
    with pytest.raises(Problem, match=r"expected the output 'inlining_decision' int64\[1\]; there"):
        adapt(other, "inliner")
    # LLVM after 22 has another number of positions.
    with pytest.raises(Problem, match=r"'mask' is int64\[1,37\], and LLVM's is int64\[1,33\]"):
        node = helper.make_node("ArgMax", ["mask"], ["index_to_evict"], axis=-1, keepdims=0)
        adapt(
            graph([node], [value("mask", shape=(1, 37))], [value("index_to_evict")]),
            "regalloc-eviction",
        )


def test_what_tf_agents_adds_is_zero_where_it_is_used() -> None:
    model = bucketized([1.0])
    cast = helper.make_node("Cast", ["discount"], ["more"], to=TensorProto.INT64)
    model.graph.node[1].output[0] = "bucket"
    model.graph.node.extend(
        [cast, helper.make_node("Sub", ["bucket", "more"], ["inlining_decision"])]
    )
    adapt(model, "inliner")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    assert session.run(None, {"cost_estimate": np.array([1])})[0] == [1]


def test_features_are_those_of_the_plugins(tmp_path: Path) -> None:
    """A model that knows all is bound by stock clang."""
    for name, (inputs, decision) in OPTIMIZATIONS.items():
        values = [
            value(n, TensorProto.INT64 if kind == "int64" else TensorProto.FLOAT, shape)
            for n, (kind, shape) in inputs.items()
        ]
        chosen = "mask" if name == "regalloc-eviction" else "is_multiple_blocks"
        last = helper.make_node("ArgMax", [chosen], [decision], axis=-1, keepdims=0)
        if name == "inliner":
            last = helper.make_node("Identity", [chosen], [decision])
        model = graph([last], values, [value(decision)])
        (tmp_path / "policy.onnx").write_bytes(model.SerializeToString())
        compiles(name, f"native:{tmp_path}/policy.onnx", tmp_path)


def compiles(name: str, uri: str, folder: Path) -> bytes:
    (folder / "f.c").write_text(SOURCE)
    flags = printed_flags(name, "--model", uri, "--on-failure", "fail")
    level = "-Oz" if name == "inliner" else "-O2"
    done = attempt("clang-22", level, *flags, "-c", folder / "f.c", "-o", folder / "f.o")
    assert done.returncode == 0 and not done.stderr, done.stderr
    return (folder / "f.o").read_bytes()


def test_a_python_without_tensorflow_and_no_saved_model(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "mlbridge", "convert", tmp_path, "--for", "inliner")
    done = attempt(*command, "-o", tmp_path / "p.onnx")
    assert done.returncode == 1 and not (tmp_path / "p.onnx").exists()
    assert "pip install 'tensorflow-cpu==2.15.1'" in done.stderr


# With TensorFlow


@pytest.fixture(scope="session")
def python() -> Path:
    return Path(run(sys.executable, TOOL, "--set-up", FOLDER).strip())


@pytest.fixture(scope="session")
def saved(python: Path, shared_build: SharedBuild) -> Path:
    packages = FOLDER / "tf2onnx"
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(packages)}

    def make(folder: Path) -> None:
        if not (packages / "requests").is_dir():
            pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
            run(*pip, "--no-deps", "--upgrade", "--target", packages, *CONVERTER)
        run(python, POLICIES, folder, str(CASES), Path(saved_model.__file__).parent, env=env)
        for name in OPTIMIZATIONS:
            command = (sys.executable, "-m", "mlbridge", "convert", folder / name, "--for", name)
            output = folder / f"{name}.onnx"
            said = run(*command, "-o", output, "--python", python, env=env)
            assert "native: runs it" in said and "onnx:   runs it" in said

    return shared_build("mlgo-policies", make)


@pytest.mark.nightly
@pytest.mark.parametrize("name", OPTIMIZATIONS)
def test_decisions_are_those_of_tensorflow(saved: Path, name: str, tmp_path: Path) -> None:
    cases = np.load(saved / f"{name}.npz")
    session = onnxruntime.InferenceSession(saved / f"{name}.onnx")
    names = [one.name for one in session.get_inputs()]
    ask = native(saved / f"{name}.onnx")
    # Scores that are nearly the same may be rounded to another order; those with NaN are not.
    decided = [n for n in range(CASES) if not cases["ahead"][n] <= 1e-5]
    assert len(decided) > 0.9 * CASES
    for n in decided:
        feed = {key: cases[key][n] for key in names}
        assert session.run(None, feed)[0] == ask(feed) == cases["decided"][n], n
    assert len(np.unique(cases["decided"])) > 1
    objects = {
        scheme: compiles(name, f"{scheme}:{saved / name}.onnx", tmp_path)
        for scheme in ("native", "onnx")
    }
    assert objects["native"] == objects["onnx"]


@pytest.mark.nightly
def test_a_model_with_other_features_is_refused(saved: Path, python: Path, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(FOLDER / "tf2onnx")}
    convert = (python, saved_model.__file__, saved / "other", "--for", "inliner", "-o")
    done = attempt(*convert, tmp_path / "p.onnx", env=env)
    assert done.returncode == 1 and not (tmp_path / "p.onnx").exists()
    assert "'is_recursive'" in done.stderr and "'callsite_depth'" in done.stderr
    done = attempt(*convert, tmp_path / "p.onnx", "--signature", "absent", env=env)
    assert "has no signature 'absent'; it has action" in done.stderr
