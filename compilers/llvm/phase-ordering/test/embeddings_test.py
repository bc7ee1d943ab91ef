# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The observations of IR2Vec: what llvm-ir2vec says, and nothing else is ever taken for it."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from driven_test import environment, module_of
from fallback_test import check_falls_back
from numpy.typing import NDArray
from onnx import TensorProto, helper
from stock import ONLY_19, ROOT, SOURCES, Compiler

import mlbridge
import mlbridge.files

SHIPPED = ROOT / "compilers/llvm/embeddings/vocabulary.json"
ACTIONS = json.loads((ROOT / "compilers/llvm/phase-ordering/actions.json").read_text())["actions"]
CHOICES = len(ACTIONS) + 1
#: Our kinds, LLVM's, and what models call them.
KINDS = {
    "ir2vec": ("flow-aware", "ir2vec-flow-aware-1"),
    "ir2vec-symbolic": ("symbolic", "ir2vec-symbolic-1"),
}


def sections(number: Any) -> dict[str, dict[str, list[Any]]]:
    """The shipped vocabulary's names with other vectors."""
    shipped = json.loads(SHIPPED.read_text())
    return {s: {name: number() for name in vectors} for s, vectors in shipped.items()}


@pytest.fixture
def coarse(tmp_path: Path) -> Path:
    """A vocabulary with large numbers, of which llvm-ir2vec's two digits show most. A word of each
    section is missing, and one is not LLVM's."""
    numbers = random.Random(3)
    made = sections(lambda: [numbers.randint(-999, 999) for _ in range(5)])
    for section, missing in (("Opcodes", "Add"), ("Types", "IntegerTy"), ("Arguments", "ICMP_slt")):
        del made[section][missing]
        made[section]["Unheard"] = [1, 2, 3, 4, 5]
    path = tmp_path / "coarse.json"
    path.write_text(json.dumps({**made, "Comment": "of nobody's interest"}))
    return path


