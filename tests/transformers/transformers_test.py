# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention, Einsum, losses and what ONNX Runtime fuses: the native engine against ONNX's reference
implementation, ONNX Runtime and NumPy, and refusals."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import mlbridge
from mlbridge import cli

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]
CASES = 60


def model(
    nodes: list[onnx.NodeProto],
    feeds: Feeds,
    outputs: list[str],
    opset: int = 24,
    lengths: dict[str, list[Any]] | None = None,
) -> onnx.ModelProto:
    """`lengths`: the shapes of inputs whose lengths change."""
    shapes = {name: list(value.shape) for name, value in feeds.items()} | (lengths or {})
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), shapes[name]
        )
        for name, value in feeds.items()
    ]
    kind = helper.make_tensor_type_proto(inputs[0].type.tensor_type.elem_type, None)
    results = [helper.make_value_info(name, kind) for name in outputs]
    graph = helper.make_graph(nodes, "graph", inputs, results)
    versions = {"": opset} | {node.domain: 1 for node in nodes if node.domain}
    opsets = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def evaluate(uri: str, feeds: Feeds, made: onnx.ModelProto | None = None) -> Feeds:
    if made is None:
        opened = mlbridge.Model.open(uri)
    else:
        opened = mlbridge.Model.from_bytes(uri, made.SerializeToString())
    signature = opened.model_signature
    assert signature
    opened.bind(signature)
    return {name: np.array(y) for name, y in opened.new_runner().evaluate(**feeds).items()}


def native(made: onnx.ModelProto, feeds: Feeds) -> Feeds:
    return evaluate("native:model.onnx", feeds, made)


def reference(made: onnx.ModelProto, feeds: Feeds) -> Feeds:
    evaluator = ReferenceEvaluator(made)
    return dict(zip(evaluator.output_names, evaluator.run(None, feeds), strict=True))


def assert_close(found: Feeds, expected: Feeds, what: object, rtol: float = 1e-4) -> None:
    for name, y in expected.items():
        assert found[name].shape == y.shape, what
        assert found[name].dtype == y.dtype, what
        most = np.abs(y[np.isfinite(y)]).max(initial=1.0) if y.dtype.kind == "f" else 1.0
        np.testing.assert_allclose(found[name], y, rtol, rtol * most, err_msg=f"{what} {name}")


def compiled(made: onnx.ModelProto, folder: Path) -> str:
    path, library = folder / "model.onnx", folder / "model.so"
    path.write_bytes(made.SerializeToString())
    assert cli.main(["aot", str(path), "-o", str(library), "--shared", "--isa", "portable"]) == 0
    return f"aot:{library}"


# ---- attention -----------------------------------------------------------------------------------


