# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What users of the four networks rely on: they decide as the plugin's heuristic does, by every
engine."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sampling import nightly

import mlbridge
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


@pytest.mark.parametrize("agent", ["task", nightly("colour")])
def test_every_engine_answers_alike(agent: str, tmp_path: Path) -> None:
    """Also what compilers make of the network, which they see whole."""
    file, shared = ROOT / "models/register-allocation" / f"{agent}.onnx", tmp_path / "agent.so"
    command = [sys.executable, "-m", "mlbridge", "aot", str(file), "--shared", "-o", str(shared)]
    subprocess.run(command, check=True)
    draw = np.random.default_rng(0)
    count, columns = {"task": (2, 9), "colour": (33, 5)}[agent]
    with ExitStack() as opened:
        engines = [
            opened.enter_context(mlbridge.open(uri))
            for uri in (f"native:{file}", f"onnx:{file}", f"aot:{shared}")
        ]
        chosen = set()
        for _ in range(300):
            given: dict[str, Any] = {
                "node_properties": draw.integers(-1, 4, columns).astype(np.float32) / 2
            }
            given["action_mask"] = draw.random(count) < 0.7
            given["action_mask"][draw.integers(count)] = True
            if agent == "colour":
                given["registers"] = draw.integers(0, 3, (count, 5)).astype(np.float32)
            answers = {int(engine.evaluate(given)[agent]) for engine in engines}
            assert len(answers) == 1, given
            chosen |= answers
    assert len(chosen) == count
