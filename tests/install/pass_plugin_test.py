# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The example of a pass plugin: built outside the tree, loaded by stock tools, keeps to itself."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from building import ROOT, run
from once import SharedBuild
from sampling import nightly

MODULE = """
define i32 @flat(i32 %x) {
  ret i32 %x
}
define void @loop(i32 %n) {
entry:
  br label %body
body:
  %i = phi i32 [ 0, %entry ], [ %next, %body ]
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %body, label %exit
exit:
  ret void
}
"""


@pytest.fixture(scope="session", params=["g++", nightly("clang++-22")])
def plugin(prefix: Path, request: pytest.FixtureRequest, shared_build: SharedBuild) -> Path:
    def make(folder: Path) -> None:
        options = [f"-DCMAKE_PREFIX_PATH={prefix};/usr/lib/llvm-22", "-DCMAKE_BUILD_TYPE=Debug"]
        options.append(f"-DCMAKE_CXX_COMPILER={request.param}")
        options.append("-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
        run("cmake", "-G", "Ninja", "-S", ROOT / "examples/pass-plugin", "-B", folder, *options)
        run("cmake", "--build", folder)

    return shared_build(f"pass-plugin-{request.param}", make) / "ask-size.so"


def for_size(plugin: Path, *options: str) -> tuple[set[str], str]:
    """The functions that are compiled for size then, and what the compiler said."""
    env = {k: v for k, v in os.environ.items() if k != "MLBRIDGE_COMPONENT_PATH"}
    command = ["opt-22", f"-load-pass-plugin={plugin}", "-passes=ask-size", "-S", "-o", "-"]
    done = subprocess.run(
        [*command, *options], input=MODULE, capture_output=True, text=True, timeout=120, env=env
    )
    assert done.returncode == 0, done.stderr
    groups = dict(re.findall(r"^attributes (#\d+) = \{(.*)\}", done.stdout, re.MULTILINE))
    found = re.findall(r"^define .*@(\w+)\(.*?\) ?(#\d+)?", done.stdout, re.MULTILINE)
    return {name for name, group in found if "optsize" in groups.get(group, "")}, done.stderr


def test_the_heuristic_decides_without_a_model(plugin: Path) -> None:
    assert for_size(plugin) == ({"flat"}, "")


def test_a_model_that_fails_costs_a_warning(plugin: Path, tmp_path: Path) -> None:
    socket = tmp_path / "nobody.sock"
    names, said = for_size(plugin, f"-ask-size-model=unix:{socket}")
    assert names == {"flat"}
    assert "ask-size" in said and str(socket) in said


def test_the_plugin_exports_nothing_of_the_library(plugin: Path) -> None:
    symbols = run("nm", "-DC", "--defined-only", plugin).splitlines()
    assert any("llvmGetPassPluginInfo" in s for s in symbols)
    assert not [s for s in symbols if "mlbridge" in s]


def test_other_targets_keep_their_own_visibility(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "api.cpp").write_text("#include <mlbridge/model.h>\nint api() { return 1; }\n")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES C CXX)\n"
        "find_package(MLBridge REQUIRED)\n"
        "add_library(shared SHARED api.cpp)\nadd_library(own MODULE api.cpp)\n"
        "set_target_properties(own PROPERTIES CXX_VISIBILITY_PRESET default)\n"
        "foreach(t shared own)\n target_link_libraries(${t} MLBridge::core)\nendforeach()\n"
    )
    build = tmp_path / "build"
    run("cmake", "-G", "Ninja", "-S", tmp_path, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", build)
    for library in ("libshared.so", "libown.so"):
        assert "T api()" in run("nm", "-DC", "--defined-only", build / library)
