# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trees, fitted to measured times, as the networks of this folder.

    models/loop-distribution/make.py make              node.onnx, distribute.onnx from trees.json
    models/loop-distribution/make.py measure FILE [--loops N]
                                                       times of random loops, in several ways
    models/loop-distribution/make.py fit FILE…         trees.json and networks from these times
    models/loop-distribution/make.py check [--first SEED]
                                                       times of other random loops with the policy

Programs take turns, and a loop's time is the least of many short rounds.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "shared"))
import loops as random_loops
from onnx_text import network
from trees import NO_LIMIT, ensemble, leaves, pruned

HERE = Path(__file__).resolve().parent
COLUMNS = 26
BLOCKS, TRIPS, LATENCY, SCALAR, VECTOR = 21, 22, 23, 24, 25
PARTS = ("previous", "rest", "whole")
#: What trees compare: the columns of the three, then comparisons, expected gain and waiting.
INPUTS = 3 * COLUMNS + 3
#: Cycles for a unit of LLVM's costs, roughly.
SCALAR_CYCLES, VECTOR_CYCLES = 0.25, 0.375
DEPTH = 3
#: Leaves are multiples of this, so that their sums are exact in float32 in any order.
UNIT = 1 / 1024
#: Loops of a program.
BATCH = 30
FLAGS = ("-O3", "-fwrapv", "-fno-math-errno", "-falign-functions=64", "-w")
WAYS = ("never", "heuristic", "always", *(f"random?seed={i}" for i in range(1, 5)))
Trees = dict[str, Any]
FIT: dict[str, Any] = {"count": 150, "quantile": 0.85, "rate": 0.15, "fewest": 40}
#: A loop is divided if the trees' sum is below the limit, and it has no fewer trips than those with
#: this logarithm, if they are known. With each fourth of the loops kept apart in turn, 331 of their
#: divisions were below; these took 0.54 of the time, and 3 were slower.
LIMITS = {"limit": -0.18, "trips": 3.0}


def cycles(x: Any) -> Any:
    """Cycles of an iteration, roughly; x has the columns of one or more loops."""
    refused = np.maximum(x[..., LATENCY], SCALAR_CYCLES * x[..., SCALAR])
    return np.where(x[..., BLOCKS] > 0, refused, VECTOR_CYCLES * x[..., VECTOR])


def inputs(previous: Any, rest: Any, whole: Any, checks: Any) -> Any:
    """What trees compare, of one or more decisions."""
    p, r, w = (np.asarray(x, np.float32) for x in (previous, rest, whole))
    gain = (cycles(p) + cycles(r)) / (cycles(w) + 1)
    waits = w[..., LATENCY] / (SCALAR_CYCLES * w[..., SCALAR] + 1)
    more = [np.asarray(x, np.float32)[..., None] for x in (checks, gain, waits)]
    return np.concatenate([p, r, w, *more], axis=-1)


def score(x: Any, trees: Mapping[str, Any]) -> Any:
    """The logarithm of the ratio of times that is expected at most, mostly."""
    at = leaves(x, trees["inputs"], trees["limits"], DEPTH)
    values = np.take_along_axis(
        np.asarray(trees["leaves"], np.float64)[None], at[..., None], axis=2
    )
    return values.sum(axis=(1, 2))


#: Chooses the first node that may come and that is vectorizable as the loop before is, or isn't.
NODE = f"""
"loop-distribution-node" (bool[n] action_mask, float[n, {COLUMNS}] nodes, float[{COLUMNS}] previous)
  => (int64 node)
<int64 blocks = {{{BLOCKS}}}> {{
  of_nodes = Gather <axis = 1> (nodes, blocks)
  of_loop = Gather <axis = 0> (previous, blocks)
  alike = Equal (of_nodes, of_loop)
  best = And (alike, action_mask)
  one = Cast <to = 1> (best)
  other = Cast <to = 1> (action_mask)
  score = Add (one, other)
  node = ArgMax <axis = 0, keepdims = 0> (score)
}}"""


