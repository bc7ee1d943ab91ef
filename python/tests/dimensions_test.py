# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""native: with tensors of as many dimensions as it takes, for every kernel that counts them, and of
one more."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlbridge
from mlbridge.cli import main

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
from onnx import helper, numpy_helper  # noqa: E402

LIMIT = 24
Array = np.ndarray[Any, Any]


def shape(*pattern: int, many: int = 16, rank: int = LIMIT) -> tuple[int, ...]:
    """Neighbours of different kinds, so that no two become one loop; the others have length 1."""
    return tuple(pattern[i % len(pattern)] if i < many else 1 for i in range(rank))


def numbers(dims: tuple[int, ...], dtype: str = "float32", low: int = -9, high: int = 9) -> Array:
    source = np.random.default_rng(len(dims))
    return np.asarray(source.integers(low, high + 1, dims), dtype)


@dataclass
class Case:
    op: str
    inputs: list[Array]
    options: dict[str, Any] = field(default_factory=dict)
    constant: int = 99  # the inputs from this one on are weights
    outputs: int = 1


def binary(op: str, dtype: str = "float32", **options: Any) -> Case:
    a, b = shape(2, 1, many=20), shape(1, 2, many=20)
    return Case(op, [numbers(a, dtype), numbers(b, dtype, 1, 9)], options)


def matrices(op: str, dtype: str) -> Case:
    a, b = (*shape(2, 1, rank=LIMIT - 2), 2, 3), (*shape(1, 2, rank=LIMIT - 2), 3, 2)
    return Case(op, [numbers(a, dtype, 0), numbers(b, dtype, 0)])


def cases() -> dict[str, Case]:
    twos = shape(2)
    x, wide = numbers(twos), numbers(shape(3, many=12))
    every = np.arange(LIMIT, dtype=np.int64)
    none = np.zeros(LIMIT, np.int64)
    element = numbers(twos, "int64", -2, 1)
    tuples = numbers((5, LIMIT), "int64", -1, 0)
    flags = numbers(shape(2, 1), "bool", 0, 1)
    found = {
        "Where": Case("Where", [flags, numbers(shape(1, 2)), x]),
        "PRelu": Case("PRelu", [x, numbers(shape(1, 2))]),
        "Fmod": binary("Mod", fmod=1),
        "Transpose": Case("Transpose", [x]),
        "Gather": Case("Gather", [x, np.asarray(-1, np.int64)], {"axis": 7}),
        "GatherMany": Case("Gather", [x[..., 0], np.asarray([[1, 0]], np.int64)], {"axis": 9}),
        "GatherElements": Case("GatherElements", [x, element], {"axis": 3}),
        "GatherND": Case("GatherND", [x, tuples]),
        "ScatterElements": Case("ScatterElements", [x, element, numbers(twos)], {"axis": 15}),
        "ScatterAdd": Case(
            "ScatterElements", [x, element, numbers(twos)], {"axis": 4, "reduction": "add"}
        ),
        "ScatterND": Case("ScatterND", [x, np.unique(tuples, axis=0)[:1], numbers((1,))]),
        "ArgMax": Case("ArgMax", [x], {"axis": 5}),
        "TopK": Case("TopK", [wide, np.asarray([2])], {"axis": 6}, constant=1, outputs=2),
        "CumSum": Case("CumSum", [x, np.asarray(8)], constant=1),
        "Softmax": Case("Softmax", [x], {"axis": 2}),
        "Slice": Case("Slice", [x, none - 1, none - 9, every, none - 1], constant=1),
        "SliceSteps": Case("Slice", [wide, none, none + 9, every, none + 2], constant=1),
        "Split": Case("Split", [x], {"axis": 1, "num_outputs": 2}, outputs=2),
        "Concat": Case("Concat", [x, x, x], {"axis": 10}),
        "Expand": Case("Expand", [numbers(shape(2, 1)), np.asarray(twos)], constant=1),
        "Tile": Case("Tile", [numbers(shape(1, 2)), 1 + every % 2 * (every < 16)], constant=1),
        "TileOnce": Case("Tile", [x, none + 1], constant=1),
        "OneHot": Case(
            "OneHot",
            [element[..., 0], np.asarray(3), np.asarray([0, 1])],
            {"axis": 11},
            constant=1,
        ),
        "Trilu": Case("Trilu", [numbers((*twos[:-2], 3, 3))]),
        "NonZero": Case("NonZero", [x]),
        "ReverseSequence": Case(
            "ReverseSequence", [x, np.asarray([2, 1])], {"time_axis": 0, "batch_axis": 1}
        ),
        "Cast": Case("Cast", [x], {"to": onnx.TensorProto.INT64}),
        "Sum": Case("Sum", [numbers(shape(2, 1)), numbers(shape(1, 2)), x]),
        "LayerNormalization": Case("LayerNormalization", [x, numbers(shape(2)[8:])], {"axis": 8}),
        "Flatten": Case("Flatten", [x], {"axis": 5}),
        "MatMulInteger": matrices("MatMulInteger", "uint8"),
    }
    for mode in ("constant", "edge", "reflect", "wrap"):
        pads = np.tile((every % 2 == 0) & (every < 6), 2).astype(np.int64)
        found[f"Pad {mode}"] = Case("Pad", [x, pads], {"mode": mode}, constant=1)
    for dtype in ("float32", "float64", "int64", "uint8"):
        found[f"Add {dtype}"] = binary("Add", dtype)
        found[f"Less {dtype}"] = binary("Less", dtype)
    for dtype in ("float32", "float64"):
        found[f"MatMul {dtype}"] = matrices("MatMul", dtype)
    for op in ("Sum", "Max", "Mean", "L2", "Prod"):
        found[f"Reduce{op}"] = Case(f"Reduce{op}", [x / 8, every[::2]], constant=1)
    whole = x.astype(np.int64)
    found["ReduceMin int64"] = Case("ReduceMin", [whole, every[::3]], constant=1)
    for op in ("Sub", "Mul", "Div", "Pow", "Max", "Min"):
        found[op] = binary(op)
    return found


