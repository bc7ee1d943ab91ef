# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Configures and builds a preset of CMakePresets.json: tools/cmake_build.py PRESET [TARGET...]."""

from __future__ import annotations

import subprocess
import sys

from common import BUILD, ROOT, environment, jobs


def build(preset: str, targets: list[str], *definitions: str) -> int:
    """Definitions are CMake's, as NAME=VALUE, and hold until the preset is configured again."""
    env = environment()
    configure = ["cmake", "--preset", preset, f"-DPython_EXECUTABLE={BUILD}/venv/bin/python"]
    configure += [f"-D{definition}" for definition in definitions]
    make = ["cmake", "--build", str(BUILD / "cmake" / preset), "--parallel", str(jobs())]
    if targets:
        make += ["--target", *targets]
    for command in (configure, make):
        sys.stdout.flush()
        code = subprocess.run(command, cwd=ROOT, env=env, check=False).returncode
        if code != 0:
            return code
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(build(sys.argv[1], sys.argv[2:]))
