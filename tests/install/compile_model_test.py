# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mlbridge_compile_model in a user's project: its flags, its target, its dependencies."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from building import run
from onnx import TensorProto, helper, numpy_helper

import mlbridge

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C CXX)
set(MLBRIDGE_COMMAND "@COMMAND@")
if(CMAKE_CROSSCOMPILING)
  include("@PREFIX@/lib/cmake/MLBridge/MLBridgeCompileModel.cmake")
else()
  find_package(MLBridge 0.2 REQUIRED COMPONENTS core)
  add_executable(pass pass.cpp)
  target_link_libraries(pass PRIVATE MLBridge::core)
  set(into INTO pass)
endif()
mlbridge_compile_model(policy policy.onnx ${into} DIM batch=1)
mlbridge_compile_model(other other.onnx ${into} DIM batch=1 ISA portable)
add_executable(ask ask.c)
target_link_libraries(ask PRIVATE policy)
"""
ASK = """
#include "policy.h"
#include <stdio.h>

int main(void) {
  policy *p = policy_create();
  if (!p)
    return 1;
  for (int i = 0; i < POLICY_INPUT_X_SIZE; ++i)
    policy_input_x(p)[i] = 0.37f * (float)(i % 7 - 3);
  if (policy_run(p))
    return 2;
  for (int i = 0; i < POLICY_OUTPUT_Y_SIZE; ++i)
    printf("%a\\n", (double)policy_output_y(p)[i]);
  policy_destroy(p);
  return 0;
}
"""
PASS = """
#include <mlbridge/model.h>

#include <cstdio>

int main() {
  for (const char *uri : {"aot:policy", "aot:other", "aot:polisy"}) {
    const mlbridge::Model model = mlbridge::Model::open(uri);
    std::printf("%s: %s\\n", uri, model.status() ? "open" : model.status().toString().c_str());
  }
}
"""
TOOLCHAIN = """
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
"""
WARNINGS = "-Wall -Wextra -Wconversion -Werror"


def save(path: Path, seed: int) -> None:
    """Products, activations and a softmax; the first matrix in a file of its own."""
    source = np.random.default_rng(seed)
    first = numpy_helper.from_array(source.standard_normal((21, 37)).astype(np.float32), "first")
    second = numpy_helper.from_array(source.standard_normal((37, 9)).astype(np.float32), "second")
    first_file = path.with_suffix(".data")
    first_file.write_bytes(first.raw_data)
    first.ClearField("raw_data")
    first.data_location = TensorProto.EXTERNAL
    first.external_data.add(key="location", value=first_file.name)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "first"], ["h"]),
            helper.make_node("Tanh", ["h"], ["a"]),
            helper.make_node("MatMul", ["a", "second"], ["scores"]),
            helper.make_node("Sigmoid", ["scores"], ["gates"]),
            helper.make_node("Mul", ["scores", "gates"], ["gated"]),
            helper.make_node("LayerNormalization", ["gated", "scale"], ["even"]),
            helper.make_node("Softmax", ["even"], ["y"]),
        ],
        path.stem,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 21])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 9])],
        [first, second, numpy_helper.from_array(np.linspace(0.5, 2, 9, dtype=np.float32), "scale")],
    )
    opset = [helper.make_opsetid("", 17)]
    path.write_bytes(
        helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    )


@pytest.fixture
def project(prefix: Path, tmp_path: Path) -> Path:
    command = str(Path(sys.executable).with_name("mlbridge"))
    text = PROJECT.replace("@COMMAND@", command).replace("@PREFIX@", str(prefix))
    (tmp_path / "CMakeLists.txt").write_text(text)
    for name, contents in (("ask.c", ASK), ("pass.cpp", PASS), ("aarch64.cmake", TOOLCHAIN)):
        (tmp_path / name).write_text(contents)
    save(tmp_path / "policy.onnx", 1)
    save(tmp_path / "other.onnx", 2)
    return tmp_path


def build(project: Path, prefix: Path, *options: str, target: str = "all") -> Path:
    folder = project / "build"
    run(
        *("cmake", "-G", "Ninja", "-S", project, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}"),
        *(f"-DCMAKE_C_FLAGS={WARNINGS}", *options),
    )
    run("cmake", "--build", folder, "--target", target)
    return folder


def answers(*command: str | Path, **env: str) -> list[float]:
    """What ask prints."""
    return [float.fromhex(line) for line in run(*command, env=os.environ | env).split()]


def expected(project: Path) -> list[float]:
    """The answers of the native engine, which has the same bits everywhere."""
    asked = np.float32(0.37) * (np.arange(21) % 7 - 3).astype(np.float32)
    answer = mlbridge.open(f"native:{project}/policy.onnx").evaluate(x=asked.reshape(1, -1))
    return [float(y) for y in answer["y"].ravel()]


def test_the_users_build_compiles_the_network(project: Path, prefix: Path) -> None:
    build_type = "-DCMAKE_BUILD_TYPE=RelWithDebInfo"
    lto = "-DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON"
    folder = build(
        project, prefix, build_type, lto, f"-DCMAKE_CXX_FLAGS={WARNINGS} -Ofast -fno-rtti"
    )
    assert answers(folder / "ask") == expected(project)
    opened = run(folder / "pass").splitlines()
    assert opened[:2] == ["aot:policy: open", "aot:other: open"]
    assert "did you mean 'policy'" in opened[2]
    # Debug information with lines of the generated source, and nothing that runs before main.
    for file in folder.glob("CMakeFiles/p*.dir/**/*p*.o"):
        sections = run("readelf", "-SW", file)
        assert not re.search(r"\.(init_array|ctors)", sections), file
    assert "policy.cpp" in run("readelf", "--debug-dump=decodedline", folder / "ask")


def test_it_is_built_again_when_the_model_or_its_weights_change(
    project: Path, prefix: Path
) -> None:
    folder = build(project, prefix, target="ask")
    assert "no work to do" in run("ninja", "-C", folder, "ask")
    before = answers(folder / "ask")
    assert before == expected(project)
    weights = project / "policy.data"
    weights.write_bytes(bytes(len(weights.read_bytes())))
    run("ninja", "-C", folder, "ask")
    assert answers(folder / "ask") == expected(project) != before
    assert "no work to do" in run("ninja", "-C", folder, "ask")
    save(project / "policy.onnx", 3)
    weights.touch()
    assert "no work to do" not in run("ninja", "-C", folder, "-n", "ask")


@pytest.mark.nightly
def test_another_compiler_without_optimization_gives_the_same_bits(
    project: Path, prefix: Path
) -> None:
    clang = "-DCMAKE_CXX_COMPILER=clang++-22", "-DCMAKE_BUILD_TYPE=Debug"
    assert answers(build(project, prefix, *clang) / "ask") == expected(project)


def test_for_another_machine_with_the_users_toolchain_file(project: Path, prefix: Path) -> None:
    toolchain = f"-DCMAKE_TOOLCHAIN_FILE={project}/aarch64.cmake"
    there = build(project, prefix, toolchain, target="ask") / "ask"
    assert "AArch64" in run("readelf", "-h", there)
    for isa in ("neon", "portable"):
        emulated = ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", there)
        assert answers(*emulated, MLBRIDGE_NATIVE_ISA=isa) == expected(project)
