# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models with which ONNX Runtime alone answers wrongly or ends the process."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mlbridge
from mlbridge import Signature, TensorSpec, files, onnx_files
from mlbridge.inspection import inspect
from serving import running

pytestmark = pytest.mark.skipif(
    files.find_component("engine", "onnx") is None or not importlib.util.find_spec("onnxruntime"),
    reason="needs the onnx component and onnxruntime",
)

Feed = dict[str, Any]
Answer = dict[str, Any]
ENGINES = ("onnx", "native", "served")


def floats(name: str, *shape: int | str | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def unshaped(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)


def weights(name: str, value: object, dtype: type = np.float32) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(value, dtype), name)


def save(
    folder: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    initializers: Sequence[onnx.TensorProto] = (),
    ir_version: int = 8,
    functions: Sequence[onnx.FunctionProto] = (),
) -> Path:
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", 17)]
    if functions:
        opsets.append(helper.make_opsetid("own", 1))
    model = helper.make_model(
        graph, opset_imports=opsets, ir_version=ir_version, functions=functions
    )
    path = folder / "model.onnx"
    onnx.save(model, path)
    return path


def asker(path: Path, engine: str) -> Callable[[Feed], Answer]:
    """Evaluates the model with shapes that change; `served` as `mlbridge serve` does."""
    if engine == "served":
        model = onnx_files.load_onnx(path)
        return lambda feed: dict(model.policy(feed, None))  # type: ignore[arg-type]
    opened = mlbridge.Model.open(f"{engine}:{path}")
    assert opened.model_signature is not None
    opened.bind(opened.model_signature)
    runner = opened.new_runner()
    return lambda feed: dict(runner.evaluate(feed))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", [(2,), ("n",)], ids=["fixed", "dynamic"])
def test_an_output_that_is_an_input_has_its_value(
    tmp_path: Path, engine: str, shape: tuple[int | str]
) -> None:
    path = save(
        tmp_path,
        [helper.make_node("Relu", ["x"], ["y"])],
        [floats("x", *shape), floats("h", *shape)],
        [floats("y", *shape), floats("h", *shape)],
    )
    ask = asker(path, engine)
    for k in (1, 2, 3):
        answer = ask({"x": np.array([-k, k], np.float32), "h": np.array([k, 7], np.float32)})
        assert answer["y"].tolist() == [0, k]
        assert answer["h"].tolist() == [k, 7]


def transposed(folder: Path) -> Path:
    return save(
        folder,
        [
            helper.make_node("Transpose", ["a"], ["t"]),
            helper.make_node("MatMul", ["t", "v"], ["y"]),
        ],
        [floats("a", 2, 3), floats("v", 2)],
        [floats("y", 3)],
    )