def attention(seed: int) -> tuple[onnx.ModelProto, Feeds, dict[str, Any]]:
    """A node with a random choice of all that the operator has."""
    pick, draw = random.Random(seed), np.random.default_rng(seed)
    batch, heads = pick.choice((1, 1, 2, 3)), pick.choice((1, 2, 3))
    group, size, values = pick.choice((1, 1, 2, 3)), pick.choice((1, 3, 8, 16, 20)), 0
    values = pick.choice((size, 2, 16, 33))
    queries, keys = pick.choice((1, 1, 2, 5, 17)), pick.choice((1, 2, 7, 18, 40))
    dtype: Any = pick.choice((np.float32, np.float32, np.float32, np.float64, np.float16))
    past = pick.choice((None, None, 0, 3))
    lengths = past is None and pick.random() < 0.3
    whole = keys + (past or 0)

    def tensor(*shape: int) -> Array:
        return draw.standard_normal(shape).astype(dtype)

    flat = pick.random() < 0.5
    feeds: Feeds = {}
    for name, length, count, each in (
        ("q", queries, heads * group, size),
        ("k", keys, heads, size),
        ("v", keys, heads, values),
    ):
        shape = (batch, length, count * each) if flat else (batch, count, length, each)
        feeds[name] = tensor(*shape)
    inputs = ["q", "k", "v", "", "", "", ""]
    if pick.random() < 0.6:
        dims: tuple[int, ...] = (batch, heads * group, queries, whole)[pick.randint(0, 2) :]
        # The reference masks only the first row causally if the mask has one.
        dims = tuple(pick.choice((n, n, 1)) for n in dims[:-2]) + dims[-2:]
        seen = draw.random(dims) < 0.8
        infinite = np.where(seen, draw.standard_normal(dims), -np.inf).astype(dtype)
        feeds["mask"] = seen if pick.random() < 0.5 else infinite
        inputs[3] = "mask"
    if past is not None:
        feeds["past_k"] = tensor(batch, heads, past, size)
        feeds["past_v"] = tensor(batch, heads, past, values)
        inputs[4:6] = ["past_k", "past_v"]
    if lengths:
        feeds["lengths"] = draw.integers(0, keys + 1, batch)
        inputs[6] = "lengths"
    options: dict[str, Any] = {"is_causal": pick.randint(0, 1)}
    outputs = ["y"]
    if flat:
        options |= {"q_num_heads": heads * group, "kv_num_heads": heads}
    if pick.random() < 0.3:
        options["softcap"] = pick.choice((0.5, 2.0))
    if pick.random() < 0.3:
        options["scale"] = 0.7
    if past is not None:
        outputs += ["present_k", "present_v"]
    if pick.random() < 0.5:
        # With a cap, the reference gives the capped scores where the raw ones are asked for.
        options["qk_matmul_output_mode"] = pick.randint(int("softcap" in options), 3)
        outputs += ["", ""] * (past is None) + ["scores"]
    if pick.random() < 0.3:
        precisions = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
        options["softmax_precision"] = pick.choice(precisions)
    opset = 24
    if pick.random() < 0.3:
        opset = 25
        options |= {
            "left_window_size": pick.randint(-1, 4),
            "right_window_size": pick.randint(-1, 4),
        }
    while not inputs[-1]:
        inputs.pop()
    node = helper.make_node("Attention", inputs, outputs, **options)
    made = model([node], feeds, [name for name in outputs if name], opset)
    return made, feeds, options