CASES = cases()


def graph_of(name: str, case: Case) -> tuple[Any, dict[str, Array]]:
    """A graph whose names begin with `name`."""
    arrays = {f"{name} {i}": np.asarray(a) for i, a in enumerate(case.inputs)}
    fed = dict(list(arrays.items())[: case.constant])
    made = [f"{name} made {i}" for i in range(case.outputs)]
    node = helper.make_node(case.op, list(arrays), made, **case.options)

    def info(name: str, array: Array) -> Any:
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        return helper.make_tensor_value_info(name, kind, array.shape)

    weights = [numpy_helper.from_array(a, n) for n, a in arrays.items() if n not in fed]
    graph = helper.make_graph([node], "graph", [info(n, a) for n, a in fed.items()], [], weights)
    inferred = onnx.shape_inference.infer_shapes(model_of(graph)).graph
    empty = [onnx.ValueInfoProto(name=n) for n in made]
    graph.output.extend([v for v in inferred.value_info if v.name in made] or empty)
    return graph, fed


def model_of(graph: Any) -> Any:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def references(model: Any, fed: dict[str, Array]) -> list[Array]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options)
    return [np.asarray(v) for v in session.run(None, fed)]


def typed(graph: Any, expected: list[Array]) -> None:
    del graph.output[:]
    for i, array in enumerate(expected):
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        name = graph.node[0].output[i]
        graph.output.append(helper.make_tensor_value_info(name, kind, array.shape))


def save(graph: Any, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model_of(graph).SerializeToString())
    return path


@pytest.mark.parametrize("name", CASES)
def test_the_most_dimensions_are_right(name: str, tmp_path: Path) -> None:
    graph, fed = graph_of(name, CASES[name])
    expected = references(model_of(graph), fed)
    typed(graph, expected)
    assert max(a.ndim for a in [*CASES[name].inputs, *expected]) == LIMIT
    found = mlbridge.open(f"native:{save(graph, tmp_path)}").evaluate(**fed)
    for output, value in zip(graph.output, expected, strict=True):
        array = np.asarray(found[output.name])
        assert array.dtype == value.dtype
        np.testing.assert_allclose(array, value, rtol=1e-5, atol=1e-6)


def info(name: str, dims: tuple[int | str, ...], kind: int = onnx.TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, dims)


