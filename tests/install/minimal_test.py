# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An installation with every optional part off, and installations found by pkg-config."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from building import DEV, ROOT, run
from common import version
from consuming import CONSUMER, ask, configure
from once import SharedBuild

BUILD = ROOT / "build" / "cmake" / "minimal"
PARTS = ("JSON", "PROTOBUF", "GRPC", "ONNX", "LLVM", "MLIR", "GCC", "NATIVE", "COMPAT")
C = """
#include <mlbridge/c/model.h>
#include <stdio.h>
int main(void) {
  mlbridge_model *model = mlbridge_model_open("unix:/nowhere/s", NULL);
  puts(mlbridge_model_code(model) ? "closed" : "open");
  mlbridge_model_close(model);
  return 0;
}
"""


def configure_minimal(folder: Path) -> None:
    off = [f"-DMLBRIDGE_{part}=OFF" for part in PARTS]
    off += ["-DMLBRIDGE_BUILD_TESTS=OFF", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0"]
    run("cmake", "-G", "Ninja", "-S", ROOT, "-B", folder, *off)


@pytest.fixture(scope="session")
def minimal(shared_build: SharedBuild) -> Path:
    def install(folder: Path) -> None:
        configure_minimal(BUILD)
        run("cmake", "--build", BUILD)
        run("cmake", "--install", BUILD, "--prefix", folder)

    return shared_build("minimal", install)


def test_what_is_built_without_any_optional_part_needs_none(tmp_path: Path) -> None:
    """It is linked from objects of the dev build; `make nightly` builds the whole."""
    build = tmp_path / "build"
    configure_minimal(build)
    all_targets = run("ninja", "-C", build, "-t", "targets", "all").splitlines()
    components = [line for line in all_targets if re.match(r"lib/mlbridge/lib\S+\.so:", line)]
    assert not components and "src/libmlbridge.a" in str(all_targets)
    listed = run("ninja", "-C", build, "-t", "query", "src/libmlbridge.a").split()
    objects = [DEV / name for name in listed if name[-2:] == ".o"]
    assert len(objects) > 30
    program = tmp_path / "ask"
    command: list[str | Path] = [
        "g++",
        "-std=c++17",
        f"-I{ROOT}/include",
        CONSUMER / "ask.cpp",
        *objects,
    ]
    run(*command, "-o", program, "-pthread", "-ldl")
    assert ask(program, "function:sum") == ("7", "")
    answer, why = ask(program, "unix:/nowhere/s?serdes=json")
    assert answer == "-1" and "libmlbridge-serdes-json.so" in why
    answer, why = ask(program, "native:/nowhere.onnx")
    assert answer == "-1" and "native" in why


@pytest.mark.nightly
def test_without_any_optional_part_the_rest_is_found_and_works(
    minimal: Path, tmp_path: Path
) -> None:
    assert (minimal / "lib/mlbridge").is_dir()
    request = (
        "find_package(MLBridge 0.2 REQUIRED COMPONENTS core c OPTIONAL_COMPONENTS json)\n"
        f'add_executable(ask "{CONSUMER}/ask.cpp")\ntarget_link_libraries(ask MLBridge::core)\n'
    )
    done = configure(minimal, tmp_path, request)
    assert done.returncode == 0, done.stderr
    run("cmake", "--build", tmp_path / "b")
    assert ask(tmp_path / "b/ask", "function:sum") == ("7", "")
    answer, why = ask(tmp_path / "b/ask", "unix:/nowhere/s?serdes=json")
    assert answer == "-1" and "libmlbridge-serdes-json.so" in why


@pytest.mark.nightly
def test_a_part_that_is_off_is_missed_by_name(minimal: Path, tmp_path: Path) -> None:
    smaller = tmp_path / "prefix"
    shutil.copytree(minimal, smaller)
    shutil.rmtree(smaller / "lib/mlbridge")
    done = configure(smaller, tmp_path, "find_package(MLBridge REQUIRED COMPONENTS core)")
    assert done.returncode == 0, done.stderr
    done = configure(smaller, tmp_path, "find_package(MLBridge REQUIRED COMPONENTS compat grpc)")
    assert done.returncode != 0
    assert "'grpc' is not installed" in done.stderr and "'compat' is not installed" in done.stderr


@pytest.mark.parametrize(
    ("package", "compiler", "text", "arguments", "printed"),
    [
        ("mlbridge", "g++ -std=c++17 -xc++", "", ["function:sum"], "7\n"),
        ("mlbridge-native", "g++ -std=c++17 -xc++", "", ["function:sum"], "7\n"),
        ("mlbridge-c", "gcc -std=c11 -xc", C, [], "closed\n"),
    ],
)
def test_pkg_config_finds_the_moved_prefix(
    prefix: Path,
    tmp_path: Path,
    package: str,
    compiler: str,
    text: str,
    arguments: list[str],
    printed: str,
) -> None:
    (pc,) = prefix.rglob(f"{package}.pc")
    env = {**os.environ, "PKG_CONFIG_PATH": str(pc.parent)}

    def pkg_config(*words: str) -> list[str]:
        command = ["pkg-config", *words, package]
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=60, check=True
        )
        return shlex.split(done.stdout)

    source = tmp_path / "source"
    source.write_text(text or (CONSUMER / "ask.cpp").read_text())
    (libdir,), (components,) = (
        pkg_config("--variable=libdir"),
        pkg_config("--variable=componentdir"),
    )
    program = tmp_path / "program"
    flags = [*shlex.split(compiler), "-Wall", "-Werror", *pkg_config("--cflags")]
    run(*flags, source, "-xnone", "-o", program, *pkg_config("--libs"), f"-Wl,-rpath,{libdir}")
    assert run(program, *arguments) == printed
    assert (Path(components) / "libmlbridge-engine-onnx.so").is_file()
    if package == "mlbridge":
        answer, why = ask(program, "unix:/nowhere/s?serdes=json")
        assert answer == "-1" and "component" not in why, "it is found without being told where"
    assert pkg_config("--modversion") == [version()]
