# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An installation of the library, and the programs of `published/` and of the examples built
against it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from building import DEV, run
from once import SharedBuild

HERE = Path(__file__).parent

os.environ["MLBRIDGE_COMPAT_BESIDE"] = "1"  # the published package is the peer


@pytest.fixture(scope="session")
def prefix(shared_build: SharedBuild) -> Path:
    """Without the components."""

    def install(folder: Path) -> None:
        for component in ("runtime", "development"):
            run("cmake", "--install", DEV, "--component", component, "--prefix", folder)
        (folder / "lib" / "mlbridge").mkdir(parents=True, exist_ok=True)

    return shared_build("compat-installation", install)


def build_outside(prefix: Path, source: Path, folder: Path) -> None:
    """Builds a project as its users do, and puts its programs and modules into the folder."""
    copy, build = folder / "source" / source.name, folder / "build" / source.name
    shutil.copytree(source, copy)
    run("cmake", "-G", "Ninja", "-S", copy, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", build, "--parallel", "2")
    for file in build.iterdir():
        if file.is_file() and os.access(file, os.X_OK):
            shutil.copy(file, folder)


@pytest.fixture(scope="session")
def programs(prefix: Path, shared_build: SharedBuild) -> Path:
    """The folder of the programs."""
    if given := os.environ.get("MLBRIDGE_COMPAT_PROGRAMS"):  # built before, for quick rounds
        return Path(given)

    def build(folder: Path) -> None:
        for source in (HERE / "published", HERE.parent / "examples"):
            build_outside(prefix, source, folder)

    return shared_build("published", build)