TRANSPOSED: Feed = {
    "a": np.array([[1, 2, 3], [4, 5, 6]], np.float32),
    "v": np.array([1, 10], np.float32),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_transposed_matrix_times_a_vector_is_right(tmp_path: Path, engine: str) -> None:
    assert asker(transposed(tmp_path), engine)(TRANSPOSED)["y"].tolist() == [41, 52, 63]


def test_the_optimizer_that_is_switched_off_is_still_wrong(tmp_path: Path) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    path = str(transposed(tmp_path))
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    assert session.run(None, TRANSPOSED)[0].tolist() != [41, 52, 63], (
        f"ONNX Runtime {onnxruntime.__version__} computes Transpose before a vector right: "
        "MatmulTransposeFusion need only be switched off in older versions "
        "(WrongOptimizer in src/engine/onnx/model.cpp, _WRONG_OPTIMIZER in onnx_files.py)"
    )


def recurrent(op: str, x: str = "x", y: str = "h") -> onnx.NodeProto:
    return helper.make_node(op, [x, "w" + op, "r" + op], ["", y], hidden_size=2, name="layer")


def layer_weights(op: str, draw: np.random.Generator) -> list[onnx.TensorProto]:
    rows = {"GRU": 6, "LSTM": 8, "RNN": 2}[op]
    return [
        weights("w" + op, draw.normal(size=(1, rows, 3))),
        weights("r" + op, draw.normal(size=(1, rows, 2))),
    ]


@pytest.mark.parametrize("op", ["GRU", "LSTM", "RNN"])
@pytest.mark.parametrize("external", [False, True], ids=["one-file", "external-data"])
def test_a_recurrent_layer_over_nothing_is_an_error(
    tmp_path: Path, op: str, external: bool
) -> None:
    path = save(
        tmp_path,
        [recurrent(op)],
        [floats("x", "steps", "rows", 3)],
        [floats("h", 1, "rows", 2)],
        layer_weights(op, np.random.default_rng(1)),
    )
    if external:
        onnx.save(
            onnx.load(path), path, save_as_external_data=True, location="data", size_threshold=0
        )
    answers: dict[str, list[Any]] = {}
    for engine in ENGINES:
        ask = asker(path, engine)
        for steps, rows in ((2, 2), (0, 2), (2, 0), (0, 0), (1, 3)):
            x = np.full((steps, rows, 3), 0.5, np.float32)
            if x.size == 0 and engine != "native":
                with pytest.raises(mlbridge.PolicyFailed, match=f"{op} 'layer' got a sequence"):
                    ask({"x": x})
            else:
                h = ask({"x": x})["h"]
                assert h.shape == (1, rows, 2)
                if x.size:
                    answers.setdefault(engine, []).append(h)
    for engine in ENGINES[1:]:
        for mine, other in zip(answers["onnx"], answers[engine], strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


def inner(op: str) -> onnx.GraphProto:
    return helper.make_graph([recurrent(op, "kept", op)], op, [], [floats(op, 1, 1, 2)])


@pytest.mark.parametrize("engine", ["onnx", "served"])
@pytest.mark.parametrize("where", ["main", "if", "loop", "scan", "function"])
def test_a_layer_over_what_the_graph_computes_is_guarded_everywhere(
    tmp_path: Path, engine: str, where: str
) -> None:
    draw = np.random.default_rng(1)
    take = helper.make_node("Compress", ["x", "take"], ["kept"], axis=0)
    initializers = layer_weights("GRU", draw)
    functions: list[onnx.FunctionProto] = []
    nodes = [take]
    output = floats("h", 1, 1, 2)
    if where == "main":
        nodes.append(recurrent("GRU", "kept"))
    elif where == "if":
        initializers += [*layer_weights("LSTM", draw), weights("yes", True, np.bool_)]
        branches = {"then_branch": inner("GRU"), "else_branch": inner("LSTM")}
        nodes += [
            helper.make_node("ReduceMax", ["taken"], ["most"], keepdims=0),
            helper.make_node("Cast", ["most"], ["any"], to=TensorProto.BOOL),
            helper.make_node("If", ["any"], ["h"], **branches),
        ]
        nodes.insert(0, helper.make_node("Cast", ["take"], ["taken"], to=TensorProto.INT32))
    elif where in ("loop", "scan"):
        loops = where == "loop"
        i = helper.make_tensor_value_info("i", TensorProto.INT64, [])
        go = helper.make_tensor_value_info("go", TensorProto.BOOL, [])
        went = helper.make_tensor_value_info("went", TensorProto.BOOL, [])
        body = helper.make_graph(
            [helper.make_node("Identity", ["go"], ["went"]), recurrent("GRU", "kept", "each")]
            if loops
            else [recurrent("GRU", "kept", "each"), helper.make_node("Identity", ["e"], ["f"])],
            "body",
            [i, go] if loops else [floats("e", 1)],
            [went, floats("each", 1, 1, 2)] if loops else [floats("f", 1), floats("each", 1, 1, 2)],
        )
        if loops:
            initializers.append(weights("once", 1, np.int64))
            nodes.append(helper.make_node("Loop", ["once", ""], ["h"], body=body))
        else:
            initializers.append(weights("e0", [[0.0]]))
            nodes.append(
                helper.make_node("Scan", ["e0"], ["f0", "h"], body=body, num_scan_inputs=1)
            )
        output = floats("h", 1, 1, 1, 2)
    else:
        functions.append(
            helper.make_function(
                "own",
                "Layer",
                ["kept", "wGRU", "rGRU"],
                ["h"],
                [recurrent("GRU", "kept")],
                [helper.make_opsetid("", 17)],
            )
        )
        nodes.append(helper.make_node("Layer", ["kept", "wGRU", "rGRU"], ["h"], domain="own"))
    path = save(
        tmp_path,
        nodes,
        [floats("x", 2, 1, 3), helper.make_tensor_value_info("take", TensorProto.BOOL, [2])],
        [output],
        initializers,
        functions=functions,
    )
    ask = asker(path, engine)
    x = np.ones((2, 1, 3), np.float32)
    assert np.isfinite(ask({"x": x, "take": np.array([True, False])})["h"]).all()
    with pytest.raises(mlbridge.PolicyFailed, match="'layer' got a sequence without steps or rows"):
        ask({"x": x, "take": np.array([False, False])})


LEAST = {"int32": -(2**31), "int64": -(2**63)}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", LEAST)
@pytest.mark.parametrize("where", ["input", "computed", "constant"])
def test_the_least_integer_by_minus_one_is_itself(
    tmp_path: Path, engine: str, dtype: str, where: str
) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    a, b, q, r = (helper.make_tensor_value_info(name, kind, ["n"]) for name in "abqr")
    nodes = [helper.make_node("Div", ["a", "d"], ["q"]), helper.make_node("Mod", ["a", "d"], ["r"])]
    constants: list[onnx.TensorProto] = []
    inputs = [a, b]
    if where == "constant":
        constants.append(weights("d", [-1], np.dtype(dtype).type))
        inputs.pop()
    else:
        nodes.insert(0, helper.make_node("Identity" if where == "input" else "Neg", ["b"], ["d"]))
    ask = asker(save(tmp_path, nodes, inputs, [q, r], constants), engine)
    feed = {"a": np.array([LEAST[dtype], 7, -7], dtype)}
    if where != "constant":
        feed["b"] = np.array([-1, 2, -1] if where == "input" else [1, -2, 1], dtype)
    answer = ask(feed)
    by = 2 if where != "constant" else -1
    assert answer["q"].tolist() == [LEAST[dtype], 3 if by == 2 else -7, 7]
    assert answer["r"].tolist() == [0, 1 if by == 2 else 0, 0]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("where", ["branch", "loop", "function"])
def test_divisions_are_guarded_everywhere(tmp_path: Path, engine: str, where: str) -> None:
    a, b, q = (helper.make_tensor_value_info(name, TensorProto.INT64, [2]) for name in "abq")
    yes = helper.make_tensor_value_info("yes", TensorProto.BOOL, [])
    divide = helper.make_node("Div", ["a", "b"], ["q"], name="share")
    inputs, functions, constants = [a, b], [], []
    if where == "branch":
        other = helper.make_graph([helper.make_node("Mod", ["a", "b"], ["q"])], "mod", [], [q])
        branches = {"then_branch": helper.make_graph([divide], "div", [], [q])}
        nodes = [helper.make_node("If", ["yes"], ["q"], **branches, else_branch=other)]
        inputs.append(yes)
    elif where == "loop":
        i = helper.make_tensor_value_info("i", TensorProto.INT64, [])
        went = helper.make_tensor_value_info("went", TensorProto.BOOL, [])
        keep = helper.make_node("Identity", ["yes"], ["went"])
        divide.input[0] = "x"
        x = helper.make_tensor_value_info("x", TensorProto.INT64, [2])
        body = helper.make_graph([keep, divide], "body", [i, yes, x], [went, q])
        constants.append(weights("once", 1, np.int64))
        nodes = [helper.make_node("Loop", ["once", "", "a"], ["q"], body=body)]
    else:
        casts = [helper.make_node("Cast", [n], [n + n], to=TensorProto.INT64) for n in "ab"]
        divide.input[:] = ["aa", "bb"]
        opsets = [helper.make_opsetid("", 17)]
        functions.append(
            helper.make_function("own", "Share", ["a", "b"], ["q"], [*casts, divide], opsets)
        )
        nodes = [helper.make_node("Share", ["a", "b"], ["q"], domain="own")]
    ask = asker(save(tmp_path, nodes, inputs, [q], constants, functions=functions), engine)
    feed: Feed = {"a": np.array([LEAST["int64"], 9]), "b": np.array([-1, 2])}
    if where == "branch":
        feed["yes"] = np.array(True)
    assert ask(feed)["q"].tolist() == [LEAST["int64"], 4]
    if engine != "native":
        with pytest.raises(mlbridge.PolicyFailed, match="Div 'share' divides an integer by 0"):
            ask({**feed, "b": np.array([1, 0])})


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_a_division_by_zero_is_an_error_that_names_the_node(
    tmp_path: Path, engine: str, op: str
) -> None:
    a, b, y = (helper.make_tensor_value_info(name, TensorProto.INT64, [2]) for name in "aby")
    path = save(tmp_path, [helper.make_node(op, ["a", "b"], ["y"], name="share")], [a, b], [y])
    ask = asker(path, engine)
    assert ask({"a": np.array([6, 7]), "b": np.array([6, 7])})["y"].shape == (2,)
    feed = {"a": np.array([6, 7]), "b": np.array([1, 0])}
    if engine == "native":
        assert ask(feed)["y"][1] == 0
    else:
        with pytest.raises(mlbridge.PolicyFailed, match=f"{op} 'share' divides an integer by 0"):
            ask(feed)


@pytest.mark.parametrize("engine", ["onnx", "served"])
@pytest.mark.parametrize("constant", [False, True])
def test_a_frame_without_length_is_an_error(tmp_path: Path, engine: str, constant: bool) -> None:
    scalars = [helper.make_tensor_value_info(name, TensorProto.INT64, []) for name in ("s", "l")]
    nodes = [helper.make_node("STFT", ["x", "s", "", "l"], ["y"], name="spectrum")]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, "f", "g", 2])
    feed = {"x": np.ones((1, 16, 1), np.float32), "s": np.array(2), "l": np.array(0)}
    fixed = [weights("l", 0, np.int64)] if constant else []
    path = save(tmp_path, nodes, [floats("x", 1, 16, 1), *scalars[: 2 - constant]], [output], fixed)
    why = "STFT 'spectrum' got a frame length below 1"
    ask = asker(path, engine)
    if constant:
        del feed["l"]
    else:
        assert ask({**feed, "l": np.array(4)})["y"].shape == (1, 7, 3, 2)
    with pytest.raises(mlbridge.PolicyFailed, match=why):
        ask(feed)


