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


def read(files: Sequence[Path]) -> tuple[list[dict[str, Any]], Any]:
    """Rows of measurements, and the logarithms of their times, a column for each of MEASURED."""
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return rows, np.log(np.maximum([row["times"] for row in rows], 1e-4))


def inputs(row: Mapping[str, Any]) -> Any:
    """What the network computes first from what the plugin says; see `network`."""
    loops = np.asarray(row["loops"], np.float32)
    operation = np.asarray(row["operation"], np.float32)
    trips, parallel, along, window = (loops[:, at] for at in (TRIPS, PARALLEL, ALONG, WINDOW))
    there = np.minimum(trips, 1)
    across, sums = parallel * (1 - along), (there - parallel) * (1 - along)
    rows = np.minimum(np.maximum(loops[:, 7] - 1, 0), 1)
    length = np.log(np.maximum(trips, 1))
    kinds = np.stack([along, across, sums * (1 - window), sums * window, across * rows])
    return np.concatenate(
        [
            kinds @ length,
            [(along * parallel).sum(), (along * loops[:, 5]).sum()],
            operation[[2, 3, 4, 5, 6, 9, 10]],
            np.log(operation[[1, 7, 8]]),
            np.log(operation[[7, 8]]) - np.log(operation[[12, 12]]),
        ]
    ).astype(np.float32)


def trained(x: Any, y: Any, seed: int) -> dict[str, Any]:
    """Small networks side by side, each from another start and on another draw of the rows, whose
    mean is taken."""
    rng = np.random.default_rng(seed)
    mean, deviation = x.mean(axis=0), x.std(axis=0) + 1e-3
    x = (x - mean) / deviation
    shape = (NETWORKS, x.shape[1], HIDDEN), (NETWORKS, HIDDEN, HIDDEN), (NETWORKS, HIDDEN, y.shape[1])
    weights = [rng.normal(0, math.sqrt(2 / s[1]), s) for s in shape]
    weights += [np.zeros((NETWORKS, 1, s[2])) for s in shape]
    draws = rng.integers(0, len(x), (NETWORKS, len(x)))
    moments = [[np.zeros_like(w), np.zeros_like(w)] for w in weights]
    for step in tqdm(range(1, STEPS + 1), file=sys.stderr, leave=False):
        batch = np.take_along_axis(draws, rng.integers(0, len(x), (NETWORKS, BATCH)), axis=1)
        layers = [x[batch]]
        for at in range(3):
            layers.append(layers[-1] @ weights[at] + weights[at + 3])
            if at < 2:
                layers[-1] = np.maximum(layers[-1], 0)
        back = (layers[-1] - y[batch]) / BATCH
        gradients: list[Any] = [None] * 6
        for at in (2, 1, 0):
            gradients[at] = layers[at].transpose(0, 2, 1) @ back + DECAY * weights[at]
            gradients[at + 3] = back.sum(axis=1, keepdims=True)
            back = (back @ weights[at].transpose(0, 2, 1)) * (layers[at] > 0)
        rate = RATE * min(1, 2 * (1 - step / (STEPS + 1)))
        for weight, gradient, moment in zip(weights, gradients, moments, strict=True):
            moment[0] += 0.1 * (gradient - moment[0])
            moment[1] += 0.001 * (gradient**2 - moment[1])
            scale = moment[0] / (1 - 0.9**step)
            weight -= rate * scale / (np.sqrt(moment[1] / (1 - 0.999**step)) + 1e-8)
    names = ("first", "second", "last", "first_bias", "second_bias", "last_bias")
    found = {"mean": mean, "deviation": deviation, **dict(zip(names, weights, strict=True))}
    return {name: np.round(value, 5).astype(np.float32) for name, value in found.items()}


def expected(x: Any, its: Mapping[str, Any]) -> Any:
    """What the networks expect of each of WAYS: the logarithm of its time beside the best one's."""
    value = ((x - its["mean"]) / its["deviation"])[None]
    value = np.maximum(value @ its["first"] + its["first_bias"], 0)
    value = np.maximum(value @ its["second"] + its["second_bias"], 0)
    return (value @ its["last"] + its["last_bias"]).mean(axis=0)


def targets(times: Any) -> Any:
    """Of WAYS. How bad the bad ones are doesn't matter."""
    ours = times[:, : len(WAYS)]
    return np.minimum(ours - ours.min(axis=1, keepdims=True), WORST)


NETWORKS, HIDDEN, STEPS, BATCH, RATE, DECAY, WORST = 8, 24, 3000, 64, 3e-3, 2e-4, 0.7


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
