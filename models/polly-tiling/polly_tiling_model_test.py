# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What users of the network rely on: it gains on what it was fitted to, and every engine chooses
what the fitted trees do."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
import pytest
from sampling import nightly

import mlbridge

HERE = Path(__file__).resolve().parent
TIMES = json.loads((HERE / "times.json").read_text())
LOOPS, COLUMNS = 8, 9
#: As the keys of the ratios of times have them.
WAYS: dict[str, list[int]] = {
    way: [int(x) for x in way.split(",")] for way in TIMES[0]["ratios"] if way[0] != "-"
}


def rows(loops: list[list[int]]) -> Any:
    made = np.zeros((LOOPS, COLUMNS), np.float32)
    if loops:
        made[: len(loops)] = loops
    return made


def random_rows(seed: int) -> Any:
    """Loops of any depth, none too."""
    rng = np.random.default_rng(seed)
    depth = seed % (LOOPS + 1)
    made = rng.integers(0, 12, (depth, COLUMNS))
    made[:, 0] = rng.choice([0, 1, 30, 1000, 1 << 30], depth)
    made[:, 2] = rng.integers(1, 4, depth)
    return rows(made.tolist())


def opened(engine: str, folder: Path) -> mlbridge.Runner:
    place = HERE / "policy.onnx"
    if engine == "onnx":
        pytest.importorskip("onnxruntime", reason="onnxruntime isn't installed")
    if engine == "aot":
        library = folder / "policy.so"
        command = [sys.executable, "-m", "mlbridge", "aot", str(place), "-o", str(library)]
        subprocess.run(command, check=True, capture_output=True)
        place = library
    return mlbridge.open(f"{engine}:{place}")


def chosen(runner: mlbridge.Runner, of: Any) -> str:
    sizes = np.array(runner.evaluate(loops=of)["sizes"]).tolist()
    return next(
        way for way, short in WAYS.items() if short + short[-1:] * (LOOPS - len(short)) == sizes
    )


ASKED = [rows(one["loops"]) for one in TIMES] + [random_rows(seed) for seed in range(300)]


@pytest.fixture(scope="module")
def fitted() -> list[str]:
    """What the trees choose, complete and in NumPy."""
    spec = importlib.util.spec_from_file_location("polly_tiling_make", HERE / "make.py")
    assert spec and spec.loader
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    known, y = make.arrays(TIMES)
    return [make.CHOICES[at] for at in make.chosen(np.stack(ASKED), known, y)["trees"]]


@pytest.mark.parametrize("engine", ["native", "onnx", nightly("aot")])
def test_it_chooses_as_the_trees_do(engine: str, fitted: list[str], tmp_path: Path) -> None:
    """Nearly always: NumPy adds in another order on other CPUs, so limits may differ a little."""
    runner = opened(engine, tmp_path)
    same = [chosen(runner, one) == way for one, way in zip(ASKED, fitted, strict=True)]
    assert same.count(False) <= len(same) / 100
    assert len(set(fitted)) > 3


def test_it_gains_on_the_training_kernels(tmp_path: Path) -> None:
    """Over -O3, over Polly's own sizes, and over the best of the constants."""
    native = opened("native", tmp_path)

    gained = geometric_mean([one["ratios"][chosen(native, rows(one["loops"]))] for one in TIMES])
    ways = TIMES[0]["ratios"]
    constants = {way: geometric_mean([one["ratios"][way] for one in TIMES]) for way in ways}
    assert gained < min(constants.values()) <= constants["-O3"]
