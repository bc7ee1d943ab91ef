# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Chooses the way to tile that policy.onnx takes, by measured times.

    models/mlir-tiling/measure.py measure FILE [--first SEED] [--programs N] [--seconds N]
    models/mlir-tiling/measure.py choose FILE…   the best ways for all of these programs
    models/mlir-tiling/measure.py check FILE --training FILE…
                                                 the policy on other programs, beside constants

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
from tqdm import tqdm

import mlbridge

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "shared"))
from linalg_programs import OPERATIONS, Operation, drawn
from mlir_runs import executed, lowered

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
class Tiling:
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


STOCK = Tiling(WHOLE, WHOLE, WHOLE, 0)
WAYS = [
    STOCK,
    Tiling(32, 32, 32, 0),
    Tiling(32, WHOLE, 32, 0),
    *(
        Tiling(parallel, along, sums, 1)
        for parallel in (24, 96, WHOLE)
        for along in (64, 256, WHOLE)
        for sums in (32, 128, WHOLE)
    ),
]
#: The best for all training programs.
SHIPPED = Tiling(WHOLE, WHOLE, 32, 1)
#: Whoever tiles without a model takes one number for all loops.
CONSTANTS = [Tiling(size, size, size, v) for size in (16, 32, 64, 128, WHOLE) for v in (0, 1)]
MEASURED = [*WAYS, *(way for way in CONSTANTS if way not in WAYS)]


class Asked:
    """Answers about kernel N with way N of those that differ, and remembers what it was told."""

    def __init__(self) -> None:
        self.ways: list[Tiling] = []
        self.told: dict[str, Any] = {}

    def policy(
        self, observation: Mapping[str, Any], context: mlbridge.CallContext
    ) -> dict[str, Any]:
        at = int(context.unit.split(":")[-2].removeprefix("kernel"))
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


def different(rows: Rows) -> tuple[list[Tiling], list[int]]:
    """The ways that do different things to these loops, and for each of MEASURED which it is."""
    found: dict[Any, int] = {}
    ways: list[Tiling] = []
    places: list[int] = []
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


def best_for_all(times: Any) -> int:
    """The number of this way of WAYS."""
    return int(times[:, : len(WAYS)].mean(axis=0).argmin())


def choose(options: argparse.Namespace) -> None:
    rows, times = read(options.files)
    beside = np.exp((times - times[:, : len(WAYS)].min(axis=1, keepdims=True)).mean(axis=0))
    for at in np.argsort(beside[: len(WAYS)])[:5]:
        print(f"{WAYS[at]}: {beside[at]:.4f} of the best of {len(rows)} programs")


def interval(differences: Any) -> str:
    """The geometric mean of the ratios with these logarithms, and where it is in 95 % of draws."""
    rng = np.random.default_rng(1)
    draws = differences[rng.integers(0, len(differences), (10000, len(differences)))].mean(axis=1)
    low, high = np.exp(np.quantile(draws, (0.025, 0.975)))
    return f"{np.exp(differences.mean()):.3f} ({low:.3f} to {high:.3f})"


def check(options: argparse.Namespace) -> None:
    """Each choice is made from the training, and timed on programs that it never saw."""
    known, before = read(options.training)
    rows, times = read([options.file])
    ours = slice(0, len(WAYS))
    places = [MEASURED.index(way) for way in CONSTANTS]
    constant = places[int(before[:, places].mean(axis=0).argmin())]
    one = best_for_all(before)
    choices = {
        "policy": np.full(len(rows), WAYS.index(SHIPPED)),
        "untiled": np.zeros(len(rows), int),
        f"best constant, {MEASURED[constant]}": np.full(len(rows), constant),
        f"best way for all, {WAYS[one]}": np.full(len(rows), one),
        "best of all ways, in hindsight": times[:, ours].argmin(axis=1),
    }
    at = np.arange(len(rows))
    best, policy = times[:, ours].min(axis=1), times[at, choices["policy"]]
    print(f"{len(rows)} programs; training {len(known)}")
    for name, choice in choices.items():
        spent = times[at, choice]
        print(
            f"{name}: untiled takes {interval(times[:, 0] - spent)}; it takes "
            f"{interval(spent - best)} of the best; {interval(spent - policy)} of the policy"
        )
    lost = np.exp(policy - times[:, 0])
    print(f"slower than untiled by more than 5 %: {(lost > 1.05).sum()}, worst {lost.max():.2f}")
    for name in sorted(OPERATIONS):
        chosen = np.array([row["program"] == name for row in rows])
        if chosen.any():
            gain = np.exp((times[:, 0] - policy)[chosen].mean())
            left = np.exp((policy - best)[chosen].mean())
            print(f"| `{name}` | {chosen.sum()} | {gain:.2f} | {left:.2f} |")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("measure")
    command.add_argument("file", type=Path)
    command.add_argument("--first", type=int, default=1)
    command.add_argument("--programs", type=int, default=390)
    command.add_argument("--rounds", type=int, default=6)
    command.add_argument("--seconds", type=float, default=math.inf)
    command.set_defaults(run=measure)
    command = commands.add_parser("choose")
    command.add_argument("files", type=Path, nargs="+")
    command.set_defaults(run=choose)
    command = commands.add_parser("check")
    command.add_argument("file", type=Path)
    command.add_argument("--training", type=Path, nargs="+", required=True)
    command.set_defaults(run=check)
    options = parser.parse_args()
    options.run(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