def distribute_network(trees: Mapping[str, Any]) -> onnx.ModelProto:
    """Divides what the vectorizer would refuse, if the trees expect enough of it."""
    inputs = ", ".join(f"float[{COLUMNS}] {row}" for row in PARTS)
    graph = f"""
"loop-distribution-distribute" ({inputs}, int64 checks) => (int64 distribute)
<float zero = {{0}}, float one = {{1}}, int64 two = {{2}}, int64[1] last = {{2}},
 int64[1] flat = {{1}}, int64[2] table = {{3, {COLUMNS}}}, int64[2] row = {{1, {INPUTS}}},
 float scalar_cycles = {{{SCALAR_CYCLES}}}, float vector_cycles = {{{VECTOR_CYCLES}}},
 int64 blocks = {{{BLOCKS}}}, int64 trips = {{{TRIPS}}}, int64 latency = {{{LATENCY}}},
 int64 scalar = {{{SCALAR}}}, int64 vector = {{{VECTOR}}}> {{
  columns = Concat <axis = 0> ({", ".join(PARTS)})
  parts = Reshape (columns, table)
  refused_blocks = Gather <axis = 1> (parts, blocks)
  latencies = Gather <axis = 1> (parts, latency)
  scalars = Gather <axis = 1> (parts, scalar)
  vectors = Gather <axis = 1> (parts, vector)
  computing = Mul (scalars, scalar_cycles)
  refused = Max (latencies, computing)
  vectorized = Mul (vectors, vector_cycles)
  is_refused = Greater (refused_blocks, zero)
  cycles = Where (is_refused, refused, vectorized)
  previous_cycles, rest_cycles, whole_cycles = Split <axis = 0> (cycles)
  divided = Add (previous_cycles, rest_cycles)
  one_more = Add (whole_cycles, one)
  gain = Div (divided, one_more)
  whole_computing = Gather <axis = 0> (computing, last)
  whole_latency = Gather <axis = 0> (latencies, last)
  work = Add (whole_computing, one)
  waits = Div (whole_latency, work)
  checks_float = Cast <to = 1> (checks)
  checks_row = Reshape (checks_float, flat)
  values = Concat <axis = 0> (columns, checks_row, gain, waits)
  x = Reshape (values, row)
  sum = ai.onnx.ml.TreeEnsemble (x)
  total = Squeeze (sum)
  log_trips = Gather <axis = 0> (whole, trips)
  is_known = Greater (log_trips, zero)
  is_less = Less (log_trips, few_trips)
  is_few = And (is_known, is_less)
  enough = Not (is_few)
  whole_is_refused = Gather <axis = 0> (is_refused, two)
  is_allowed = And (whole_is_refused, enough)
  is_expected = Less (total, limit)
  answer = And (is_expected, is_allowed)
  distribute = Cast <to = 7> (answer)
}}"""
    constants = {"limit": np.float32(trees["limit"]), "few_trips": np.float32(trees["trips"])}
    each = zip(trees["inputs"], trees["limits"], trees["leaves"], strict=True)
    pruned_trees = [pruned(nodes, limits, [(0, x) for x in given]) for nodes, limits, given in each]
    return network(graph, constants, trees=ensemble(pruned_trees))


def make(trees: Mapping[str, Any], folder: Path) -> None:
    onnx.save(network(NODE), folder / "node.onnx")
    onnx.save(distribute_network(trees), folder / "distribute.onnx")


def asking(plugin: str, model: str) -> list[str]:
    words = [f"-fpass-plugin={plugin}", "-mllvm", f"-loop-distribution-model={model}"]
    words += ["-mllvm", "-loop-distribution-on-failure=fail"]
    return [part for word in words for part in ("-Xclang", word)]


def decisions(folder: Path) -> dict[str, dict[str, Any]]:
    """The parts into which the loop of each function was divided, and the comparisons."""
    import mlbridge

    found: dict[str, dict[str, Any]] = {}
    for path in folder.glob("*.mlbrec"):
        for episode in mlbridge.Recording(path).episodes():
            if episode.agent != "distribute" or not episode.actions:
                continue
            parts, checks = [], 0
            for asked, taken in zip(episode.observations, episode.actions, strict=True):
                if int(taken["distribute"]):
                    parts.append(asked["previous"].tolist())
                    checks = int(asked["checks"])
            last = "rest" if int(episode.actions[-1]["distribute"]) else "whole"
            parts.append(episode.observations[-1][last].tolist())
            function = episode.unit.rpartition(":")[2]
            found[function] = {"parts": parts, "checks": checks}
    return found


