# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A project outside the tree, and what it is asked."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

CONSUMER = Path(__file__).parent / "consumer"


def ask(program: Path, uri: str) -> tuple[str, str]:
    alone = {k: v for k, v in os.environ.items() if k != "MLBRIDGE_COMPONENT_PATH"}
    done = subprocess.run(
        [program, uri], capture_output=True, text=True, timeout=60, check=True, env=alone
    )
    return done.stdout.strip(), done.stderr.strip()


def configure(prefix: Path, folder: Path, request: str) -> subprocess.CompletedProcess[str]:
    (folder / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES CXX)\n{request}\n"
    )
    return subprocess.run(
        ["cmake", "-S", folder, "-B", folder / "b", f"-DCMAKE_PREFIX_PATH={prefix}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