def beyond() -> dict[str, Any]:
    """Graphs with a tensor of one dimension too many: where it is, or how it comes about."""
    node, weight = helper.make_node, numpy_helper.from_array
    most, more = (1,) * LIMIT, (1,) * (LIMIT + 1)
    x, y = info("x", most), info("y", (1,))
    ones = weight(np.ones(LIMIT + 1, np.int64), "ones")
    zero = weight(np.zeros(1, np.int64), "zero")
    back = node("Flatten", ["between"], ["y"], axis=0)
    out = info("y", (1, 1))

    def graph(*nodes: Any, inputs: Any = (x,), outputs: Any = (out,), weights: Any = ()) -> Any:
        return helper.make_graph(list(nodes), "graph", list(inputs), list(outputs), list(weights))

    def branch(rank: int) -> Any:
        inner = [node("Unsqueeze", ["x", "zero"], ["wide"]), node("Flatten", ["wide"], ["flat"])]
        return graph(*inner, inputs=(), outputs=(info("flat", (1, rank)),))

    body = graph(
        node("Identity", ["going"], ["still"]),
        node("Identity", ["x"], ["entry"]),
        inputs=(info("i", (), 7), info("going", (), 9)),
        outputs=(info("still", (), 9), info("entry", most)),
    )
    flag = info("flag", (), 9)
    two = weight(np.asarray(2, np.int64), "two")
    return {
        "input": graph(node("Flatten", ["x"], ["y"]), inputs=(info("x", more),)),
        "input of any length": graph(
            node("Flatten", ["x"], ["y"]), inputs=(info("x", ("n",) * (LIMIT + 1)),)
        ),
        "weight": graph(
            node("Flatten", ["w"], ["y"]), weights=(weight(np.ones(more, np.float32), "w"),)
        ),
        "constant": graph(
            node("Constant", [], ["between"], value=weight(np.ones(more, np.float32), "w")), back
        ),
        "output": graph(node("Unsqueeze", ["x", "zero"], ["y"]), outputs=(y,), weights=(zero,)),
        "Unsqueeze": graph(node("Unsqueeze", ["x", "zero"], ["between"]), back, weights=(zero,)),
        "Reshape": graph(node("Reshape", ["x", "ones"], ["between"]), back, weights=(ones,)),
        "Expand": graph(node("Expand", ["x", "ones"], ["between"]), back, weights=(ones,)),
        "ConstantOfShape": graph(
            node("ConstantOfShape", ["ones"], ["between"]), back, weights=(ones,)
        ),
        "OneHot": graph(
            node("Cast", ["x"], ["i"], to=7),
            node("OneHot", ["i", "two", "values"], ["between"]),
            node("Slice", ["between", "zero", "ones", "last"], ["cut"]),
            node("Flatten", ["cut"], ["y"], axis=0),
            weights=(
                two,
                weight(np.asarray([0, 1], np.float32), "values"),
                zero,
                weight(np.ones(1, np.int64), "ones"),
                weight(np.asarray([LIMIT], np.int64), "last"),
            ),
        ),
        "If": graph(
            node("If", ["flag"], ["y"], then_branch=branch(1), else_branch=branch(1)),
            inputs=(x, flag),
            weights=(zero,),
        ),
        "Loop": graph(
            node("Loop", ["two", ""], ["between"], body=body),
            node("Flatten", ["between"], ["y"], axis=0),
            outputs=(info("y", (1, 2)),),
            weights=(two,),
        ),
    }


BEYOND = beyond()


@pytest.mark.parametrize("name", BEYOND)
def test_one_more_is_refused_when_it_is_opened(name: str, tmp_path: Path) -> None:
    with pytest.raises(mlbridge.errors.Unsupported, match=rf"{LIMIT + 1} .*at most {LIMIT} "):
        mlbridge.open(f"native:{save(BEYOND[name], tmp_path)}")


def test_compiled_code_has_the_same_limit(tmp_path: Path) -> None:
    graphs: list[Any] = []
    fed: dict[str, Array] = {}
    for name, case in CASES.items():
        if case.op in ("Add", "MatMul", "MatMulInteger", "Where", "Tile", "ScatterElements", "Mod"):
            graph, feeds = graph_of(name, case)
            typed(graph, references(model_of(graph), feeds))
            graphs.append(graph)
            fed |= feeds
    whole = graphs[0]
    for graph in graphs[1:]:
        whole.MergeFrom(graph)
    path = save(whole, tmp_path)
    library = tmp_path / "model.so"
    assert main(["aot", str(path), "-o", str(library), "--shared", "--isa", "portable"]) == 0
    expected = mlbridge.open(f"native:{path}").evaluate(**fed)
    found = mlbridge.open(f"aot:{library}").evaluate(**fed)
    for name, value in expected.items():
        np.testing.assert_array_equal(np.asarray(found[name]), np.asarray(value))
    refused = save(BEYOND["Unsqueeze"], tmp_path)
    assert main(["aot", str(refused), "-o", str(library), "--shared"]) != 0