@pytest.mark.parametrize("first", range(0, CASES, CASES // 4))
def test_attention_is_that_of_the_reference(first: int) -> None:
    for seed in range(first, first + CASES // 4):
        made, feeds, options = attention(seed)
        half = feeds["q"].dtype == np.float16 or options.get("softmax_precision") == 10
        with np.errstate(all="ignore"):
            expected = reference(made, feeds)
        assert_close(native(made, feeds), expected, (seed, options), 1e-2 if half else 1e-4)


def test_attention_head_by_head_is_the_same(tmp_path: Path) -> None:
    """Long ones are computed head by head; with the scores asked for, all at once."""
    draw = np.random.default_rng(0)
    feeds: Feeds = {
        name: draw.standard_normal((2, length, 4 * 16)).astype(np.float32)
        for name, length in (("q", 130), ("k", 150), ("v", 150))
    }
    feeds["k"], feeds["v"] = feeds["k"][..., :32].copy(), feeds["v"][..., :32].copy()
    feeds["mask"] = draw.random((2, 4, 130, 150)) < 0.8
    options: dict[str, Any] = {"q_num_heads": 4, "kv_num_heads": 2}
    inputs = ["q", "k", "v", "mask"]
    short = helper.make_node("Attention", inputs, ["y"], **options)
    whole = helper.make_node("Attention", inputs, ["y", "", "", "scores"], **options)
    found = native(model([short], feeds, ["y"]), feeds)
    all_at_once = native(model([whole], feeds, ["y", "scores"]), feeds)
    assert np.array_equal(found["y"], all_at_once["y"])
    assert_close(found, reference(model([short], feeds, ["y"]), feeds), "long")


@pytest.mark.parametrize("seed", [1, 8])
def test_attention_compiled_ahead_of_time_gives_the_same_bits(tmp_path: Path, seed: int) -> None:
    made, feeds, _ = attention(seed)
    found, expected = evaluate(compiled(made, tmp_path), feeds), native(made, feeds)
    for name, y in expected.items():
        assert found[name].tobytes() == y.tobytes(), name


def test_attention_grows_a_cache() -> None:
    """From an empty one on, with lengths that change: together it is what one call gives."""
    draw = np.random.default_rng(0)
    q, k, v = (draw.standard_normal((1, 2, 9, 8)).astype(np.float32) for _ in range(3))
    inputs, outputs = ["q", "k", "v", "", "past_k", "past_v"], ["y", "present_k", "present_v"]
    node = helper.make_node("Attention", inputs, outputs, is_causal=1)
    empty = np.zeros((1, 2, 0, 8), np.float32)
    feeds = {"q": q, "k": k, "v": v, "past_k": empty, "past_v": empty}
    lengths = {name: [1, 2, "new", 8] for name in "qkv"}
    lengths |= {name: [1, 2, "old", 8] for name in ("past_k", "past_v")}
    made = model([node], feeds, outputs, lengths=lengths)
    opened = mlbridge.Model.from_bytes("native:model.onnx", made.SerializeToString())
    signature = opened.model_signature
    assert signature
    opened.bind(signature)
    runner = opened.new_runner()
    whole = {name: np.array(value) for name, value in runner.evaluate(**feeds).items()}
    parts = []
    cache = {"past_k": empty, "past_v": empty}
    for new in (slice(0, 4), slice(4, 5), slice(5, 9)):
        now = {"q": q[:, :, new], "k": k[:, :, new], "v": v[:, :, new]}
        answer = runner.evaluate(**now, **cache)
        parts.append(np.array(answer["y"]))
        cache = {f"past_{n}": np.array(answer[f"present_{n}"]) for n in "kv"}
    np.testing.assert_allclose(np.concatenate(parts, 2), whole["y"], 1e-5, 1e-6)
    assert np.array_equal(cache["past_k"], k)
    assert np.array_equal(cache["past_v"], v)


def float_feeds(**shapes: tuple[int, ...]) -> Feeds:
    return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize(
    ("shapes", "options", "message"),
    [
        ([(1, 4, 6)] * 3, {"q_num_heads": 0, "kv_num_heads": 1}, "'q_num_heads' is 0"),
        ([(1, 4, 6)] * 3, {"q_num_heads": -2, "kv_num_heads": 1}, "'q_num_heads' is -2"),
        ([(1, 4, 6)] * 3, {"q_num_heads": 4, "kv_num_heads": 1}, "'q_num_heads' is 4 for an input"),
        ([(1, 4, 6)] * 3, {}, "'q_num_heads' is 0"),
        ([(1, 4, 6)] * 3, {"q_num_heads": 2, "kv_num_heads": 3}, "as many heads"),
        ([(1, 3, 4, 6)] + [(1, 2, 4, 6)] * 2, {}, "as many heads"),
        ([(1, 2, 4, 6)] * 2 + [(1, 2, 5, 6)], {}, "as many heads"),
        ([(1, 0, 4, 6)] * 3, {}, "'q_num_heads' is 0"),
        ([(4, 6)] * 3, {}, "[4, 6], [4, 6], [4, 6] don't fit"),
        ([(1, 2, 4, 6)] * 3 + [(4, 9)], {}, "a mask that can be broadcast"),
        ([(1, 2, 4, 6)] * 3 + [(3, 4)], {}, "a mask that can be broadcast"),
        ([(1, 2, 4, 6)] * 3 + [(1, 1, 1, 4, 4)], {}, "a mask that can be broadcast"),
        ([(1, 2, 4, 6)] * 3, {"qk_matmul_output_mode": 4}, "'qk_matmul_output_mode' is 4"),
        ([(1, 2, 4, 6)] * 3, {"scale": 0.0}, "'scale'"),
        ([(1, 2, 4, 6)] * 3, {"left_window_size": -2}, "is -2"),
    ],
)
def test_attention_that_is_impossible_is_refused(
    shapes: list[tuple[int, ...]], options: dict[str, Any], message: str
) -> None:
    feeds = float_feeds(**dict(zip("qkvm", shapes, strict=False)))
    node = helper.make_node("Attention", list(feeds), ["y"], **options)
    made = model([node], feeds, ["y"], 25)
    with pytest.raises(mlbridge.errors.InvalidModel) as caught:
        mlbridge.Model.from_bytes("native:model.onnx", made.SerializeToString())
    assert message in str(caught.value)


def test_a_position_out_of_range_is_an_error() -> None:
    feeds = float_feeds(x=(1, 1, 2, 4), cosine=(3, 2), sine=(3, 2))
    feeds["at"] = np.array([[0, 3]], np.int64)
    rotary = model([helper.make_node("RotaryEmbedding", list(feeds), ["y"])], feeds, ["y"])
    with pytest.raises(mlbridge.errors.PolicyFailed, match="an index is out of range"):
        native(rotary, feeds)
    feeds = float_feeds(cache=(2, 3, 2), new=(2, 2, 2))
    feeds["at"] = np.array([0, 2], np.int64)
    scatter = model([helper.make_node("TensorScatter", list(feeds), ["y"])], feeds, ["y"])
    with pytest.raises(mlbridge.errors.PolicyFailed, match="an index is out of range"):
        native(scatter, feeds)


def others() -> list[tuple[onnx.ModelProto, Feeds]]:
    """A model of each of the other operators."""
    draw = np.random.default_rng(0)

    def tensor(*shape: int) -> Array:
        return draw.standard_normal(shape).astype(np.float32)

    made = []
    for interleaved in (0, 1):
        feeds = {"x": tensor(2, 3, 5, 14), "cosine": tensor(9, 6), "sine": tensor(9, 6)}
        feeds["at"] = draw.integers(0, 9, (2, 5))
        options: dict[str, Any] = {"interleaved": interleaved, "rotary_embedding_dim": 12}
        node = helper.make_node("RotaryEmbedding", list(feeds), ["y"], **options)
        made.append((model([node], feeds, ["y"]), feeds))
    for mode in ("linear", "circular"):
        feeds = {"cache": tensor(2, 3, 7, 4), "new": tensor(2, 3, 3, 4), "at": np.array([1, 4])}
        if mode == "circular":
            feeds["at"] = np.array([6, 12])
        node = helper.make_node("TensorScatter", list(feeds), ["y"], mode=mode)
        made.append((model([node], feeds, ["y"]), feeds))
    feeds = {"q": tensor(2, 5, 12), "k": tensor(2, 5, 6), "v": tensor(2, 5, 8)}
    feeds |= {"state": tensor(2, 2, 3, 4), "decay": -abs(tensor(2, 5, 6)), "beta": tensor(2, 5, 1)}
    options = {"q_num_heads": 4, "kv_num_heads": 2}
    node = helper.make_node("LinearAttention", list(feeds), ["y", "next"], **options)
    made.append((model([node], feeds, ["y", "next"], 27), feeds))
    feeds = {"a": tensor(3, 40), "b": tensor(3, 40)}
    node = helper.make_node("SwiGLU", list(feeds), ["y"], alpha=1.5)
    made.append((model([node], feeds, ["y"], 28), feeds))
    feeds = {"x": tensor(3, 5, 4), "target": draw.integers(0, 5, (3, 4)), "weight": tensor(5)}
    feeds["target"][0, 0] = 99
    options = {"ignore_index": 99}
    node = helper.make_node("SoftmaxCrossEntropyLoss", list(feeds), ["y", "logs"], **options)
    made.append((model([node], feeds, ["y", "logs"]), feeds))
    return made


@pytest.mark.parametrize("number", range(7))
def test_other_operators_are_those_of_the_reference(tmp_path: Path, number: int) -> None:
    made, feeds = others()[number]
    found = native(made, feeds)
    assert_close(found, reference(made, feeds), made.graph.node[0].op_type)
    if number in (1, 3, 4):
        again = evaluate(compiled(made, tmp_path), feeds)
        assert all(again[name].tobytes() == y.tobytes() for name, y in found.items())


# ---- Einsum --------------------------------------------------------------------------------------

EQUATIONS = [
    "ij,jk->ik", "ij,jk", "bij,bjk->bik", "ij->ji", "ii", "ii->i", "iij->j", "ij->", "i,i",
    "i,j->ij", "ij,ij->ij", "ij,ij->i", "ij,kj,lk->il", "bhqd,bhkd->bhqk", "...ij,...jk->...ik",
    "...ii->...i", "...i,i", "a...b,b...c->...ac", "abc,bad->cd", "ab,bc,cd,de->ae", "a,b,c,d",
    "ba,a->b", "zA,Aq", " i j , j k -> k i ", "->", ",a", "abcd->dbca", "ab,ab,ab->b",
]  # fmt: skip


def operands(equation: str, draw: Any, dtype: Any) -> Feeds:
    lengths = {c: 2 + i for i, c in enumerate("abcdeijklqhzA")}
    feeds = {}
    for number, term in enumerate(equation.replace(" ", "").split("->")[0].split(",")):
        shape: list[int] = []
        for c in term.replace("...", "."):
            shape += [3, 2] if c == "." else [lengths[c]]
        feeds[f"x{number}"] = (4 * draw.standard_normal(shape)).astype(dtype)
    return feeds


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_einsum_is_that_of_numpy(dtype: Any) -> None:
    draw = np.random.default_rng(0)
    for equation in EQUATIONS:
        feeds = operands(equation, draw, dtype)
        node = helper.make_node("Einsum", list(feeds), ["y"], equation=equation)
        found = native(model([node], feeds, ["y"]), feeds)
        expected = np.einsum(equation.replace(" ", ""), *feeds.values())
        assert_close(found, {"y": np.asarray(expected, dtype)}, equation)


def test_einsum_broadcasts_lengths_of_one_and_none() -> None:
    draw = np.random.default_rng(0)
    for equation, shapes in (
        ("...ij,...jk", [(1, 2, 3), (5, 3, 2)]),
        ("...i,...i->...", [(4, 1, 3), (5, 3)]),
        ("ij,jk", [(2, 0), (0, 3)]),
        ("ij->j", [(0, 3)]),
    ):
        feeds = {
            f"x{i}": draw.standard_normal(shape).astype(np.float32)
            for i, shape in enumerate(shapes)
        }
        node = helper.make_node("Einsum", list(feeds), ["y"], equation=equation)
        found = native(model([node], feeds, ["y"]), feeds)
        assert_close(found, {"y": np.einsum(equation, *feeds.values())}, equation)


@pytest.mark.parametrize(
    "equation",
    ["ij,j", "ij", "ij,jk->i!", "ij,jk->ii", "ij,jk->il", "ij,jk->i->k", "...ij,jk->ik."],
)
def test_a_wrong_equation_is_refused(equation: str) -> None:
    feeds = float_feeds(a=(2, 3), b=(3, 4))
    node = helper.make_node("Einsum", list(feeds), ["y"], equation=equation)
    with pytest.raises(mlbridge.errors.InvalidModel, match="Einsum"):
        native(model([node], feeds, ["y"]), feeds)


def test_lengths_that_differ_are_refused() -> None:
    feeds = float_feeds(a=(2, 3), b=(4, 5))
    node = helper.make_node("Einsum", list(feeds), ["y"], equation="ij,jk")
    with pytest.raises(mlbridge.errors.InvalidModel, match=r"\[2, 3\], \[4, 5\].*'ij,jk'"):
        native(model([node], feeds, ["y"]), feeds)


# ---- what ONNX Runtime fuses ---------------------------------------------------------------------


def block(kind: str) -> tuple[onnx.ModelProto, Feeds]:
    """A layer of a Transformer, as exporters write it."""
    draw = np.random.default_rng(0)
    width, heads, size, length = 32, 4, 8, 6
    weights: list[onnx.TensorProto] = []
    nodes: list[onnx.NodeProto] = []

    def weight(*shape: int) -> str:
        name = f"w{len(weights)}"
        value = (draw.standard_normal(shape) / 4).astype(np.float32)
        weights.append(onnx.numpy_helper.from_array(value, name))
        return name

    def numbers(value: Any, dtype: Any = np.int64) -> str:
        name = f"w{len(weights)}"
        weights.append(onnx.numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def node(op: str, *inputs: str, **options: Any) -> str:
        nodes.append(helper.make_node(op, inputs, [f"t{len(nodes)}"], **options))
        return str(nodes[-1].output[0])

    def linear(x: str, n: int, m: int) -> str:
        return node("Add", node("MatMul", x, weight(n, m)), weight(m))

    def head(x: str, perm: list[int]) -> str:
        split = node("Reshape", linear(x, width, width), numbers([1, length, heads, size]))
        return node("Transpose", split, perm=perm)

    def normalized(x: str) -> str:
        if kind == "rms":
            return node("RMSNormalization", x, weight(width))
        return node("LayerNormalization", x, weight(width), weight(width))

    def activated(x: str) -> str:
        if kind == "quick":
            return node("Mul", x, node("Sigmoid", node("Mul", x, numbers(1.702, np.float32))))
        if kind == "tanh":
            cube = node(
                "Mul", node("Pow", x, numbers(3, np.float32)), numbers(0.044715, np.float32)
            )
            inner = node("Mul", node("Add", x, cube), numbers(0.7978845608, np.float32))
            outer = node("Add", node("Tanh", inner), numbers(1, np.float32))
            return node("Mul", node("Mul", x, numbers(0.5, np.float32)), outer)
        erf = node("Erf", node("Div", x, numbers(1.4142135, np.float32)))
        sum_ = node("Add", erf, numbers(1, np.float32))
        return node("Mul", node("Mul", x, sum_), numbers(0.5, np.float32))

    x = "x"
    y = normalized(x)
    q, k, v = head(y, [0, 2, 1, 3]), head(y, [0, 2, 3, 1]), head(y, [0, 2, 1, 3])
    scores = node("Div", node("MatMul", q, k), numbers(size**0.5, np.float32))
    mixed = node("MatMul", node("Softmax", scores, axis=-1), v)
    merged = node("Transpose", mixed, perm=[0, 2, 1, 3])
    merged = node("Reshape", merged, numbers([1, length, width]))
    x = node("Add", x, linear(merged, width, width))
    y = activated(linear(normalized(x), width, 2 * width))
    x = normalized(node("Add", x, linear(y, 2 * width, width)))
    flat = node("Reshape", x, numbers([length, width]))
    gemm = node("Gemm", flat, weight(width, 3), weight(3))
    result = node("LeakyRelu", gemm, alpha=0.3)
    feeds = {"x": draw.standard_normal((1, length, width)).astype(np.float32)}
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, length, width])],
        [helper.make_tensor_value_info(result, TensorProto.FLOAT, [length, 3])],
        weights,
    )
    opset = 23 if kind == "rms" else 17
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return made, feeds


