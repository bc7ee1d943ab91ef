# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parts of loops as vectors: for agents whose model asks for them, and for no others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from compiler import Compiled, Compiler, serving
from onnx import TensorProto, helper

import mlbridge
from mlbridge import Signature, TensorSpec

KERNELS = Path(__file__).resolve().parent / "inputs" / "kernels.c"
HEURISTIC = "function:heuristic"
SOURCE = """
void apart(int *restrict a, const int *restrict b, float *restrict c, int n) {
  for (int i = 0; i < n; ++i) { a[i] = b[i] + 3; c[i] = c[i] * c[i]; }
}
"""


def agents(dimension: int, *, embeds: bool = True) -> dict[str, Signature]:
    """For servers."""
    of_nodes = TensorSpec("embeddings", "float32", [None, dimension])
    of_node = TensorSpec("embedding", "float32", [dimension])
    previous = TensorSpec("previous_embedding", "float32", [dimension])
    mask: dict[str, list[int | None]] = {"node": [None], "distribute": [2]}
    more = {"node": [of_nodes, previous], "distribute": [of_node, previous]}
    return {
        name: Signature(
            [TensorSpec("action_mask", "bool", shape), *(more[name] if embeds else [])],
            [TensorSpec(name, "int64")],
        )
        for name, shape in mask.items()
    }


def served(
    compiler: Compiler,
    source: Path,
    signatures: dict[str, Signature] | None,
    policy: Callable[[Any, mlbridge.CallContext], int],
    **settings: str,
) -> Compiled:
    with serving(policy, compiler.folder, signatures) as uri:
        return compiler.clang(source, model=uri, on_failure="fail", **settings)


def first(observation: Any, context: mlbridge.CallContext) -> int:
    return int(np.flatnonzero(observation["action_mask"])[-1])


def test_what_is_added_up(compiler: Compiler) -> None:
    """A vocabulary that counts additions, products and stores."""
    names = ("Add", "FMul", "Store")
    opcodes = {name: [float(at == i) for i in range(3)] for at, name in enumerate(names)}
    zero = {"Types": {"VoidTy": [0.0] * 3}, "Arguments": {"Function": [0.0] * 3}}
    words = compiler.folder / "words.json"
    words.write_text(json.dumps({"Opcodes": opcodes, **zero}))
    source = compiler.folder / "apart.c"
    source.write_text(SOURCE)
    seen: list[dict[str, Any]] = []

    def policy(observation: Any, context: mlbridge.CallContext) -> int:
        seen.append({name: np.array(observation[name]) for name in observation})
        return first(observation, context)

    made = served(compiler, source, agents(3), policy, vocabulary=str(words))
    assert made.code == 0 and not made.stderr
    nodes, last = seen
    # Every loop needs the addition of its own counter.
    assert np.allclose(nodes["embeddings"], [[2, 0, 1], [1, 1, 1]])
    assert not nodes["previous_embedding"].any()
    assert np.allclose(last["embedding"], [2, 0, 1])
    assert np.allclose(last["previous_embedding"], [1, 1, 1])


