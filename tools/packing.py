# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The distributions that this tree makes, and their wheels of what CMake has built at once."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from common import PYTHON, ROOT, run_logged

#: The main one, whose wheel is made while CMake builds all of them.
MAIN = "."
#: The folders of those that hold plugins or components, by their install components.
ADD_ONS = {
    name: f"python/distributions/{name}" for name in ("llvm22", "llvm19", "mlir22", "gcc12", "grpc")
}
COMPAT = "compat/python"


def pack(log: Path, built: Path, names: tuple[str, ...], wheels: Path) -> int:
    """Makes the wheels of add-ons from CMake's build folder; the first exit status that isn't 0."""
    for name in names:
        files = built / "distributions" / name
        shutil.rmtree(files, ignore_errors=True)
        install: list[str | Path] = ["cmake", "--install", built, "--strip", "--component", name]
        install += ["--prefix", files]
        make: list[str | Path] = [
            PYTHON,
            __file__,
            ROOT / ADD_ONS[name],
            wheels,
            files / "mlbridge",
        ]
        if code := run_logged(log, *install, seconds=600) or run_logged(log, *make, seconds=600):
            return code
    return 0


def pack_compat(log: Path, wheels: Path) -> int:
    """Makes the wheel of `CompilerInterface`, which is all Python."""
    return run_logged(log, PYTHON, __file__, ROOT / COMPAT, wheels, seconds=600)


def in_order(wheels: Path) -> tuple[list[Path], list[Path]]:
    """The wheels as pip must install them, the library first: before 0.2 it had the files of the
    others, too, and pip takes them away with it."""
    every = sorted(wheels.glob("*.whl"))
    first = [wheel for wheel in every if wheel.name.startswith("ml_compiler_bridge-")]
    return first, [wheel for wheel in every if wheel not in first]


def main(folder: str, wheels: str, *files: str) -> None:
    """Makes one wheel, as pip would; of these files, if there are any, rather than by CMake."""
    from scikit_build_core.build import build_wheel

    os.chdir(folder)
    built: dict[str, str | list[str]] = {"wheel.cmake": "false", "wheel.platlib": "true"}
    built |= {"wheel.packages": list(files), "sdist.include": "*"}  # though in "build"
    build_wheel(wheels, built if files else {})


if __name__ == "__main__":
    main(*sys.argv[1:])