def test_what_onnx_runtime_optimizes_runs(tmp_path: Path) -> None:
    written: set[str] = set()
    for kind in ("erf", "tanh", "quick", "rms"):
        made, feeds = block(kind)
        path = tmp_path / f"{kind}.onnx"
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(path)
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(
            made.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        names = [output.name for output in session.get_outputs()]
        expected = dict(zip(names, session.run(None, feeds), strict=True))
        written |= {n.op_type for n in onnx.load(path).graph.node if n.domain}
        assert_close(evaluate(f"native:{path}", feeds), expected, kind)
    print(sorted(written))
    assert {"FusedGemm", "FusedMatMul"} <= written


FUSED: list[tuple[str, list[tuple[int, ...]], int, dict[str, Any]]] = [
    ("FusedGemm", [(3, 4), (4, 5), (5,)], 1, {"activation": "Relu"}),
    ("FusedGemm", [(4, 3), (5, 4), (3, 5)], 1, {
        "activation": "LeakyRelu", "activation_alpha": 0.2, "transA": 1, "transB": 1, "alpha": 0.5,
    }),
    ("FusedGemm", [(3, 4), (4, 5)], 1, {"activation": "Tanh"}),
    ("FusedGemm", [(3, 4), (4, 5)], 1, {"activation": "HardSigmoid", "activation_alpha": 0.3,
                                         "activation_beta": 0.4}),
    ("FusedMatMul", [(2, 3, 4), (2, 5, 4)], 1, {"transB": 1, "alpha": 0.25}),
    ("FusedMatMul", [(2, 4, 3), (4, 5)], 1, {"transA": 1}),
    ("FusedMatMul", [(4, 2, 3, 5), (2, 3, 5, 6)], 1, {"transBatchA": 1}),
    ("FusedMatMul", [(2, 3, 4, 5), (6, 2, 3, 5)], 1, {"transBatchB": 1, "transB": 1}),
    ("FusedMatMul", [(4,), (4, 5)], 1, {"alpha": 2.0}),
    ("Gelu", [(3, 7)], 1, {}),
    ("BiasGelu", [(3, 7), (7,)], 1, {}),
    ("FastGelu", [(3, 7), (7,)], 1, {}),
    ("FastGelu", [(3, 7)], 1, {}),
    ("QuickGelu", [(3, 7)], 1, {"alpha": 1.5}),
    ("SkipLayerNormalization", [(2, 3, 8), (2, 3, 8), (8,), (8,), (8,)], 1, {"epsilon": 1e-3}),
    ("SkipLayerNormalization", [(2, 3, 8), (3, 8), (8,)], 4, {}),
    ("SkipSimplifiedLayerNormalization", [(2, 3, 8), (2, 3, 8), (8,), (8,)], 4, {}),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(FUSED)))
