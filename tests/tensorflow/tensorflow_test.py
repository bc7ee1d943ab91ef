# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A policy of TensorFlow in a compiler: compiled ahead of time, and converted to ONNX.

The compiler is examples/inlining, in C++ and in C, which asks either by the same source. TensorFlow
lies in build/tensorflow, in an environment of its own, and stays there; the first run takes some
minutes. Left out, with the reason, where it cannot be installed. `make test` asks the policy as
TensorFlow's compiler makes it, in C++ and C; what takes TensorFlow's converter, or another of its
compiles, is left to `make nightly`.
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

import mlbridge

PROJECT = ROOT / "examples" / "inlining"
POLICY = Path(__file__).with_name("policy.py")
FOLDER = ROOT / "build" / "tensorflow"
TOOL = ROOT / "cmake" / "tensorflow_aot.py"
CONVERTER = ("tf2onnx>=1.16,<1.18", "onnx>=1.16,<1.18", "flatbuffers")
TOLERANCE = 1e-5
CASE = dict[str, Any]
LONG = "MLBRIDGE_LONG_TESTS" in os.environ


@pytest.fixture(scope="session")
def python() -> Path:
    done = attempt(sys.executable, TOOL, "--set-up", FOLDER)
    if done.returncode:
        pytest.skip(f"TensorFlow cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    return Path(done.stdout.strip())


@pytest.fixture(scope="session")
def saved(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the SavedModel and cases.json."""
    folder = tmp_path_factory.mktemp("policy")
    run(python, POLICY, folder, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"})
    return folder


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


@pytest.fixture(scope="session")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", ROOT / "build" / "cmake" / "dev", "--prefix", folder)
    return folder


def configure(build: Path, prefix: Path, saved: Path, *options: str) -> None:
    run(
        *("cmake", "-S", PROJECT, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}"),
        *(f"-DSAVED_MODEL={saved / 'policy'}", f"-DMLBRIDGE_TENSORFLOW_FOLDER={FOLDER}", *options),
        "-DCMAKE_CXX_FLAGS=-fno-exceptions -fno-rtti -Wall -Wextra -Werror",
    )


@pytest.fixture(scope="session")
def build(
    prefix: Path,
    saved: Path,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Both programs, with the policy linked in by TensorFlow's compiler; at night also by ours."""
    folder = tmp_path_factory.mktemp("build")
    options = [f"-DMLBRIDGE_COMMAND={Path(sys.executable).with_name('mlbridge')}"]
    if LONG:
        options.append(f"-DNETWORK={request.getfixturevalue('converted') / 'plain.onnx'}")
    configure(folder, prefix, saved, *options)
    run("cmake", "--build", folder)
    return folder


@pytest.fixture(scope="session")
def module(saved: Path, cases: list[CASE]) -> Path:
    """The calls that are compiled; the number of a line is the step."""
    assert [case["step"] for case in cases] == list(range(len(cases)))
    lines = [" ".join(map(repr, [0, *case["features"]])) for case in cases]
    path = saved / "calls"
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
@pytest.mark.parametrize(
    "engine", [pytest.param(e, marks=[] if e == "tfaot" else pytest.mark.nightly) for e in ENGINES]
)
def test_each_engine_advises_as_tensorflow(
    request: pytest.FixtureRequest,
    build: Path,
    saved: Path,
    module: Path,
    cases: list[CASE],
    language: str,
    engine: str,
) -> None:
    converted = saved if engine == "tfaot" else request.getfixturevalue("converted")
    shared = converted / "plain.so"
    if engine == "aot" and not shared.is_file():
        compiler = (sys.executable, "-m", "mlbridge", "compile")
        run(*compiler, converted / "plain.onnx", "--shared", "-o", shared)
    uri = ENGINES[engine].format(language=language, folder=converted)
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


@pytest.mark.nightly
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


@pytest.fixture(scope="session")
def converted(python: Path, saved: Path) -> Path:
    """The policy as ONNX files: with Bucketize, and in ONNX's own operators."""
    packages = FOLDER / "tf2onnx"
    if not (packages / "tf2onnx").is_dir():
        pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*pip, "--no-deps", "--target", packages, *CONVERTER)
    env = {**os.environ, "PYTHONPATH": str(packages), "TF_CPP_MIN_LOG_LEVEL": "3"}
    for signature, more in (("action", ("--custom-ops", "Bucketize")), ("plain", ())):
        run(
            *(python, "-m", "tf2onnx.convert", "--saved-model", saved / "policy", "--tag", "serve"),
            *("--signature_def", signature, "--opset", "17", *more),
            *("--output", saved / f"{signature}.onnx"),
            env=env,
        )
    return saved


def expect(uri: str, cases: list[CASE]) -> None:
    runner = mlbridge.open(uri)
    for case in cases:
        answer = runner.evaluate(features=[case["features"]], step=case["step"])
        assert int(answer["action"][0]) == case["action"]
        assert answer["logits"][0].tolist() == pytest.approx(
            case["logits"], rel=TOLERANCE, abs=TOLERANCE
        )


@pytest.mark.nightly
def test_a_converted_policy_runs_with_bucketize_from_a_library(
    converted: Path, cases: list[CASE]
) -> None:
    library = ROOT / "build" / "cmake" / "dev" / "examples" / "bucketize" / "libbucketize.so"
    expect(f"onnx:{converted / 'action.onnx'}?custom_ops={library}", cases)


@pytest.mark.nightly
@pytest.mark.parametrize("engine", ["onnx", "native"])
def test_a_converted_policy_in_plain_operators_runs_everywhere(
    converted: Path, cases: list[CASE], engine: str
) -> None:
    expect(f"{engine}:{converted / 'plain.onnx'}", cases)