@pytest.mark.parametrize("engine", ["onnx", "served"])
def test_a_frame_that_is_as_long_as_an_empty_window(tmp_path: Path, engine: str) -> None:
    nodes = [
        helper.make_node("Compress", ["all", "take"], ["w"], axis=0),
        helper.make_node("STFT", ["x", "s", "w"], ["y"], name="spectrum"),
    ]
    take = helper.make_tensor_value_info("take", TensorProto.BOOL, [4])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, "f", "g", 2])
    constants = [weights("all", np.ones(4)), weights("s", 2, np.int64)]
    ask = asker(save(tmp_path, nodes, [floats("x", 1, 16, 1), take], [output], constants), engine)
    feed = {"x": np.ones((1, 16, 1), np.float32), "take": np.ones(4, np.bool_)}
    assert ask(feed)["y"].shape == (1, 7, 3, 2)
    with pytest.raises(mlbridge.PolicyFailed, match="STFT 'spectrum' got a frame length below 1"):
        ask({**feed, "take": np.zeros(4, np.bool_)})


@pytest.mark.parametrize("engine", ["onnx", "served"])
def test_a_failure_is_said_without_places_in_the_source(tmp_path: Path, engine: str) -> None:
    reshape = [helper.make_node("Reshape", ["x", "s"], ["y"], name="fold")]
    shape = helper.make_tensor_value_info("s", TensorProto.INT64, [1])
    ask = asker(save(tmp_path, reshape, [floats("x", 6), shape], [floats("y", "n")]), engine)
    with pytest.raises(mlbridge.PolicyFailed, match="Reshape 'fold': ") as caught:
        ask({"x": np.ones(6, np.float32), "s": np.array([4])})
    assert ".cc" not in str(caught.value)
    assert "::" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_one_compiler_without_rows_does_not_end_the_server(tmp_path: Path, address: str) -> None:
    path = save(
        tmp_path,
        [recurrent("GRU")],
        [floats("x", "steps", 1, 3)],
        [floats("h", 1, 1, 2)],
        layer_weights("GRU", np.random.default_rng(1)),
    )
    model = onnx_files.load_onnx(path)
    with running(model.policy, address, model.signature, metadata=model.metadata):
        runner = mlbridge.open(address)
        with pytest.raises(mlbridge.PolicyFailed, match="GRU 'layer' got a sequence"):
            runner.evaluate(x=np.ones((0, 1, 3), np.float32))
        assert runner.evaluate(x=np.ones((2, 1, 3), np.float32))["h"].shape == (1, 1, 2)


