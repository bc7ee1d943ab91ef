# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tile sizes by models: what is computed stays the same, and a model that fails changes nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from beyond_llvm import ENVIRONMENT, RUNNERS, TILES, asked, record, tiles_network
from building import run
from compiler import serving
from once import SharedBuild
from sampling import runners_of

import mlbridge

HERE = Path(__file__).parent
DEFAULTS = ["product 32 32 32 same", "transposition 32 32 same", "sums 32 32 same"]
KILLED = """
import os, sys, mlbridge
asked = 0

def policy(observation, context):
    global asked
    asked += 1
    if asked == 2:
        os.kill(os.getpid(), 9)
    return [5] * 8

specs = mlbridge.TensorSpec
signature = mlbridge.Signature([specs("loops", "float32", [8, 9])], [specs("sizes", "int64", [8])])
with mlbridge.Server("unix:" + sys.argv[1], signature) as server:
    print("ready", flush=True)
    server.serve_forever(policy)
"""


@pytest.fixture(scope="session")
def program(prefix: Path, shared_build: SharedBuild) -> Path:
    def build(folder: Path) -> None:
        flags = "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror -pedantic"
        found = f"-DCMAKE_PREFIX_PATH={prefix}"
        run("cmake", "-S", HERE, "-B", folder, "-G", "Ninja", flags, found)
        run("cmake", "--build", folder)

    return shared_build("tiling", build) / "tile"


def tiled(program: Path, uri: str, length: int = 50) -> tuple[list[str], str]:
    """What it printed, and its warnings."""
    command = [str(program), uri, str(length)]
    done = subprocess.run(
        command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize(("runner", "count"), runners_of("choose_tiles", RUNNERS, few=10, many=20))
def test_every_runner_chooses_the_same(
    program: Path, tmp_path: Path, runner: str, count: int
) -> None:
    path, lengths = tiles_network(tmp_path / "tiles.onnx"), range(2, 2 + 3 * count, 3)
    expected = [tiled(program, f"native:{path}", length) for length in lengths]
    assert not any(said for _, said in expected)
    sizes = {" ".join(re.findall(r"\d+", line)) for lines, _ in expected for line in lines}
    assert len(sizes) > count
    with asked(runner, path, tmp_path) as uri:
        found = [tiled(program, uri, length) for length in lengths]
    assert found == expected
    assert all(line.endswith(" same") for lines, _ in found for line in lines)
    record("choose_tiles", runner, count, 3 * count, found == expected)


def test_what_a_model_sees(program: Path, tmp_path: Path) -> None:
    seen: list[Any] = []

    def policy(observation: Any, context: mlbridge.CallContext) -> list[int]:
        seen.append(np.array(observation["loops"]))
        return [1, 4096, 7, 0, 0, 0, 0, 0]

    with serving(policy, tmp_path, TILES) as uri:
        lines, said = tiled(program, uri, 20)
    assert not said
    assert lines == ["product 1 20 7 same", "transposition 1 20 same", "sums 1 20 same"]
    assert seen[0][:3].tolist() == [
        [20, 20, 1, 1, 4, 1, 0, 8, 1],
        [20, 20, 1, 1, 4, 1, 3, 8, 1],
        [20, 20, 1, 0, 4, 2, 1, 8, 1],
    ]
    assert not seen[0][3:].any() and not seen[1][2:].any()


@pytest.mark.parametrize("sizes", [[0] * 8, [-3] * 8, [4, 4097, 4, 4, 4, 4, 4, 4], [2**62] * 8])
def test_sizes_that_cannot_be_used(program: Path, tmp_path: Path, sizes: list[int]) -> None:
    with serving(lambda *_: sizes, tmp_path, TILES) as uri:
        lines, said = tiled(program, uri)
    assert lines == DEFAULTS
    bad = next(size for size in sizes if not 1 <= size <= 4096)
    assert said.count("warning: ") == 1 and f"sizes: {bad} for loop" in said


def test_models_that_do_not_fit(program: Path, tmp_path: Path) -> None:
    other = tiles_network(tmp_path / "other.onnx", rows=4)
    (tmp_path / "damaged.onnx").write_bytes(b"\x08")
    for uri, says in (
        (f"native:{other}", "loops"),
        (f"native:{tmp_path}/damaged.onnx", "damaged.onnx"),
        (f"unix:{tmp_path}/nobody", "nobody"),
        ("function:nobody", "nobody"),
    ):
        lines, said = tiled(program, uri)
        assert lines == DEFAULTS
        assert said.count("warning: ") == 1 and says in said


def test_a_server_that_dies(program: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, f"{tmp_path}/s"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout and server.stdout.readline() == "ready\n"
        lines, said = tiled(program, f"unix:{tmp_path}/s?deadline=20s")
        server.wait(timeout=60)
    assert lines == ["product 5 5 5 same", *DEFAULTS[1:]]
    assert said.count("warning: ") == 1