def times(programs: Mapping[str, Path], rounds: int) -> dict[str, dict[str, float]]:
    """Nanoseconds of each way and loop."""
    least: dict[str, dict[str, float]] = {way: {} for way in programs}
    for _ in range(rounds):
        for way, program in programs.items():
            done = subprocess.run([program, "6", "12"], capture_output=True, text=True, check=True)
            for name, spent in map(str.split, done.stdout.splitlines()):
                least[way][name] = min(least[way].get(name, math.inf), float(spent))
    return least


def measured(
    seed: int, ways: Mapping[str, str], plugin: str, rounds: int, folder: Path
) -> list[dict[str, Any]]:
    """Random loops, each with its time and what was decided in each way."""
    made = random_loops.loops(seed, BATCH)
    source = folder / f"loops{seed}.c"
    source.write_text(random_loops.program(made))
    programs, decided = {}, {}
    for number, (way, model) in enumerate(ways.items()):
        programs[way] = folder / f"program{seed}.{number}"
        record = folder / f"record{seed}.{number}"
        option = f"{model}{'&' if '?' in model else '?'}record={record}"
        command: list[str | Path] = [
            "clang-22",
            *FLAGS,
            *asking(plugin, option),
            source,
            "-o",
            programs[way],
            "-lm",
        ]
        subprocess.run(command, check=True)
        decided[way] = decisions(record)
    spent = times(programs, rounds)
    return [
        {
            "name": f"{seed}:{loop.name}",
            "source": loop.function(),
            "trips": loop.trips,
            "iterations": loop.iterations,
            "ways": {way: {"ns": spent[way][loop.name], **decided[way][loop.name]} for way in ways},
        }
        for loop in made
        if all(loop.name in decided[way] for way in ways)
    ]


def examples(loops: Sequence[Mapping[str, Any]]) -> tuple[Any, Any]:
    """Each division in two of a loop: what trees compare, and the logarithm of the ratio of times.
    The order of the two is that in which they were selected."""
    rows, ratios = [], []
    for loop in loops:
        stock = loop["ways"]["never"]
        seen = []
        for one in loop["ways"].values():
            refused = stock["parts"][0][BLOCKS] > 0
            if refused and len(one["parts"]) == 2 and one["parts"] not in seen:
                seen.append(one["parts"])
                first, second = one["parts"]
                rows.append(inputs(first, second, stock["parts"][0], one["checks"]))
                ratios.append(math.log(one["ns"] / stock["ns"]))
    return np.stack(rows), np.array(ratios)


def grown(x: Any, slopes: Any, candidates: Any, fewest: int) -> tuple[list[int], list[float]]:
    """A tree of DEPTH levels whose leaves differ most in the slope of the loss."""
    chosen, limits = [0] * ((1 << DEPTH) - 1), [math.inf] * ((1 << DEPTH) - 1)
    at = np.zeros(len(x), int)
    for node in range(len(chosen)):
        level = int(math.log2(node + 1))
        inside = at == node - ((1 << level) - 1)
        rows, inner = x[inside], slopes[inside]
        best = inner.sum() ** 2 / max(len(inner), 1) + 1e-9
        for column, values in candidates.items():
            order = np.argsort(rows[:, column], kind="stable")
            sums = np.concatenate([[0], np.cumsum(inner[order])])
            below = np.searchsorted(rows[order, column], values, side="right")
            above = len(inner) - below
            good = (below >= fewest) & (above >= fewest)
            if not good.any():
                continue
            below, above, limits_there = below[good], above[good], values[good]
            gains = sums[below] ** 2 / below + (sums[-1] - sums[below]) ** 2 / above
            if gains.max() > best:
                best, where = gains.max(), int(gains.argmax())
                chosen[node], limits[node] = column, float(limits_there[where])
        if node in (0, 2, 6):  # the last of its level
            columns = np.array(chosen)[at + (1 << level) - 1]
            bits = x[np.arange(len(x)), columns] > np.array(limits)[at + (1 << level) - 1]
            at = 2 * at + bits
    return chosen, limits


