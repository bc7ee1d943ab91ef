# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The example of a training, from a module to stock clang. Nightly: needs build/venv-train."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.nightly, pytest.mark.training]
ROOT = Path(__file__).resolve().parents[2]


def test_the_example_trains_a_policy_that_clang_asks(module: Path, tmp_path: Path) -> None:
    policy, temporary = tmp_path / "policy.onnx", tmp_path / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, ROOT / "examples/train/ppo.py", module, "--steps", "512", "-o", policy],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search(r"(?m)^.*\.bc: \d+ bytes, \d+ at -Oz$", done.stdout), done.stdout[-3000:]
    assert not [*temporary.glob("SB3-*")]
    flags = [sys.executable, "-m", "mlbridge", "flags", "phase-ordering"]
    objects = {}
    for engine in ("onnx", "native"):
        model = ["--model", f"{engine}:{policy}"]
        line = subprocess.run([*flags, *model], capture_output=True, text=True, check=True).stdout
        made = tmp_path / f"{engine}.o"
        command = ["clang-22", *line.split(), "-Oz", "-Rpass=phase-ordering", "-c", "-o", str(made)]
        command.append(str(module.with_suffix(".c")))
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "step 0: " in done.stderr and "warning" not in done.stderr
        objects[engine] = made.read_bytes()
    assert objects["onnx"] == objects["native"]
