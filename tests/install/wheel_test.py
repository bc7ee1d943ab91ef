# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The wheel is complete, and works where nothing else is installed."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy
import pytest
from building import ROOT, run
from common import version as version_of_the_tree
from descriptions import models
from once import SharedBuild
from sampling import nightly

VERSION = version_of_the_tree()
#: The files of a wheel on every machine, but for those of SOURCES and of optimizations; * is the
#: version of Python or ours.
EXPECTED = Path(__file__).with_name("wheel-files.txt").read_text().splitlines()
#: The modules, and what `mlbridge aot` compiles with: the folder in the package, that in the tree.
SOURCES = (
    ("", "python/mlbridge", ".py"),
    ("include/mlbridge/", "include/mlbridge", ".h"),
    ("kernels/", "src/engine/native/kernels", ".h"),
)


def unpack(wheels: list[Path], folder: Path) -> None:
    """The wheels and NumPy, the only other package that they require."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(folder)
    (numpys,) = numpy.__path__
    for part in (Path(numpys), Path(f"{numpys}.libs")):
        if part.exists():
            (folder / part.name).symlink_to(part)


def install(wheels: list[Path], folder: Path) -> None:
    """As users do: pip reads what they require, and makes their command."""
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin/python", "-m", "pip", "install", "--disable-pip-version-check", *wheels)


@pytest.fixture(scope="session", params=["unpacked", nightly("installed")])
def folder(request: pytest.FixtureRequest, wheel: Path, shared_build: SharedBuild) -> Path:
    """Where it and the plugins for LLVM 22 lie."""
    make = unpack if request.param == "unpacked" else install
    wheels = [wheel, *wheel.parent.glob("ml_compiler_bridge_llvm22-*.whl")]
    return shared_build(f"wheel-{request.param}", lambda folder: make(wheels, folder))


@pytest.fixture
def python(folder: Path) -> list[str | Path]:
    """What runs a Python that sees no other package."""
    if (folder / "bin/python").exists():
        return [folder / "bin/python"]
    return ["env", f"PYTHONPATH={folder}", sys.executable, "-S"]


def test_the_wheel_holds_these_files(wheel: Path) -> None:
    names = {
        re.sub(r"_core\.[^/]*\.so$", "_core.*.so", re.sub(r"-[0-9.]+\.dist", "-*.dist", name))
        for name in zipfile.ZipFile(wheel).namelist()
    }
    wanted = set(EXPECTED) | {f"mlbridge/{file}" for file in models()}
    for folder, source, suffix in SOURCES:
        files = (ROOT / source).rglob(f"*{suffix}")
        wanted |= {f"mlbridge/{folder}{file.relative_to(ROOT / source)}" for file in files}
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


def test_it_requires_numpy_only_and_has_a_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        (metadata,) = [n for n in packed.namelist() if n.endswith(".dist-info/METADATA")]
        needs = re.findall(r"^Requires-Dist: (.*)", packed.read(metadata).decode(), re.MULTILINE)
        commands = packed.read(metadata.replace("METADATA", "entry_points.txt")).decode()
    assert [n for n in needs if "extra ==" not in n] == ["numpy>=1.26"]
    assert "mlbridge = mlbridge.cli:main" in commands


def test_it_is_imported_and_asked(python: list[str | Path], tmp_path: Path) -> None:
    script = "import mlbridge; print(mlbridge.__version__, mlbridge.__file__)"
    version, file = run(*python, "-c", script, cwd=tmp_path).split()
    assert version == VERSION and not file.startswith(sys.prefix)


def test_the_command_works(folder: Path, python: list[str | Path], tmp_path: Path) -> None:
    command = folder / "bin/mlbridge"
    words = [command] if command.exists() else [*python, "-m", "mlbridge"]
    assert VERSION in run(*words, "--version", cwd=tmp_path)
    flags = run(*words, "flags", "phase-ordering", cwd=tmp_path)
    assert str(folder) in flags and "-fpass-plugin=" in flags
