# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What tests share that build something with the library as its users do."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DEV = ROOT / "build" / "cmake" / "dev"


def attempt(*command: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """Runs a program that may fail."""
    options = {"capture_output": True, "text": True, "timeout": 800, "check": False, **more}
    return subprocess.run(list(map(str, command)), **options)


def run(*command: str | Path, **more: Any) -> str:
    """Runs a program that must succeed; its output."""
    done = attempt(*command, **more)
    assert done.returncode == 0, f"{command} gave {done.returncode}\n{done.stdout}\n{done.stderr}"
    return str(done.stdout)
