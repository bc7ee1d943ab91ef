# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The example gives the same advice with each engine, in C++ and C; tests/tensorflow adds tfaot."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from beyond_llvm import ENVIRONMENT
from building import attempt, run
from once import SharedBuild
from onnx import TensorProto, helper, numpy_helper

import mlbridge

FEATURES, HIDDEN, ACTIONS = 6, 24, 3
ADVICES = ["leave", "inline", "inline early"]


def save_network(path: Path) -> None:
    chance = np.random.default_rng(3)
    weights = {
        "first": chance.standard_normal((FEATURES, HIDDEN)),
        "second": chance.standard_normal((HIDDEN, ACTIONS)),
        "slope": np.array([0, 0.1, 0.2]),
    }
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["features", "first"], ["sums"]),
            helper.make_node("Tanh", ["sums"], ["hidden"]),
            helper.make_node("MatMul", ["hidden", "second"], ["scores"]),
            helper.make_node("Cast", ["step"], ["number"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["number", "slope"], ["later"]),
            helper.make_node("Add", ["scores", "later"], ["logits"]),
            helper.make_node("ArgMax", ["logits"], ["action"], axis=1, keepdims=0),
        ],
        "inlining",
        [
            helper.make_tensor_value_info("features", TensorProto.FLOAT, [1, FEATURES]),
            helper.make_tensor_value_info("step", TensorProto.INT64, []),
        ],
        [
            helper.make_tensor_value_info("action", TensorProto.INT64, [1]),
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, ACTIONS]),
        ],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)


@pytest.fixture(scope="session")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty calls."""
    chance = np.random.default_rng(4)
    path = tmp_path_factory.mktemp("module") / "calls"
    lines = [
        f"f{i} " + " ".join(map(repr, map(float, chance.normal(0, 2, FEATURES).astype(np.float32))))
        for i in range(40)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def build(prefix: Path, shared_build: SharedBuild) -> Path:
    """The programs, with the network linked in; and the network, also compiled."""

    def make(folder: Path) -> None:
        network, shared = folder / "advice.onnx", folder / "advice.so"
        save_network(network)
        flags = "-Wall -Wextra -Werror"
        run(
            *("cmake", "-S", Path(__file__).parent, "-B", folder, "-G", "Ninja"),
            *(f"-DCMAKE_PREFIX_PATH={prefix}", f"-DNETWORK={network}", f"-DCMAKE_C_FLAGS={flags}"),
            f"-DCMAKE_CXX_FLAGS={flags} -fno-exceptions -fno-rtti",
            f"-DMLBRIDGE_COMMAND={Path(sys.executable).with_name('mlbridge')}",
        )
        run("cmake", "--build", folder)
        run(sys.executable, "-m", "mlbridge", "aot", network, "--shared", "-o", shared)

    return shared_build("inlining", make)


@pytest.fixture(scope="session")
def network(build: Path) -> Path:
    return build / "advice.onnx"


@pytest.fixture(scope="session")
def uris(network: Path) -> dict[str, str]:
    return {
        "onnx": f"onnx:{network}",
        "native": f"native:{network}",
        "aot": f"aot:{network.with_suffix('.so')}",
        "aot, linked in": "aot:advice",
    }


def expected(network: Path, module: Path) -> list[tuple[str, str, list[float]]]:
    runner = mlbridge.open(f"native:{network}")
    found = []
    for step, line in enumerate(module.read_text().splitlines()):
        name, *features = line.split()
        answer = runner.evaluate(features=[list(map(float, features))], step=step)
        found.append((name, ADVICES[int(answer["action"][0])], answer["logits"][0].tolist()))
    return found


@pytest.mark.parametrize("language", ["cpp", "c"])
@pytest.mark.parametrize("engine", ["onnx", "native", "aot", "aot, linked in"])
def test_the_option_alone_chooses_the_engine(
    build: Path, network: Path, module: Path, uris: dict[str, str], language: str, engine: str
) -> None:
    modules = [module] * 3
    done = attempt(build / f"inlining-{language}", uris[engine], *modules, env=ENVIRONMENT)
    assert (done.returncode, done.stderr) == (0, "")
    wanted = expected(network, module) * 3
    assert len({advice for _, advice, _ in wanted}) == len(ADVICES)
    for line, (name, advice, logits) in zip(done.stdout.splitlines(), wanted, strict=True):
        head, *rest = line.split(": ", 1)[1].rsplit(" ", ACTIONS)
        assert line.startswith(f"{name}: ") and head == advice
        assert list(map(float, rest)) == pytest.approx(logits, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("language", ["cpp", "c"])
def test_without_a_model_the_heuristic_decides(build: Path, module: Path, language: str) -> None:
    for uri, says in (("aot:advise", "did you mean 'advice'"), ("native:/no.onnx", "/no.onnx")):
        done = attempt(build / f"inlining-{language}", uri, module, env=ENVIRONMENT)
        assert done.returncode == 0 and says in done.stderr
        lines = done.stdout.splitlines()
        assert lines == [f"{x.split()[0]}: inline" for x in module.read_text().splitlines()]
