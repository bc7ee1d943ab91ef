# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page about trees, as a whole: what it trains decides in stock clang. Nightly: needs
build/venv-train."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from blocks import blocks

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.nightly, pytest.mark.training]


def test_clang_asks_the_tree_of_the_page(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    printed = ""
    for block in blocks(ROOT / "docs/classical-models.md"):
        if "file" in block.options:
            (tmp_path / block.options["file"]).write_text(block.text)
        elif block.language == "sh" and not block.text.startswith("pip "):
            printed += subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block.text],
                cwd=tmp_path,
                env={**os.environ, "PATH": path},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=True,
            ).stdout
    assert "native:        runs" in printed
    assert printed.count("distributed into 2 loops") == 1
