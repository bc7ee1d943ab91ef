# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The wheel is complete, and works in a virtual environment that has nothing else."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from building import run

EXPECTED = (
    "mlbridge/py.typed",
    "mlbridge/components/libmlbridge-serdes-json.so",
    "mlbridge/components/libmlbridge-serdes-protobuf.so",
    "mlbridge/proto/mlbridge/v1/tensors.proto",
    "mlbridge/components/libmlbridge-engine-onnx.so",
    "mlbridge/components/libmlbridge-transport-grpc.so",
    "mlbridge/plugins/mlbridge-phase-ordering.so",
    "mlbridge/models/phase-ordering-size/policy.onnx",
)


@pytest.fixture(scope="session")
def installed(wheel: Path, empty_venv: Path) -> Path:
    run(empty_venv / "bin/python", "-m", "pip", "install", "--disable-pip-version-check", wheel)
    return empty_venv


def test_the_wheel_holds_components_plugin_and_model(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    missing = [e for e in EXPECTED if e not in names]
    assert not missing, f"{missing} are missing among {names}"
    assert [n for n in names if n.startswith("mlbridge/_core.") and n.endswith(".so")]
    assert [n for n in names if n.endswith("LICENSE")]


def test_the_wheel_holds_no_tests_and_no_headers(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert not [n for n in names if n.endswith(("_test.py", ".cpp", ".a"))]


def test_it_is_imported_and_asked(installed: Path, tmp_path: Path) -> None:
    script = "import mlbridge; print(mlbridge.__version__)"
    assert run(installed / "bin/python", "-c", script, cwd=tmp_path).startswith("0.1")


def test_the_command_works(installed: Path, tmp_path: Path) -> None:
    assert "0.1" in run(installed / "bin/mlbridge", "--version", cwd=tmp_path)
    flags = run(installed / "bin/mlbridge", "flags", "phase-ordering", cwd=tmp_path)
    assert str(installed) in flags and "-fpass-plugin=" in flags