def test_fused_operators_are_those_of_onnx_runtime(number: int) -> None:
    operator, shapes, results, attributes = FUSED[number]
    draw = np.random.default_rng(number)
    feeds = {
        f"x{i}": draw.standard_normal(shape).astype(np.float32) for i, shape in enumerate(shapes)
    }
    outputs = [f"y{i}" if i in (0, results - 1) else "" for i in range(results)]
    node = helper.make_node(operator, list(feeds), outputs, domain="com.microsoft", **attributes)
    names = [name for name in outputs if name]
    made = model([node], feeds, names, 17)
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    expected = dict(zip(names, session.run(None, feeds), strict=True))
    assert_close(native(made, feeds), expected, operator)


# ---- order of nodes ------------------------------------------------------------------------------


def test_functions_and_branches_may_stand_in_any_order() -> None:
    """Nodes of a function, of a branch and of the graph itself, each list backwards."""
    inner = [
        helper.make_node("Add", ["c", "d"], ["e"]),
        helper.make_node("Mul", ["c", "c"], ["d"]),
        helper.make_node("Neg", ["b"], ["c"]),
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "f", ["b"], ["e"], inner, opsets)
    then = helper.make_graph(
        [helper.make_node("Relu", ["r"], ["s"]), helper.make_node("Sub", ["x", "two"], ["r"])],
        "then",
        [],
        [helper.make_tensor_value_info("s", TensorProto.FLOAT, [3])],
    )
    other = helper.make_graph(
        [helper.make_node("f", ["r2"], ["s2"], domain="own"),
         helper.make_node("Add", ["x", "two"], ["r2"])],
        "else", [], [helper.make_tensor_value_info("s2", TensorProto.FLOAT, [3])],
    )  # fmt: skip
    nodes = [
        helper.make_node("f", ["z"], ["y"], domain="own"),
        helper.make_node("If", ["c"], ["z"], then_branch=then, else_branch=other),
        helper.make_node("Add", ["one", "one"], ["two"]),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3]),
         helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
        [helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=10)
    x = np.array([-1, 2, 5], np.float32)

    def f(b: Array) -> Array:
        return np.asarray(-b + b * b)

    for c in (True, False):
        z = np.maximum(x - 2, 0) if c else f(x + 2)
        found = native(made, {"x": x, "c": np.array(c)})
        assert np.array_equal(found["y"], f(z))