def by_llvm(module: Path, kind: str, vocabulary: Path) -> tuple[NDArray[Any], int]:
    """The sum of the functions' vectors that llvm-ir2vec prints, and how many these are."""
    said = subprocess.run(
        [
            *("llvm-ir2vec-22", "embeddings", "--level=func", f"--ir2vec-kind={kind}"),
            *(f"--ir2vec-vocab-path={vocabulary}", str(module)),
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    vectors = [np.array(v.split(), float) for v in re.findall(r"\[(.*?)\]", said)]
    return np.sum(vectors, axis=0), len(vectors)


def observing(kind: str, vocabulary: Path | None = None) -> list[str]:
    more = [f"-phase-ordering-vocabulary={vocabulary}"] if vocabulary else []
    return [f"-phase-ordering-observation={kind}", *more]


@pytest.fixture
def uri(tmp_path: Path) -> Iterator[str]:
    yield f"unix:{tmp_path}/opt"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source", ["words.c", "shapes.c"])
def test_it_is_what_llvm_ir2vec_says(
    compiler: Compiler, uri: str, coarse: Path, kind: str, source: str
) -> None:
    module, lowered = module_of(compiler, source), compiler.folder / "lowered.bc"
    # What the pass always does first.
    lowering = "function(declare-to-assign,ee-instrument<>),coro-early,always-inline"
    compiler.run("opt-22", f"-passes={lowering}", module, "-o", lowered)
    with (
        environment(compiler, uri, module, *observing(kind, coarse)),
        mlbridge.drive(f"{uri}?wait=20s", deadline=60) as driver,
    ):
        digest = hashlib.sha256(coarse.read_bytes()).hexdigest()
        assert driver.metadata["phase-ordering.observation"] == KINDS[kind][1]
        assert driver.metadata["phase-ordering.vocabulary"] == digest
        observation, seen, module = driver.reset(), [], lowered
        for action in (30, 5, 23):
            expected, functions = by_llvm(module, KINDS[kind][0], coarse)
            assert functions > 1
            got = observation["embedding"]
            assert got.dtype == np.float32
            assert got == pytest.approx(expected, rel=1e-6, abs=0.006 * functions)
            seen.append(got.tobytes())
            after = compiler.folder / f"after-{action}.bc"
            compiler.run("opt-22", f"-passes={ACTIONS[action]['passes']}", module, "-o", after)
            observation, module = driver.step(action).observation, after
        assert len(set(seen)) == 3, "each group changes it"
        assert driver.reset()["embedding"].tobytes() == seen[0]


def test_debug_information_changes_nothing(compiler: Compiler, uri: str) -> None:
    plain = module_of(compiler, "words.c")
    debug = compiler.folder / "debug.bc"
    compiler.run(
        *("clang-22", "-Oz", "-g", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c"),
        *(SOURCES / "words.c", "-o", debug),
    )
    with (
        environment(compiler, uri, plain, *observing("ir2vec")),
        mlbridge.drive(f"{uri}?wait=20s", deadline=60) as driver,
    ):
        first, other = (driver.reset(str(m))["embedding"].tobytes() for m in (plain, debug))
        assert first == other


def test_the_built_in_vocabulary_is_the_file(compiler: Compiler, uri: str) -> None:
    installed = Path(mlbridge.files.vocabulary())
    assert installed.read_bytes() == SHIPPED.read_bytes()
    digest = hashlib.sha256(SHIPPED.read_bytes()).hexdigest()
    assert digest in (SHIPPED.parent / "README.md").read_text()
    module, seen = module_of(compiler, "words.c"), []
    for vocabulary in (None, SHIPPED):
        with (
            environment(compiler, uri, module, *observing("ir2vec", vocabulary)),
            mlbridge.drive(f"{uri}?wait=20s", deadline=60) as driver,
        ):
            assert driver.metadata["phase-ordering.vocabulary"] == digest
            seen.append(driver.reset()["embedding"])
    assert seen[0].shape == (300,) and np.isfinite(seen[0]).all()
    assert seen[0].tobytes() == seen[1].tobytes(), "and another process sees the same"


def test_sums_that_no_float_holds(compiler: Compiler, uri: str) -> None:
    huge = sections(lambda: [1e308, -1e308, 1e300])
    path = compiler.folder / "huge.json"
    path.write_text(json.dumps(huge))
    module = module_of(compiler, "words.c")
    with (
        environment(compiler, uri, module, *observing("ir2vec", path)),
        mlbridge.drive(f"{uri}?wait=20s", deadline=60) as driver,
    ):
        most = np.finfo(np.float32).max
        assert driver.reset()["embedding"].tolist() == [most, -most, most]


def broken(change: Any) -> str:
    made = sections(lambda: [1.0, 2.0])
    change(made)
    return json.dumps(made)


BROKEN: dict[str, tuple[str | bytes | None, str]] = {
    "missing": (None, "No such file or directory"),
    "empty": ("", "not JSON"),
    "truncated": ("{", "not JSON"),
    "other bytes": (b"\xff\xfe{}", "not JSON"),
    "a list": ("[]", 'there is no "Opcodes"'),
    "nothing": ("{}", 'there is no "Opcodes"'),
    "no types": (broken(lambda v: v.pop("Types")), 'there is no "Types"'),
    "a list of operands": (broken(lambda v: v.update(Arguments=[1])), 'there is no "Arguments"'),
    "empty section": (
        broken(lambda v: v.update(Types={})),
        '"Types": none of its names is one that LLVM knows',
    ),
    "old names": (
        broken(lambda v: v.update(Types={"integerTy": [1, 2]})),
        "none of its names is one that LLVM knows, such as 'UnknownTy'",
    ),
    "shorter": (broken(lambda v: v["Types"].update(VoidTy=[1])), "Types 'VoidTy': expected 2 num"),
    "no dimension": (
        broken(lambda v: [s.update({name: [] for name in s}) for s in v.values()]),
        "expected a non-empty array of numbers",
    ),
    "a number": (broken(lambda v: v["Opcodes"].update(Add=3)), "Opcodes 'Add': expected a non-e"),
    "text": (
        broken(lambda v: v["Opcodes"].update(Add=[1, "2"])),
        "number 1 is not a finite number",
    ),
    "null": (broken(lambda v: v["Opcodes"].update(Add=[1, None])), "number 1 is not a finite"),
    "infinite": (broken(lambda v: None).replace("2.0", "1e999", 1), "number 1 is not a finite"),
    "NaN": (broken(lambda v: v["Opcodes"].update(Add=[float("nan"), 1])), "not JSON"),
    "deep arrays": ("[" * 1_000_000, "nested more than three deep"),
    "deep objects": ('{"a":' * 1_000_000, "nested more than three deep"),
    "brackets in text": (broken(lambda v: v["Types"].update({'\\"[{' * 9: [1]})), "expected 2 num"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_vocabulary_that_cannot_be_used(compiler: Compiler, name: str) -> None:
    content, expected = BROKEN[name]
    path = compiler.folder / "vocabulary.json"
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    done = compiler.run(
        *("opt-22", "-load-pass-plugin", compiler.plugin, "-passes=phase-ordering"),
        *(*observing("ir2vec", path), f"-phase-ordering-serve=unix:{compiler.folder}/s"),
        *("-disable-output", module_of(compiler, "words.c")),
    )
    assert done.stderr.count("\n") == 1
    assert "warning: phase-ordering: " in done.stderr and expected in done.stderr
    assert str(path) in done.stderr and "left to the usual passes" in done.stderr


def test_a_vocabulary_that_is_no_file(compiler: Compiler) -> None:
    fifo, sparse = compiler.folder / "fifo", compiler.folder / "sparse"
    os.mkfifo(fifo)
    with sparse.open("wb") as file:
        file.truncate(1 << 40)
    for path, expected in (
        (fifo, "not a regular file"),
        (compiler.folder, "not a regular file"),
        (Path("/dev/zero"), "not a regular file"),
        (sparse, "limit exceeded: vocabulary"),
    ):
        done = compiler.run(
            *("opt-22", "-load-pass-plugin", compiler.plugin, "-passes=phase-ordering"),
            *(*observing("ir2vec", path), f"-phase-ordering-serve=unix:{compiler.folder}/s"),
            *("-disable-output", module_of(compiler, "words.c")),
        )
        assert done.stderr.count("\n") == 1 and expected in done.stderr


def network(folder: Path, dimensions: int, **metadata: str) -> Path:
    """A model that takes the allowed action whose number in the embedding is largest."""
    inputs = [
        helper.make_tensor_value_info("embedding", TensorProto.FLOAT, [dimensions]),
        helper.make_tensor_value_info("action_mask", TensorProto.FLOAT, [CHOICES]),
    ]
    constants: dict[str, NDArray[Any]] = {
        "first": np.array([0], np.int64),
        "last": np.array([CHOICES], np.int64),
        "zero": np.array(0, np.float32),
        "never": np.array(-np.inf, np.float32),
    }
    nodes = [
        helper.make_node("Slice", ["embedding", "first", "last"], ["values"]),
        helper.make_node("Greater", ["action_mask", "zero"], ["allowed"]),
        helper.make_node("Where", ["allowed", "values", "never"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["action"], axis=0, keepdims=1),
    ]
    graph = helper.make_graph(
        nodes,
        "largest",
        inputs,
        [helper.make_tensor_value_info("action", TensorProto.INT64, [1])],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, {f"phase-ordering.{k}": v for k, v in metadata.items()})
    path = folder / "largest.onnx"
    onnx.save(model, path)
    return path


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_sees_in_the_compiler_what_a_driver_sees(
    compiler: Compiler, uri: str, kind: str
) -> None:
    stated = {"observation": KINDS[kind][1], "vocabulary": digest_of(SHIPPED)}
    model = network(compiler.folder, 300, **stated)
    objects, decided = [], []
    for scheme in ("onnx", "native"):
        made, said = compiler.object("words.c", "-Oz", model=f"{scheme}:{model}", record=scheme)
        assert said == ""
        objects.append(made)
        episode = compiler.episode(scheme)
        shown = [one["embedding"].tobytes() for one in episode.observations]
        decided.append((episode.stacked("action").ravel().tolist(), shown))
    assert objects[0] == objects[1] != compiler.plain("words.c", "-Oz")
    assert decided[0] == decided[1]
    with (
        environment(compiler, uri, module_of(compiler, "words.c"), *observing(kind)),
        mlbridge.drive(f"{uri}?wait=20s", deadline=60) as driver,
    ):
        observation, actions, seen = driver.reset(), [], []
        while not driver.done:
            seen.append(observation["embedding"].tobytes())
            allowed = observation["action_mask"] > 0
            scores = np.where(allowed, observation["embedding"][:CHOICES], -np.inf)
            actions.append(int(scores.argmax()))
            observation = driver.step(actions[-1]).observation
    assert decided[0] == (actions, seen) and len(actions) > 2


def test_an_input_alone_says_what_a_model_observes(compiler: Compiler) -> None:
    stated = {"observation": "ir2vec-flow-aware-1", "vocabulary": digest_of(SHIPPED)}
    expected = compiler.object("words.c", "-Oz", model=f"onnx:{network(compiler.folder, 300)}")
    assert expected[1] == ""
    model = network(compiler.folder, 300, **stated)
    assert compiler.object("words.c", "-Oz", model=f"onnx:{model}") == expected


def test_a_vocabulary_of_ones_own(compiler: Compiler, coarse: Path) -> None:
    made = sections(lambda: [random.Random(1).random() for _ in range(CHOICES)])
    own = compiler.folder / "own.json"
    own.write_text(json.dumps(made))
    stated = {"observation": "ir2vec-flow-aware-1", "vocabulary": digest_of(own)}
    model = f"native:{network(compiler.folder, CHOICES, **stated)}"
    made_with, said = compiler.object("words.c", "-Oz", model=model, vocabulary=own)
    assert said == "" and made_with != compiler.plain("words.c", "-Oz")
    check_falls_back(compiler, model, "mismatch", "the one in this plugin", digest_of(SHIPPED))
    check_falls_back(compiler, model, "mismatch", str(coarse), vocabulary=coarse)
    check_falls_back(compiler, model, "not found", "/nowhere.json", vocabulary="/nowhere.json")


@pytest.mark.parametrize(
    ("dimensions", "stated", "expected"),
    [
        (300, {"observation": "ir2vec-flow-aware-2"}, "the model wants 'ir2vec-flow-aware-2'"),
        (300, {"observation": "ir2vec"}, "the model wants 'ir2vec'"),
        (300, {"vocabulary": "0" * 64}, "the model wants '0000000000"),
        (300, {"observation": "phase-ordering-counts-1"}, "embedding"),
        (64, {}, "embedding"),
    ],
)
def test_a_model_of_another_observation(
    compiler: Compiler, dimensions: int, stated: dict[str, str], expected: str
) -> None:
    model = f"native:{network(compiler.folder, dimensions, **stated)}"
    check_falls_back(compiler, model, "mismatch", expected)


@ONLY_19
def test_embeddings_need_llvm_22(compiler: Compiler) -> None:
    model = f"native:{network(compiler.folder, 300, observation='ir2vec-symbolic-1')}"
    check_falls_back(compiler, model, "unsupported", "LLVM 19", "has no IR2Vec; LLVM 22 has")


def test_options_that_make_no_sense(compiler: Compiler) -> None:
    for options, expected in (
        (["-observation=ir2vec", "-model=function:stop"], "is for -phase-ordering-serve"),
        (["-observation=ir2vec-2", "-serve=unix:/x"], "expected counts, ir2vec or ir2vec-symbolic"),
    ):
        (compiler.folder / "a.ll").write_text("define void @f() {\n  ret void\n}\n")
        done = compiler.run(
            *("opt-22", "-load-pass-plugin", compiler.plugin, "-passes=phase-ordering"),
            *("-disable-output", "a.ll", *(f"-phase-ordering{option}" for option in options)),
            check=False,
        )
        assert done.returncode != 0 and expected in done.stderr
