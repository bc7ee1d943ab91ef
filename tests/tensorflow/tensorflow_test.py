# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A policy of TensorFlow in a compiler: compiled ahead of time, and converted to ONNX.

The compiler is examples/inlining, in C++ and in C, which asks either by the same source. TensorFlow
lies in build/tensorflow, in an environment of its own, and stays there; the first run takes some
minutes. All of it is left to `make nightly`; stand_in_test.py is what `make test` has instead.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
from building import ROOT, attempt, run
from once import SharedBuild

import mlbridge

PROJECT = ROOT / "examples" / "inlining"
POLICY = Path(__file__).with_name("policy.py")
FOLDER = ROOT / "build" / "tensorflow"
TOOL = ROOT / "cmake" / "tensorflow_aot.py"
CONVERTER = ("tf2onnx>=1.16,<1.18", "onnx>=1.16,<1.18", "flatbuffers")
TOLERANCE = 1e-5
CASE = dict[str, Any]

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="session")
def python() -> Path:
    return Path(run(sys.executable, TOOL, "--set-up", FOLDER).strip())


@pytest.fixture(scope="session")
def saved(python: Path, shared_build: SharedBuild) -> Path:
    """A folder with the SavedModel and cases.json; and with the policy as ONNX files: with
    Bucketize, in ONNX's own operators, and compiled by MLBridge."""
    packages = FOLDER / "tf2onnx"
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    converting = {**quiet, "PYTHONPATH": str(packages)}

    def make(folder: Path) -> None:
        run(python, POLICY, folder, env=quiet)
        if not (packages / "tf2onnx").is_dir():
            pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
            run(*pip, "--no-deps", "--target", packages, *CONVERTER)
        convert = (python, "-m", "tf2onnx.convert", "--saved-model", folder / "policy")
        for signature, more in (("action", ("--custom-ops", "Bucketize")), ("plain", ())):
            run(
                *(*convert, "--tag", "serve", "--signature_def", signature, "--opset", "17", *more),
                *("--output", folder / f"{signature}.onnx"),
                env=converting,
            )
        compiler = (sys.executable, "-m", "mlbridge", "aot")
        run(*compiler, folder / "plain.onnx", "--shared", "-o", folder / "plain.so")

    return shared_build("tensorflow-policy", make)


def test_the_saved_model_is_inspected(python: Path, saved: Path) -> None:
    """By TensorFlow's own classes, in its environment."""
    beside = Path(mlbridge.__file__).parents[1]
    script = (
        f"import json, sys; sys.path.append({str(beside)!r})\n"
        "from mlbridge.inspection import inspect\n"
        "print(json.dumps(inspect(sys.argv[1]).as_json()))"
    )
    found = json.loads(run(python, "-c", script, saved / "policy").splitlines()[-1])
    assert found["format"] == "TensorFlow SavedModel"
    assert found["signature"] in found["signatures"].values()
    assert all(" -> (" in text and ": float32[" in text for text in found["signatures"].values())
    assert found["operators"]["MatMul"] >= 1 and list(found["engines"]) == ["tfaot"]


@pytest.fixture(scope="session")
def cases(saved: Path) -> list[CASE]:
    found = json.loads((saved / "cases.json").read_text())
    assert len({case["action"] for case in found}) > 1
    return list(found)


def configure(build: Path, prefix: Path, saved: Path, *options: str) -> None:
    run(
        *("cmake", "-S", PROJECT, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}"),
        *(f"-DSAVED_MODEL={saved / 'policy'}", f"-DMLBRIDGE_TENSORFLOW_FOLDER={FOLDER}", *options),
        "-DCMAKE_CXX_FLAGS=-fno-exceptions -fno-rtti -Wall -Wextra -Werror",
    )


@pytest.fixture(scope="session")
def build(prefix: Path, saved: Path, shared_build: SharedBuild) -> Path:
    """Both programs, with the policy linked in by TensorFlow's compiler and by ours."""

    def make(folder: Path) -> None:
        command = Path(sys.executable).with_name("mlbridge")
        network = saved / "plain.onnx"
        options = (f"-DMLBRIDGE_COMMAND={command}", f"-DNETWORK={network}")
        configure(folder, prefix, saved, *options)
        run("cmake", "--build", folder)

    return shared_build("tensorflow", make)


