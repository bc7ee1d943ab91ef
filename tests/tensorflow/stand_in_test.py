# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""MLBridge's side of a policy that TensorFlow compiles: CMake's function, its tool, the engine that
the tool writes, and the program that asks. In TensorFlow's place stands stand_in.py;
tensorflow_test.py, of `make nightly`, has TensorFlow itself."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest
import stand_in
from building import ROOT, attempt, run
from once import SharedBuild

sys.path.insert(0, str(ROOT / "cmake"))

import tensorflow_aot

ADVICES = ["leave", "inline", "inline early"]
CALLS: list[list[float]] = [
    [1, 2, 0, 0, 0, 0],
    [0, 0, 0.5, 0.25, 0, 0],
    [0, 0, 0, 0, -1, 8],
    [3, 0, 0, 4, 0, 0],
]


@pytest.fixture(scope="session")
def program(prefix: Path, shared_build: SharedBuild) -> Path:
    """The example in C++ with a model that is linked in."""

    def make(folder: Path) -> None:
        tensorflow, saved = folder / "tensorflow", folder / "saved"
        stand_in.install(tensorflow, tensorflow_aot.PACKAGE, tensorflow_aot.BASE)
        saved.mkdir()
        (saved / "saved_model.pb").touch()
        run(
            *("cmake", "-S", ROOT / "examples/inlining", "-B", folder / "build", "-G", "Ninja"),
            *(f"-DCMAKE_PREFIX_PATH={prefix}", f"-DSAVED_MODEL={saved}"),
            f"-DMLBRIDGE_TENSORFLOW_FOLDER={tensorflow}",
            "-DCMAKE_CXX_FLAGS=-fno-exceptions -fno-rtti -Wall -Wextra -Werror",
        )
        run("cmake", "--build", folder / "build", "--target", "inlining-cpp")

    return shared_build("tensorflow-stand-in", make) / "build" / "inlining-cpp"


def test_it_advises_as_the_linked_model_says(program: Path, tmp_path: Path) -> None:
    module = tmp_path / "calls"
    module.write_text("".join(f"f {' '.join(map(str, features))}\n" for features in CALLS))
    lines = run(program, "tfaot:Advice_cpp", module).splitlines()
    for step, (line, features) in enumerate(zip(lines, CALLS, strict=True)):
        logits = [sum(features[at : at + 2]) + step for at in (0, 2, 4)]
        advice, *numbers = line.removeprefix("f: ").rsplit(" ", 3)
        assert advice == ADVICES[logits.index(max(logits))]
        assert list(map(float, numbers)) == logits


def test_the_second_build_does_nothing(program: Path) -> None:
    again = run("cmake", "--build", program.parent, "--target", "inlining-cpp")
    assert "no work to do" in again


def test_what_is_not_linked_in_is_named(program: Path, tmp_path: Path) -> None:
    (tmp_path / "calls").write_text("f 0 0 0 0 0 0\n")
    done = attempt(program, "tfaot:Advice", tmp_path / "calls")
    assert "no model 'Advice' is linked into this program" in done.stderr
    assert "Advice_cpp" in done.stderr
    done = attempt(program, "tfaot:Advice_cpp?threads=2", tmp_path / "calls")
    assert "no option threads" in done.stderr


def test_what_cannot_be_compiled_is_refused() -> None:
    options = argparse.Namespace(saved_model="policy")
    tensorflow_aot.check([("x", "DT_FLOAT", [1, 6])], "input", options)
    with pytest.raises(SystemExit, match="XLA compiles fixed shapes only"):
        tensorflow_aot.check([("x", "DT_FLOAT", [-1, 6])], "input", options)
    with pytest.raises(SystemExit, match="elements of DT_STRING"):
        tensorflow_aot.check([("x", "DT_STRING", [1])], "input", options)