@pytest.mark.parametrize("ir_version", [3, 8])
def test_an_input_with_a_default_is_never_ignored(
    tmp_path: Path, address: str, ir_version: int
) -> None:
    path = save(
        tmp_path,
        [helper.make_node("Mul", ["x", "scale"], ["y"])],
        [floats("x", 2), floats("scale", 1)],
        [floats("y", 2)],
        [weights("scale", [2])],
        ir_version,
    )
    less = Signature([TensorSpec("x", "float32", (2,))], [TensorSpec("y", "float32", (2,))])
    more = Signature([*less.inputs, TensorSpec("scale", "float32", (1,))], less.outputs)
    assert inspect(path).metadata["onnx.defaults"] == "scale"
    model = onnx_files.load_onnx(path)
    with running(model.policy, address, model.signature, metadata=model.metadata):
        for uri in (f"onnx:{path}", f"native:{path}", address):
            assert mlbridge.open(uri, less).evaluate(x=[1, 3])["y"].tolist() == [2, 6]
            with pytest.raises(mlbridge.Mismatch, match="'scale', for which the model has a def"):
                mlbridge.open(uri, more)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_unknown_rank_is_no_scalar(tmp_path: Path, engine: str) -> None:
    relu = [helper.make_node("Relu", ["x"], ["y"])]
    shape = helper.make_tensor_value_info("shape", TensorProto.INT64, ["r"])
    reshape = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
    total = [helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)]
    with pytest.raises(mlbridge.Unsupported, match=r"input 'x'.* has no shape"):
        asker(save(tmp_path, relu, [unshaped("x")], [unshaped("y")]), engine)
    with pytest.raises(mlbridge.Unsupported, match=r"output 'y'.* has no shape"):
        asker(save(tmp_path, reshape, [floats("x", 6), shape], [unshaped("y")]), engine)
    # What follows from the graph need not be stated.
    ask = asker(save(tmp_path, total, [floats("x", 6)], [unshaped("y")]), engine)
    assert ask({"x": np.ones(6, np.float32)})["y"] == 6


