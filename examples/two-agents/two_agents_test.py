# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The example trains its agents, which then decide better in the compiler than its heuristic."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from building import attempt, run
from once import SharedBuild

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def allocate(prefix: Path, shared_build: SharedBuild) -> Path:
    def build(folder: Path) -> None:
        flags = "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror -fno-exceptions -fno-rtti"
        options = ("-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", flags)
        run("cmake", "-S", HERE, "-B", folder, *options)
        run("cmake", "--build", folder)

    return shared_build("two-agents", build) / "allocate"


def cost(printed: str) -> float:
    return float(re.fullmatch(r"spills cost (\S+)\n", printed)[1])  # type: ignore[index]


def test_trained_agents_spill_less_than_the_heuristic(allocate: Path, tmp_path: Path) -> None:
    compiler, agents = f"unix:{tmp_path}/compiler.sock", f"unix:{tmp_path}/agents.sock"
    heuristic = attempt(allocate, f"unix:{tmp_path}/nobody")
    assert heuristic.stderr.count("unavailable: agent 'range': ") == 20
    waiting = subprocess.Popen([allocate, "--environment", compiler])
    trainer = subprocess.Popen(
        [sys.executable, HERE / "train.py", compiler, agents], stdout=subprocess.PIPE, text=True
    )
    try:
        done = attempt(allocate, f"{agents}?wait=60s")
        assert waiting.wait(30) == 0, "its driver has left"
    finally:
        trainer.terminate()
        progress = trainer.communicate(timeout=30)[0]
        waiting.kill()
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert cost(done.stdout) < 0.9 * cost(heuristic.stdout), progress
