# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The wheel is complete, and works in a virtual environment that has nothing else."""

from __future__ import annotations

import re
import subprocess
import zipfile
from pathlib import Path

import pytest
from building import ROOT, run

#: The files of a wheel on every machine, but for the headers; * is the version of Python or ours.
EXPECTED = Path(__file__).with_name("wheel-files.txt").read_text().splitlines()
#: What `mlbridge compile` compiles with.
HEADERS = {"include/mlbridge": "include/mlbridge", "kernels": "src/engine/native/kernels"}


@pytest.fixture(scope="session")
def installed(wheel: Path, empty_venv: Path) -> Path:
    run(empty_venv / "bin/python", "-m", "pip", "install", "--disable-pip-version-check", wheel)
    return empty_venv


def test_the_wheel_holds_these_files(wheel: Path) -> None:
    names = {
        re.sub(r"_core\.[^/]*\.so$", "_core.*.so", re.sub(r"-[0-9.]+\.dist", "-*.dist", name))
        for name in zipfile.ZipFile(wheel).namelist()
    }
    wanted = set(EXPECTED)
    for folder, source in HEADERS.items():
        headers = (ROOT / source).rglob("*.h")
        wanted |= {f"mlbridge/{folder}/{h.relative_to(ROOT / source)}" for h in headers}
    more, fewer = sorted(names - wanted), sorted(wanted - names)
    assert not more and not fewer, f"more: {more}, fewer: {fewer}"


def test_a_part_without_its_library_is_an_error_that_says_how_to_leave_it_out(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [
            *("cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(tmp_path)),
            *("-DMLBRIDGE_JSON=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_simdjson=TRUE"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode != 0
    assert "MLBRIDGE_JSON=ON" in done.stderr and "libsimdjson-dev" in done.stderr
    assert "--config-settings=cmake.define.MLBRIDGE_JSON=OFF" in done.stderr


def test_a_plugin_that_there_is_not_cannot_be_asked_for(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *("cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(tmp_path)),
            *("-DMLBRIDGE_BUILD_TESTS=OFF", "-DMLBRIDGE_ONNX=OFF", "-DMLBRIDGE_GRPC=OFF"),
            "-DMLBRIDGE_LLVM_PLUGINS=mlbridge-phase-ordering;mlbridge-none",
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode != 0
    assert "MLBRIDGE_LLVM_PLUGINS: there is no plugin mlbridge-none" in done.stderr


def test_it_is_imported_and_asked(installed: Path, tmp_path: Path) -> None:
    script = "import mlbridge; print(mlbridge.__version__)"
    assert run(installed / "bin/python", "-c", script, cwd=tmp_path).startswith("0.1")


def test_the_command_works(installed: Path, tmp_path: Path) -> None:
    assert "0.1" in run(installed / "bin/mlbridge", "--version", cwd=tmp_path)
    flags = run(installed / "bin/mlbridge", "flags", "phase-ordering", cwd=tmp_path)
    assert str(installed) in flags and "-fpass-plugin=" in flags
