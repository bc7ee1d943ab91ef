# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A project outside the tree finds, builds against and runs an installed, moved MLBridge."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from building import run
from common import version
from consuming import CONSUMER, ask, configure
from once import SharedBuild
from sampling import NIGHTLY


@pytest.fixture(scope="session")
def consumer(prefix: Path, shared_build: SharedBuild) -> tuple[Path, str]:
    """Where it is built, and what CMake said."""

    def make(folder: Path) -> None:
        shutil.copytree(CONSUMER, folder / "source")
        configure = ("cmake", "-G", "Ninja", "-S", folder / "source", "-B", folder / "build")
        said = run(*configure, f"-DCMAKE_PREFIX_PATH={prefix}")
        (folder / "said").write_text(said)
        run("cmake", "--build", folder / "build")

    folder = shared_build("consumer", make)
    return folder / "build", (folder / "said").read_text()


@pytest.mark.parametrize("name", ["ask", "ask-without-exceptions"])
def test_a_function_is_asked(consumer: tuple[Path, str], name: str) -> None:
    assert ask(consumer[0] / name, "function:sum") == ("7", "")


@pytest.mark.parametrize("name", ["ask", "ask-without-exceptions"])
def test_without_a_server_the_heuristic_answers(consumer: tuple[Path, str], name: str) -> None:
    socket = consumer[0] / "nobody.sock"
    answer, why = ask(consumer[0] / name, f"unix:{socket}")
    assert answer == "-1"
    assert str(socket) in why


def test_components_are_found_in_the_moved_prefix(consumer: tuple[Path, str], prefix: Path) -> None:
    for part in ("json", "protobuf", "grpc", "onnx"):
        (line,) = [s for s in consumer[1].splitlines() if f"component {part}:" in s]
        file = Path(line.split(": ", 1)[1])
        assert file.is_file() and file.is_relative_to(prefix)


@pytest.mark.parametrize("uri", ["unix:/nowhere/s?serdes=json", "onnx:/nowhere/p.onnx"])
def test_a_program_opens_the_components_of_the_moved_prefix(
    consumer: tuple[Path, str], uri: str
) -> None:
    answer, why = ask(consumer[0] / "ask", uri)
    assert answer == "-1" and "component" not in why
    assert "/nowhere" in why or "onnxruntime" in why.lower()


def test_an_unknown_component_is_refused_by_name(prefix: Path, tmp_path: Path) -> None:
    done = configure(prefix, tmp_path, "find_package(MLBridge 0.2 REQUIRED COMPONENTS onxx)")
    assert done.returncode != 0
    assert "'onxx'" in done.stderr and "phase-ordering" in done.stderr


def test_a_missing_component_says_what_it_needs(prefix: Path, tmp_path: Path) -> None:
    smaller = tmp_path / "prefix"
    shutil.copytree(prefix, smaller)
    (component,) = smaller.rglob("libmlbridge-engine-onnx.so")
    component.unlink()
    project = tmp_path / "project"
    project.mkdir()
    done = configure(smaller, project, "find_package(MLBridge REQUIRED COMPONENTS core onnx)")
    assert done.returncode != 0
    assert "'onnx' is not installed" in done.stderr and "MLBRIDGE_ONNX=ON" in done.stderr
    done = configure(
        smaller, project, "find_package(MLBridge REQUIRED COMPONENTS core OPTIONAL_COMPONENTS onnx)"
    )
    assert done.returncode == 0, done.stderr


def test_another_version_is_refused(prefix: Path, tmp_path: Path) -> None:
    done = configure(prefix, tmp_path, "find_package(MLBridge 0.1 REQUIRED)")
    assert done.returncode != 0
    assert f"version: {version()}" in done.stderr


def compile_headers(prefix: Path, source: Path, headers: list[Path]) -> None:
    """Without exceptions and RTTI, each twice."""
    source.write_text("".join(f'#include "{h}"\n#include "{h}"\n' for h in headers))
    options = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    run("g++", *options, "-fno-exceptions", "-fno-rtti", f"-I{prefix}/include", source)


def headers_of(prefix: Path) -> list[Path]:
    headers = sorted((prefix / "include" / "mlbridge").rglob("*.h"))
    headers.remove(prefix / "include" / "mlbridge" / "llvm_model_runner.h")  # needs LLVM's
    assert headers
    return headers


def test_headers_need_no_order(prefix: Path, tmp_path: Path) -> None:
    headers = headers_of(prefix)
    for order in (headers, headers[::-1]):
        compile_headers(prefix, tmp_path / "all.cpp", order)


@NIGHTLY
def test_headers_alone_are_complete(prefix: Path, tmp_path: Path) -> None:
    for header in headers_of(prefix):
        compile_headers(prefix, tmp_path / "all.cpp", [header])


def test_the_component_table_is_c(prefix: Path, tmp_path: Path) -> None:
    source = tmp_path / "c.c"
    source.write_text("#include <mlbridge/component.h>\nint main(void) { return 0; }\n")
    options = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]
    run("gcc", *options, f"-I{prefix}/include", source)