@pytest.fixture
def module(tmp_path: Path, cases: list[CASE]) -> Path:
    """The calls that are compiled; the number of a line is the step."""
    assert [case["step"] for case in cases] == list(range(len(cases)))
    lines = [" ".join(map(repr, [0, *case["features"]])) for case in cases]
    path = tmp_path / "calls"
    path.write_text("\n".join(lines) + "\n")
    return path


ADVICES = ["leave", "inline", "inline early"]
ENGINES = {
    "tfaot": "tfaot:Advice_{language}",
    "aot": "aot:{folder}/plain.so",
    "aot, linked in": "aot:advice",
    "native": "native:{folder}/plain.onnx",
    "onnx": "onnx:{folder}/plain.onnx",
}


@pytest.mark.parametrize("language", ["cpp", "c"])
@pytest.mark.parametrize("engine", ENGINES)
def test_each_engine_advises_as_tensorflow(
    build: Path,
    saved: Path,
    module: Path,
    cases: list[CASE],
    language: str,
    engine: str,
) -> None:
    uri = ENGINES[engine].format(language=language, folder=saved)
    modules = [module] * 4  # in C++ each in its own thread
    runtime = str(Path(onnxruntime.__file__).parent / "capi")
    env = {"MLBRIDGE_ONNXRUNTIME": runtime, **os.environ}
    out = run(build / f"inlining-{language}", uri, *modules, env=env).splitlines()
    for line, case in zip(out, cases * len(modules), strict=True):
        advice, *logits = line.removeprefix("0: ").rsplit(" ", 3)
        assert advice == ADVICES[case["action"]]
        assert list(map(float, logits)) == pytest.approx(
            case["logits"], rel=TOLERANCE, abs=TOLERANCE
        )


def test_the_program_needs_nothing_of_tensorflow(build: Path, tmp_path: Path) -> None:
    libraries = run("ldd", build / "inlining-cpp")
    assert "tensorflow" not in libraries and "python" not in libraries
    run("strip", "-o", tmp_path / "stripped", build / "inlining-cpp")
    assert (tmp_path / "stripped").stat().st_size < 4_000_000


def test_the_second_build_does_nothing(build: Path) -> None:
    assert "no work to do" in run("cmake", "--build", build)


def test_what_is_not_linked_in_is_named(build: Path, module: Path) -> None:
    done = attempt(build / "inlining-cpp", "tfaot:Advice", module)
    assert "no model 'Advice' is linked into this program" in done.stderr
    assert "Advice_cpp" in done.stderr
    done = attempt(build / "inlining-cpp", "tfaot:Advice_cpp?threads=2", module)
    assert "no option threads" in done.stderr


@pytest.mark.parametrize(
    ("signature", "says"),
    [("batch", "XLA compiles fixed shapes only"), ("nothing", "it has action, batch, plain")],
)
def test_a_signature_that_cannot_be_compiled_fails_the_build(
    prefix: Path, saved: Path, tmp_path: Path, signature: str, says: str
) -> None:
    configure(tmp_path, prefix, saved, f"-DSIGNATURE={signature}")
    done = attempt("cmake", "--build", tmp_path)
    assert done.returncode
    assert says in done.stdout + done.stderr


def expect(uri: str, cases: list[CASE]) -> None:
    runner = mlbridge.open(uri)
    for case in cases:
        answer = runner.evaluate(features=[case["features"]], step=case["step"])
        assert int(answer["action"][0]) == case["action"]
        assert answer["logits"][0].tolist() == pytest.approx(
            case["logits"], rel=TOLERANCE, abs=TOLERANCE
        )


def test_a_converted_policy_runs_with_bucketize_from_a_library(
    saved: Path, cases: list[CASE]
) -> None:
    library = ROOT / "build" / "cmake" / "dev" / "examples" / "bucketize" / "libbucketize.so"
    expect(f"onnx:{saved / 'action.onnx'}?custom_ops={library}", cases)


@pytest.mark.parametrize("engine", ["onnx", "native"])
def test_a_converted_policy_in_plain_operators_runs_everywhere(
    saved: Path, cases: list[CASE], engine: str
) -> None:
    expect(f"{engine}:{saved / 'plain.onnx'}", cases)
