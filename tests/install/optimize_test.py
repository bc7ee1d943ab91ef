# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mlbridge_optimize in a user's CMake project, with nothing but the Python package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from building import run

from mlbridge.elf import file_executable_bytes

PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(user LANGUAGES C CXX ASM)
set(CMAKE_C_FLAGS_MINSIZEREL -Oz)
set(CMAKE_CXX_FLAGS_MINSIZEREL -Oz)
execute_process(COMMAND @COMMAND@ path cmake OUTPUT_VARIABLE file OUTPUT_STRIP_TRAILING_WHITESPACE)
set(MLBRIDGE_COMMAND @COMMAND@)
include(${file})
add_library(parts STATIC parts.c five.S)
add_executable(program main.cpp)
target_link_libraries(program PRIVATE parts)
add_library(plain_parts STATIC parts.c five.S)
add_executable(plain main.cpp)
target_link_libraries(plain PRIVATE plain_parts)
mlbridge_optimize(program parts @MORE@)
"""
MAIN = """
#include <cstdio>
extern "C" int sum(const int *, int);
extern "C" int product(const int *, int);
extern "C" int five();
int main() {
  const int some[] = {1, 2, 3, 4};
  std::printf("%d %d %d\\n", sum(some, 4), product(some, 4), five());
}
"""
PARTS = """
int sum(const int *values, int count) {
  int total = 0;
  for (int i = 0; i < count; ++i)
    total += values[i];
  return total;
}
int product(const int *values, int count) {
  int total = 1;
  for (int i = 0; i < count; ++i)
    total *= values[i];
  return total;
}
"""
FIVE = '.globl five\nfive:\nmov $5, %eax\nret\n.section .note.GNU-stack,"",@progbits\n'


def configure(folder: Path, more: str, compiler: str = "clang-22") -> list[str]:
    command = str(Path(sys.executable).with_name("mlbridge"))
    text = PROJECT.replace("@COMMAND@", command).replace("@MORE@", more)
    (folder / "CMakeLists.txt").write_text(text)
    (folder / "main.cpp").write_text(MAIN)
    (folder / "parts.c").write_text(PARTS)
    (folder / "five.S").write_text(FIVE)
    cxx = compiler.replace("clang-", "clang++-").replace("gcc-", "g++-")
    compilers = [f"-DCMAKE_C_COMPILER={compiler}", f"-DCMAKE_CXX_COMPILER={cxx}"]
    return ["cmake", "-S", ".", "-B", "out", "-DCMAKE_BUILD_TYPE=MinSizeRel", *compilers]


@pytest.mark.parametrize("more", ["", "LTO thin EFFORT 2"])
def test_targets_are_compiled_and_linked_for_size(tmp_path: Path, more: str) -> None:
    run(*configure(tmp_path, more), cwd=tmp_path)
    run("cmake", "--build", "out", cwd=tmp_path)
    built = [tmp_path / "out" / name for name in ("program", "plain")]
    outputs = [run(str(path), cwd=tmp_path) for path in built]
    assert outputs[0] == outputs[1]
    smaller, plain = map(file_executable_bytes, built)
    assert smaller < plain


@pytest.mark.parametrize(
    ("more", "compiler", "said"),
    [
        ("EFFORT many", "clang-22", "expected 0 to 100"),
        ("EFFORT", "clang-22", "expected a value after EFFORT"),
        ("OPTIMIZATIONS largest", "clang-22", "there is no optimization 'largest'"),
        ("", "gcc-12", "expected clang 22, got"),
    ],
)
def test_what_is_wrong_is_an_error_when_configuring(
    tmp_path: Path, more: str, compiler: str, said: str
) -> None:
    with pytest.raises(AssertionError, match=said):
        run(*configure(tmp_path, more, compiler), cwd=tmp_path)


def test_a_static_library_alone_is_linked_by_what_can_read_it(tmp_path: Path) -> None:
    configuring = configure(tmp_path, "")
    text = (tmp_path / "CMakeLists.txt").read_text()
    alone = text.replace("mlbridge_optimize(program parts", "mlbridge_optimize(parts")
    (tmp_path / "CMakeLists.txt").write_text(alone)
    run(*configuring, cwd=tmp_path)
    run("cmake", "--build", "out", cwd=tmp_path)
    assert run(str(tmp_path / "out/program"), cwd=tmp_path) == "10 24 5\n"


@pytest.mark.parametrize("level", ["-O2", "-Oz"])
def test_a_level_at_which_nothing_happens_is_said(tmp_path: Path, level: str) -> None:
    configuring = configure(tmp_path, "")
    text = (tmp_path / "CMakeLists.txt").read_text().replace("-Oz", level)
    (tmp_path / "CMakeLists.txt").write_text(text)
    done = subprocess.run(configuring, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ("no -Oz or -Os was seen for program" in done.stderr) == (level == "-O2")