def fit(x: Any, ratios: Any, count: int, quantile: float, rate: float, fewest: int) -> Trees:
    """Boosted trees for a quantile of the logarithms of ratios: what is lost counts more."""
    candidates = {}
    for column in range(x.shape[1]):
        values = np.unique(x[:, column])
        middles = ((values[1:] + values[:-1]) / 2).astype(np.float32)
        if len(middles) > 32:
            middles = np.unique(np.quantile(x[:, column], np.linspace(0.02, 0.98, 32)))
            middles = (middles + np.float32(1 / 256)).astype(np.float32)
        if len(middles):
            candidates[column] = middles
    trees: Trees = {"inputs": [], "limits": [], "leaves": []}
    expected = np.zeros(len(x))
    for number in range(count):
        residuals = ratios - expected
        slopes = np.where(residuals > 0, quantile, quantile - 1)
        chosen, limits = grown(x, slopes, candidates, fewest)
        at = leaves(x, [chosen], [limits], DEPTH)[:, 0]
        of_leaves: list[float] = []
        for leaf in range(1 << DEPTH):
            inside = residuals[at == leaf]
            value = np.quantile(inside, quantile) * (rate if number else 1) if len(inside) else 0.0
            of_leaves.append(round(float(value) / UNIT) * UNIT)
        trees["inputs"].append(chosen)
        trees["limits"].append([min(limit, NO_LIMIT) for limit in limits])
        trees["leaves"].append(of_leaves)
        expected += np.array(of_leaves)[at]
    return trees


def check(loops: Sequence[Mapping[str, Any]]) -> None:
    """Prints what was gained, and the loops that are slower."""
    ratios = {
        loop["name"]: loop["ways"]["model"]["ns"] / loop["ways"]["never"]["ns"] for loop in loops
    }
    divided = [loop for loop in loops if len(loop["ways"]["model"]["parts"]) > 1]
    gains = [ratios[loop["name"]] for loop in divided]
    print(f"{len(ratios)} loops: {geometric_mean(ratios.values()):.3f} geometric mean")
    slower = sum(gain > 1.02 for gain in gains)
    print(f"{len(gains)} divided: {geometric_mean(gains):.3f}, {slower} slower")
    for loop in divided:
        if ratios[loop["name"]] > 1.02:
            print(f"{ratios[loop['name']]:.3f} {loop['name']} {loop['trips']} {loop['source']}")


def main() -> int:
    from mlbridge import files

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=["make", "measure", "fit", "check"])
    parser.add_argument("files", nargs="*", type=Path, help="of measured times")
    parser.add_argument("--loops", type=int, default=4500)
    parser.add_argument("--first", type=int, default=1, help="seed; --loops / 30 are used")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--plugin", default=files.plugin("loop-distribution"))
    options = parser.parse_args()
    if options.what == "make":
        make(json.loads((HERE / "trees.json").read_text()), HERE)
        return 0
    if options.what == "fit":
        loops = [loop for path in options.files for loop in json.loads(path.read_text())]
        trees = fit(*examples(loops), **FIT)
        (HERE / "trees.json").write_text(json.dumps({**LIMITS, **trees}) + "\n")
        make({**LIMITS, **trees}, HERE)
        return 0
    ways = {way: f"function:{way}" for way in WAYS}
    if options.what == "check":
        ways = {"never": "function:never", "model": f"native:{HERE}/{{agent}}.onnx"}
    loops = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.first, options.first + math.ceil(options.loops / BATCH)):
            loops += measured(seed, ways, options.plugin, options.rounds, Path(folder))
            print(f"{len(loops)} loops", file=sys.stderr, flush=True)
            for path in options.files:
                path.write_text(json.dumps(loops))
    if options.what == "check":
        check(loops)
    return 0


if __name__ == "__main__":
    sys.exit(main())
