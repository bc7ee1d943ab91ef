# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A program links the schemes and options that its target names; errors of others say how to link
them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from building import run
from consuming import CONSUMER, ask
from once import SharedBuild

URIS = {
    "native": "native:/nowhere.onnx",
    "aot": "aot:/nowhere.so",
    "unix": "unix:/nowhere/s",
    "shm": "shm:/nowhere/s",
    "pipe": "pipe:/nowhere/s",
    "components": "onnx:/nowhere.onnx",
}
OPTIONS = {
    "choose": "choose=nowhere",
    "record": "record=/dev/null/nowhere",
    "reload": "reload=nowhere",
    "rename": "rename=nowhere",
}
CLIENT = {"unix", "shm", "pipe", "components"}
ALL = {*URIS, *OPTIONS}
TARGETS = {"base": set(), "client": CLIENT, "options": set(OPTIONS), "core": ALL, "all": ALL}
TARGETS |= {name: {name} for name in (*URIS, *OPTIONS)}
PROJECT = """
cmake_minimum_required(VERSION 3.16)
project(schemes LANGUAGES CXX)
find_package(MLBridge 0.2 REQUIRED COMPONENTS @TARGETS@)
foreach(target @TARGETS@)
  add_library(asking-${target} STATIC ask.cpp)
  target_link_libraries(asking-${target} PRIVATE MLBridge::${target})
  add_executable(ask-${target} empty.cpp)
  target_link_libraries(ask-${target} PRIVATE asking-${target})
endforeach()
"""


@pytest.fixture(scope="session")
def programs(prefix: Path, shared_build: SharedBuild) -> Path:
    """For each target, a program that links it through a static library of its own."""

    def make(folder: Path) -> None:
        shutil.copy(CONSUMER / "ask.cpp", folder)
        (folder / "empty.cpp").write_text("")
        project = PROJECT.replace("@TARGETS@", " ".join(TARGETS))
        (folder / "CMakeLists.txt").write_text(project)
        build = folder / "build"
        run("cmake", "-G", "Ninja", "-S", folder, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
        run("cmake", "--build", build)

    return shared_build("schemes", make) / "build"


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_links_what_it_names(programs: Path, target: str) -> None:
    program = programs / f"ask-{target}"
    assert ask(program, "function:sum") == ("7", "")
    for scheme, uri in URIS.items():
        answer, why = ask(program, uri)
        assert answer == "-1"
        if scheme in TARGETS[target]:
            assert "not linked" not in why and "/nowhere" in why
        else:
            assert f"the scheme '{uri.split(':')[0]}' is not linked into this program" in why
            assert f"link MLBridge::{scheme}" in why and f"mlbridge-{scheme} or mlbridge" in why
    for option, text in OPTIONS.items():
        answer, why = ask(program, f"function:sum?{text}" if option != "reload" else f"own:?{text}")
        assert answer == "-1"
        if option in TARGETS[target]:
            assert "not linked" not in why and "nowhere" in why
        else:
            assert f"the option '{option}' is not linked into this program" in why
            assert f"link MLBridge::{option}" in why and f"mlbridge-{option} or mlbridge" in why
    if "unix" in TARGETS[target]:
        _, why = ask(program, "unix:/nowhere/s?serdes=json")
        is_linked = "components" in TARGETS[target]
        assert ("the serializer 'json' is not linked" in why) != is_linked


def test_a_misspelt_scheme_is_held_against_those_that_are_linked(programs: Path) -> None:
    assert "did you mean 'native'" in ask(programs / "ask-core", "nativ:x")[1]
    assert "did you mean" not in ask(programs / "ask-base", "nativ:x")[1]
