# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The policy of models/mlir-tiling: which of a few ways to tile is fastest, learned from times.

    tools/mlir_tiling_policy.py measure FILE [--first SEED] [--programs N] [--seconds N]
    tools/mlir_tiling_policy.py fit FILE…       weights.json, and from it policy.onnx
    tools/mlir_tiling_policy.py check FILE      the policy beside what is simpler, on other times
    tools/mlir_tiling_policy.py make            policy.onnx from weights.json

A program has one operation of linalg. Its kernels are that operation, tiled in each of the ways;
they take turns in one process, and a way's time is the least of all rounds. Measuring goes on where
FILE ends, and stops after so many seconds.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import policy_networks as networks
from common import ROOT
from onnx import helper
from policy_networks import FLOAT, INT64
from tqdm import tqdm

import mlbridge

sys.path.insert(0, str(ROOT / "tests" / "shared"))
from linalg_programs import OPERATIONS, Operation, drawn
from mlir_runs import executed, lowered

MODEL = ROOT / "models" / "mlir-tiling"
LOOPS, COLUMNS, WHOLE = 10, 8, 1 << 30
TRIPS, PARALLEL, ALONG, WINDOW = 0, 1, 2, 6
SIGNATURE = mlbridge.Signature(
    [
        mlbridge.TensorSpec("loops", "float32", [LOOPS, COLUMNS]),
        mlbridge.TensorSpec("operation", "float32", [16]),
    ],
    [mlbridge.TensorSpec("sizes", "int64", [LOOPS]), mlbridge.TensorSpec("vectorize", "int64")],
)
Rows = Any  #: float32 [LOOPS, COLUMNS], as the model sees them


@dataclass(frozen=True)
class Way:
    """Sizes of the loops by what they do; windows, such as of convolutions, stay whole."""

    parallel: int  #: of parallel loops across vectors
    along: int  #: of the loop along vectors
    sums: int  #: of other reductions
    vectorize: int

    def sizes(self, rows: Rows) -> list[int]:
        found = []
        for row in rows:
            if row[ALONG]:
                size = self.along
            elif row[PARALLEL]:
                size = self.parallel
            else:
                size = WHOLE if row[WINDOW] else self.sums
            found.append(int(min(size, max(row[TRIPS], 1))))
        return found


STOCK = Way(WHOLE, WHOLE, WHOLE, 0)
WAYS = [
    STOCK,
    Way(32, 32, 32, 0),
    Way(32, WHOLE, 32, 0),
    *(
        Way(parallel, along, sums, 1)
        for parallel in (24, 96, WHOLE)
        for along in (64, 256, WHOLE)
        for sums in (32, 128, WHOLE)
    ),
]
#: Whoever tiles without a model takes one number for all loops.
CONSTANTS = [Way(size, size, size, v) for size in (16, 32, 64, 128, WHOLE) for v in (0, 1)]
MEASURED = [*WAYS, *(way for way in CONSTANTS if way not in WAYS)]


class Asked:
    """Answers about kernel N with way N of those that differ, and remembers what it was told."""

    def __init__(self) -> None:
        self.ways: list[Way] = []
        self.told: dict[str, Any] = {}

    def policy(self, observation: Mapping[str, Any], context: mlbridge.Context) -> dict[str, Any]:
        at = int(context.context.split(":")[-2].removeprefix("kernel"))
        self.told = {name: np.array(value).tolist() for name, value in observation.items()}
        if at >= len(self.ways):
            return {"sizes": [WHOLE] * LOOPS, "vectorize": 0}
        way = self.ways[at]
        return {"sizes": way.sizes(observation["loops"]), "vectorize": way.vectorize}


@contextmanager
def asking() -> Iterator[tuple[str, Asked]]:
    asked = Asked()
    with (
        tempfile.TemporaryDirectory() as folder,
        mlbridge.Server(f"unix:{folder}/s", SIGNATURE) as server,
    ):
        thread = threading.Thread(target=server.serve_forever, args=(asked.policy,))
        thread.start()
        try:
            yield f"unix:{folder}/s", asked
        finally:
            server.stop()
            thread.join()


def different(rows: Rows) -> tuple[list[Way], list[int]]:
    """The ways that do different things to these loops, and for each of MEASURED which it is."""
    found: dict[tuple[list[int], int] | Any, int] = {}
    ways, places = [], []
    for way in MEASURED:
        key = (tuple(way.sizes(rows)), way.vectorize)
        if key not in found:
            found[key] = len(ways)
            ways.append(way)
        places.append(found[key])
    return ways, places


def measured(program: Operation, uri: str, asked: Asked, rounds: int) -> dict[str, Any]:
    """The microseconds of each of MEASURED."""
    options = {"model": uri, "on-failure": "fail"}
    asked.ways = []
    lowered(program.timed(1, 1, 1), options)  # for what the model is told
    rows, iterations = np.array(asked.told["loops"]), asked.told["operation"][1]
    asked.ways, places = different(rows)
    calls = max(1, min(2000, round(4e6 / iterations)))
    text = program.timed(len(asked.ways), rounds, calls)
    seconds = np.array([float(word) for word in executed(lowered(text, options)).split()])
    best = seconds.reshape(rounds, len(asked.ways)).min(axis=0) / calls * 1e6
    return {
        "program": program.name,
        "element": program.element,
        "tensors": program.tensors,
        "shapes": [*program.inputs, program.output],
        **asked.told,
        "times": [round(float(best[place]), 4) for place in places],
    }


def program_of(seed: int) -> Operation:
    """Each operation is as frequent as the others."""
    names = sorted(OPERATIONS)
    return drawn(seed, name=names[seed % len(names)])


def measure(options: argparse.Namespace) -> None:
    done = set()
    if options.file.is_file():
        done = {json.loads(line)["seed"] for line in options.file.read_text().splitlines()}
    seeds = [s for s in range(options.first, options.first + options.programs) if s not in done]
    end = time.monotonic() + options.seconds
    with asking() as (uri, asked), options.file.open("a") as to:
        for seed in tqdm(seeds, unit="program", file=sys.stderr):
            if time.monotonic() > end:
                break
            row = {"seed": seed, **measured(program_of(seed), uri, asked, options.rounds)}
            to.write(json.dumps(row) + "\n")
            to.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    its = commands.add_parser("measure")
    its.add_argument("file", type=Path)
    its.add_argument("--first", type=int, default=1)
    its.add_argument("--programs", type=int, default=260)
    its.add_argument("--rounds", type=int, default=7)
    its.add_argument("--seconds", type=float, default=math.inf)
    options = parser.parse_args()
    measure(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
