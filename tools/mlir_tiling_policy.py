# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The policy of models/mlir-tiling: which of a few ways to tile is best, chosen by times.

    tools/mlir_tiling_policy.py measure FILE [--first SEED] [--programs N] [--seconds N]
    tools/mlir_tiling_policy.py choose FILE…    the best ways for all of these programs
    tools/mlir_tiling_policy.py make [--to FILE]
                                                policy.onnx, which answers with the best one
    tools/mlir_tiling_policy.py check FILE --training FILE…
                                                the policy on other programs, beside constants, a
                                                table, and networks that learn from the training

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
#: Of the networks, and how they are trained.
LAYERS = ("first_layer", "second_layer", "last_layer")
WEIGHTS = ("mean", "deviation", *LAYERS, *(f"{layer}_bias" for layer in LAYERS))
NETWORKS, HIDDEN, STEPS, BATCH, RATE, DECAY, WORST = 8, 24, 3000, 64, 3e-3, 5e-3, 0.7
MARGIN = 0.1  #: of a cautious one, which keeps to one way if another isn't better by this
#: The best for all training programs.
SHIPPED = Way(WHOLE, WHOLE, 32, 1)
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
    found: dict[Any, int] = {}
    ways: list[Way] = []
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


def inputs(row: Mapping[str, Any]) -> Any:
    """What the network computes first from what the plugin says; see `network`."""
    loops = np.asarray(row["loops"], np.float32)
    operation = np.asarray(row["operation"], np.float32)
    trips, parallel, along, window = (loops[:, at] for at in (TRIPS, PARALLEL, ALONG, WINDOW))
    there = np.minimum(trips, 1)
    across, sums = parallel * (1 - along), (there - parallel) * (1 - along)
    registers = np.maximum(loops[:, 7], 1)
    rows = across * np.minimum(registers - 1, 1)
    rest = np.fmod(trips, registers) / np.maximum(trips, 1)
    length, amounts = np.log(np.maximum(trips, 1)), np.log(np.maximum(operation, 1))
    kinds = np.stack([along, across, sums * (1 - window), sums * window, rows])
    told = [(along, parallel), (along, loops[:, 5]), (along, rest), (rows, rest)]
    told.append((along, np.log(registers)))
    return np.concatenate(
        [
            kinds @ length,
            [(mask * of).sum() for mask, of in told],
            operation[[2, 3, 4, 5, 6, 9, 10]],
            amounts[[1, 7, 8]],
            amounts[[7, 8]] - amounts[[12, 12]],
        ]
    ).astype(np.float32)


def trained(x: Any, y: Any, seed: int) -> dict[str, Any]:
    """Small networks side by side, each from another start and on another draw of the rows, whose
    mean is taken."""
    rng = np.random.default_rng(seed)
    mean, deviation = x.mean(axis=0), x.std(axis=0) + 1e-3
    x = (x - mean) / deviation
    shape = (
        (NETWORKS, x.shape[1], HIDDEN),
        (NETWORKS, HIDDEN, HIDDEN),
        (NETWORKS, HIDDEN, y.shape[1]),
    )
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
    return dict(zip(WEIGHTS, [mean, deviation, *weights], strict=True))


def expected(x: Any, its: Mapping[str, Any]) -> Any:
    """What the networks expect of each of WAYS: the logarithm of its time beside the best one's."""
    value = ((x - its["mean"]) / its["deviation"])[None]
    value = np.maximum(value @ its["first_layer"] + its["first_layer_bias"], 0)
    value = np.maximum(value @ its["second_layer"] + its["second_layer_bias"], 0)
    return (value @ its["last_layer"] + its["last_layer_bias"]).mean(axis=0)


def targets(times: Any) -> Any:
    """Of WAYS. How bad the bad ones are doesn't matter."""
    ours = times[:, : len(WAYS)]
    return np.minimum(ours - ours.min(axis=1, keepdims=True), WORST)