def network(folder: Path, dimension: int = 300, **metadata: str) -> str:
    """A new loop where the vectors differ a lot in their first number."""
    tensor, node = helper.make_tensor_value_info, helper.make_node
    graph = helper.make_graph(
        [
            node("Sub", ["embedding", "previous_embedding"], ["difference"]),
            node("Gather", ["difference", "column"], ["one"]),
            node("Abs", ["one"], ["size"]),
            node("Greater", ["size", "much"], ["apart"]),
            node("Cast", ["apart"], ["distribute"], to=TensorProto.INT64),
        ],
        "policy",
        [
            tensor(name, TensorProto.FLOAT, [dimension])
            for name in ("embedding", "previous_embedding")
        ],
        [tensor("distribute", TensorProto.INT64, [])],
        [
            helper.make_tensor("column", TensorProto.INT64, [], [0]),
            helper.make_tensor("much", TensorProto.FLOAT, [], [0.02]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for key, value in metadata.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = f"loop-distribution.{key}", value
    path = folder / "distribute.onnx"
    onnx.save(model, str(path))
    return str(path)


def test_networks_and_a_server_decide_alike(compiler: Compiler) -> None:
    printed = compiler.output(compiler.clang(KERNELS))
    path = network(compiler.folder)

    def policy(observation: Any, context: mlbridge.CallContext) -> int:
        if context.agent == "node":
            return int(np.flatnonzero(observation["action_mask"])[0])
        apart = observation["embedding"][0] - observation["previous_embedding"][0]
        return int(abs(apart) > np.float32(0.02))

    made = served(compiler, KERNELS, agents(300), policy)
    assert made.code == 0 and not made.stderr
    decided = made.object
    assert compiler.output(made) == printed

    def node(seen: Any, context: mlbridge.CallContext) -> int:
        return int(np.flatnonzero(seen["action_mask"])[0])

    with serving(node, compiler.folder) as uri:
        for scheme in ("native", "onnx"):
            model = f"distribute={scheme}:{path}; *={uri}"
            made = compiler.clang(KERNELS, model=model, on_failure="fail")
            assert not made.stderr and made.object == decided, scheme
    never = compiler.clang(KERNELS, model="function:never", on_failure="fail")
    assert decided != never.object


def test_a_model_that_does_not_ask_is_not_charged(compiler: Compiler) -> None:
    """The vocabulary isn't even read."""
    expected = compiler.clang(KERNELS, model=HEURISTIC).object
    wrong = {"vocabulary": "/nowhere.json", "on_failure": "fail"}
    made = compiler.clang(KERNELS, model=HEURISTIC, **wrong)
    assert not made.stderr and made.object == expected
    seen: set[str] = set()

    def policy(observation: Any, context: mlbridge.CallContext) -> int:
        seen.update(observation)
        return first(observation, context)

    for signatures in (None, agents(300, embeds=False)):
        made = served(compiler, KERNELS, signatures, policy, vocabulary="/nowhere.json")
        assert made.code == 0 and not made.stderr
    assert "action_mask" in seen and not any("embedding" in name for name in seen)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"vocabulary": "/nowhere.json"}, "/nowhere.json"),
        ({"vocabulary": "{folder}/empty.json"}, "empty.json"),
        ({"dimension": 299}, "embedding"),
        ({"digest": "0" * 64}, "loop-distribution.vocabulary: the one in this plugin has the"),
    ],
)
def test_what_does_not_fit(compiler: Compiler, settings: dict[str, Any], says: str) -> None:
    (compiler.folder / "empty.json").write_text("{}")
    digest = settings.get("digest")
    path = network(
        compiler.folder,
        settings.get("dimension", 300),
        **({"vocabulary": digest} if digest else {}),
    )
    vocabulary = settings.get("vocabulary", "").format(folder=compiler.folder)
    options = {"vocabulary": vocabulary} if vocabulary else {}
    stock = compiler.clang(KERNELS).object
    model = f"distribute=native:{path}; *={HEURISTIC}"
    made = compiler.clang(KERNELS, model=model, **options)
    assert len(made.warnings) == 1 and says in made.warnings[0], made.stderr
    assert made.object == stock
    made = compiler.clang(KERNELS, model=model, on_failure="fail", **options)
    assert made.code != 0 and says in made.stderr


def test_the_digest_of_a_vocabulary_that_fits(compiler: Compiler) -> None:
    shipped = Path(__file__).resolve().parents[2] / "embeddings" / "vocabulary.json"
    digest = hashlib.sha256(shipped.read_bytes()).hexdigest()
    path = network(compiler.folder, vocabulary=digest)
    model = f"distribute=native:{path}; *={HEURISTIC}"
    made = compiler.clang(KERNELS, model=model, on_failure="fail")
    assert made.code == 0 and not made.stderr
