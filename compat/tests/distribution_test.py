# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ml-compiler-bridge-compat: a distribution of its own, which is refused beside the one of 2024;
and what pkg-config says of the library."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

from building import ROOT, run

FILES = """
BaseCompilerInterface.py GrpcCompilerInterface.py PipeCompilerInterface.py SerDes.py __init__.py
log_reader.py py.typed
""".split()


def python(*arguments: str, beside: bool) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "MLBRIDGE_COMPAT_BESIDE"}
    if beside:
        environment["MLBRIDGE_COMPAT_BESIDE"] = "1"
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def test_beside_the_published_package_it_is_refused() -> None:
    done = python("-c", "import CompilerInterface", beside=False)
    assert done.returncode == 1
    assert "ml-compiler-bridge-compat takes the place of compilerinterface" in done.stderr
    assert "pip uninstall compilerinterface" in done.stderr
    assert python("-c", "import CompilerInterface", beside=True).returncode == 0


def test_the_doctor_sees_both() -> None:
    checks = json.loads(python("-m", "mlbridge", "doctor", "--json", beside=False).stdout)["checks"]
    (check,) = [check for check in checks if check["part"] == "ml-compiler-bridge-compat"]
    assert not check["ok"] and not check["required"]
    assert check["fix"] == "pip uninstall compilerinterface"


def test_its_wheel_is_pure_python() -> None:
    (wheel,) = (ROOT / "build" / "wheels").glob("ml_compiler_bridge_compat-*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    names = [n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n]
    assert sorted(names) == [f"CompilerInterface/{name}" for name in sorted(FILES)]


PROGRAM = """
#include <MLModelRunner/PipeModelRunner.h>
#include <cstdio>
int main(int argc, char **argv) {
  if (argc > 9)
    MLBridge::PipeModelRunner(argv[1], argv[2], MLBridge::SerDesKind::Bitstream);
  std::puts("compat");
}
"""


def test_pkg_config_finds_the_library(prefix: Path, tmp_path: Path) -> None:
    (file,) = prefix.rglob("mlbridge-compat.pc")
    (tmp_path / "program.cpp").write_text(PROGRAM)
    env = {**os.environ, "PKG_CONFIG_PATH": str(file.parent)}
    flags = run("pkg-config", "--cflags", "--libs", "mlbridge-compat", env=env)
    options = ["-std=c++17", "-Wall", "-Werror", *shlex.split(flags)]
    run("g++", tmp_path / "program.cpp", *options, "-o", tmp_path / "program")
    assert run(tmp_path / "program") == "compat\n"