def network(way: Way) -> onnx.ModelProto:
    """Answers with this way's sizes."""
    constants: dict[str, Any] = {
        "one": np.float32(1),
        "whole": np.float32(WHOLE),
        **{name: np.float32(getattr(way, name)) for name in ("parallel", "along", "sums")},
        "vectors": np.array(way.vectorize),
        **{f"column{at}": np.int64(at) for at in (TRIPS, PARALLEL, ALONG, WINDOW)},
    }
    nodes: list[onnx.NodeProto] = []

    def add(kind: str, *taken: str, **more: Any) -> str:
        nodes.append(helper.make_node(kind, list(taken), [f"value{len(nodes)}"], **more))
        return f"value{len(nodes) - 1}"

    def either(mask: str, one: str, other: str) -> str:
        return add("Where", mask, one, other)

    trips, *columns = (
        add("Gather", "loops", f"column{at}", axis=1) for at in (TRIPS, PARALLEL, ALONG, WINDOW)
    )
    parallel, along, window = (add("Cast", column, to=networks.BOOL) for column in columns)
    reduction = either(window, "whole", "sums")
    size = either(along, "along", either(parallel, "parallel", reduction))
    least = add("Min", size, add("Max", trips, "one"))
    nodes.append(helper.make_node("Cast", [least], ["sizes"], to=INT64))
    nodes.append(helper.make_node("Identity", ["vectors"], ["vectorize"]))
    return networks.model(
        "mlir-tiling",
        nodes,
        {"loops": (FLOAT, [LOOPS, COLUMNS])},
        {"sizes": (INT64, [LOOPS]), "vectorize": (INT64, [])},
        constants,
    )


def best_for_all(times: Any) -> int:
    """The number of this way of WAYS."""
    return int(times[:, : len(WAYS)].mean(axis=0).argmin())


def make(options: argparse.Namespace) -> None:
    onnx.save(network(SHIPPED), options.to)


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
    x, seen = (np.array([inputs(row) for row in of]) for of in (rows, known))
    places = [MEASURED.index(way) for way in CONSTANTS]
    constant = places[int(before[:, places].mean(axis=0).argmin())]
    one = best_for_all(before)
    expects = expected(x, trained(seen, targets(before), seed=1))
    cautious = expects.copy()
    cautious[:, one] -= MARGIN
    scale = seen.std(axis=0) + 1e-3
    near = np.square((x[:, None] - seen[None]) / scale).sum(axis=2).argmin(axis=1)
    choices = {
        "policy": np.full(len(rows), WAYS.index(SHIPPED)),
        "untiled": np.zeros(len(rows), int),
        f"best constant, {MEASURED[constant]}": np.full(len(rows), constant),
        f"best way for all, {WAYS[one]}": np.full(len(rows), one),
        "best way of the nearest training program": before[:, ours].argmin(axis=1)[near],
        "a network": expects.argmin(axis=1),
        "a cautious network": cautious.argmin(axis=1),
        "best of all ways, in hindsight": times[:, ours].argmin(axis=1),
    }
    at = np.arange(len(rows))
    best, policy = times[:, ours].min(axis=1), times[at, choices["policy"]]
    print(f"{len(rows)} programs; training {len(known)}")
    for name, choice in choices.items():
        its = times[at, choice]
        print(
            f"{name}: untiled takes {interval(times[:, 0] - its)}; it takes "
            f"{interval(its - best)} of the best; {interval(its - policy)} of the policy"
        )
    lost = np.exp(policy - times[:, 0])
    print(f"slower than untiled by more than 5 %: {(lost > 1.05).sum()}, worst {lost.max():.2f}")
    for name in sorted(OPERATIONS):
        of = np.array([row["program"] == name for row in rows])
        if of.any():
            gain, left = (
                np.exp((times[:, 0] - policy)[of].mean()),
                np.exp((policy - best)[of].mean()),
            )
            print(f"| `{name}` | {of.sum()} | {gain:.2f} | {left:.2f} |")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    its = commands.add_parser("measure")
    its.add_argument("file", type=Path)
    its.add_argument("--first", type=int, default=1)
    its.add_argument("--programs", type=int, default=390)
    its.add_argument("--rounds", type=int, default=6)
    its.add_argument("--seconds", type=float, default=math.inf)
    its.set_defaults(run=measure)
    its = commands.add_parser("choose")
    its.add_argument("files", type=Path, nargs="+")
    its.set_defaults(run=choose)
    its = commands.add_parser("check")
    its.add_argument("file", type=Path)
    its.add_argument("--training", type=Path, nargs="+", required=True)
    its.set_defaults(run=check)
    its = commands.add_parser("make")
    its.add_argument("--to", type=Path, default=MODEL / "policy.onnx")
    its.set_defaults(run=make)
    options = parser.parse_args()
    options.run(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
