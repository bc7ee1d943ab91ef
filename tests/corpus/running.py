# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the tests of corpora run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

Command = Callable[..., "subprocess.CompletedProcess[str]"]
MLBRIDGE = (sys.executable, "-m", "mlbridge")


def disassembled(path: Path) -> str:
    """A module as text."""
    done = subprocess.run(
        ["llvm-dis-22", "-o", "-", path], capture_output=True, text=True, check=True
    )
    return done.stdout