def test_maps_are_left_out_and_said_to_be(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [
            helper.make_node("ArgMax", ["x"], ["label"], axis=1, keepdims=0),
            helper.make_node(
                "ZipMap", ["x"], ["chances"], domain="ai.onnx.ml", classlabels_int64s=[3, 7]
            ),
        ],
        "g",
        [floats("x", "n", 2)],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, ["n"]),
            helper.make_value_info(
                "chances",
                helper.make_sequence_type_proto(
                    helper.make_map_type_proto(
                        TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
                    )
                ),
            ),
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    path = tmp_path / "zipped.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    pass_side = [TensorSpec("x", "float32", (2,))]
    assert str(onnx_files.load_onnx(path).signature) == "(x: float32[?, 2]) -> (label: int64[?])"
    assert "zipmap=False" in onnx_files.load_onnx(path).metadata["onnx.left_out.chances"]
    assert "zipmap=False" in inspect(path).metadata["onnx.left_out.chances"]
    runner = mlbridge.open(
        f"onnx:{path}?rename=action:label", Signature(pass_side, [TensorSpec("action", "int64")])
    )
    assert runner.evaluate_scalar(x=[0, 1]) == 1
    with pytest.raises(mlbridge.Mismatch, match="zipmap=False"):
        mlbridge.open(
            f"onnx:{path}", Signature(pass_side, [TensorSpec("chances", "float32", (2,))])
        )
    with pytest.raises(mlbridge.Mismatch, match="rename=action:label"):
        mlbridge.open(f"onnx:{path}", Signature(pass_side, [TensorSpec("action", "int64")]))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "git lfs pull"),
        (b"<!DOCTYPE html>\n<html><body>not found</body></html>", "an HTML page"),
        (b"\n<HTML>", "an HTML page"),
        (b"PK\x03\x04 a checkpoint of PyTorch", r"torch\.onnx\.export"),
    ],
    ids=["lfs", "html", "HTML", "zip"],
)
def test_what_is_no_model_is_named(tmp_path: Path, engine: str, content: bytes, says: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(mlbridge.InvalidModel, match=says):
        asker(path, engine)
    with pytest.raises(mlbridge.InvalidModel, match=says):
        inspect(path)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_version_from_the_future_says_what_to_do(tmp_path: Path, engine: str) -> None:
    relu = [helper.make_node("Relu", ["x"], ["y"])]
    path = save(tmp_path, relu, [floats("x", 3)], [floats("y", 3)], ir_version=99)
    with pytest.raises(mlbridge.Error, match="export the model with an older") as caught:
        asker(path, engine)
    assert "99" in str(caught.value)
    assert ".cc:" not in str(caught.value)
