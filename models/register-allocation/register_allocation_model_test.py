# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What users of the four networks rely on: they decide as the plugin's heuristic does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mlbridge.files import plugin, shipped_agents

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "compilers/llvm/register-allocation/test/inputs/mixed.c"


@pytest.mark.parametrize("level", ["-O2", "-Oz"])
def test_they_are_the_heuristic(level: str, tmp_path: Path) -> None:
    made: dict[str | None, bytes] = {}
    for model in ("function:heuristic", f"native:{shipped_agents('register-allocation')}", None):
        path = tmp_path / f"{len(made)}.o"
        words = [f"-fpass-plugin={plugin('register-allocation')}"]
        words += ["-mllvm", "-register-allocation-on-failure=fail"]
        words += ["-mllvm", f"-register-allocation-model={model}"] if model else []
        command = ["clang-22", level, "-w", "-c", str(SOURCE), "-o", str(path)]
        subprocess.run([*command, *(w for word in words for w in ("-Xclang", word))], check=True)
        made[model] = path.read_bytes()
    heuristic, networks, stock = made.values()
    assert networks == heuristic != stock
