# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The policy of models/loop-distribution: what loops cost, fitted to measured times, as networks.

    tools/loop_policy.py make                       node.onnx, distribute.onnx from weights.json
    tools/loop_policy.py measure FILE [--loops N]   times of random loops, divided in several ways
    tools/loop_policy.py fit FILE                   weights for which these are expected
    tools/loop_policy.py check [--loops N]          times of other random loops with the policy

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
from typing import Any

import numpy as np
import onnx
import training_loops
from common import ROOT
from onnx import TensorProto, helper, numpy_helper

MODEL = ROOT / "models" / "loop-distribution"
COLUMNS = 26
BLOCKS, TRIPS, LATENCY, SCALAR, VECTOR = 21, 22, 23, 24, 25
#: Loops of a program.
BATCH = 30
FLAGS = ("-O3", "-fwrapv", "-fno-math-errno", "-falign-functions=64", "-w")
WAYS = ("never", "heuristic", "always", *(f"random?seed={i}" for i in range(1, 4)))
#: Weights are multiples of this, and inputs are of 1/64, so that sums are exact in float32.
UNIT = 1 / 64
Weights = dict[str, float]


def quantized(weights: Mapping[str, float]) -> Weights:
    return {name: round(value / UNIT) * UNIT for name, value in weights.items()}


def cost(x: Any, w: Mapping[str, float]) -> Any:
    """Of an iteration of the loops in the rows of x: of one that the vectorizer refuses, the longer
    of waiting and computing, and a part of the other; of vectors, what LLVM says."""
    waiting, computing = w["latency"] * x[..., LATENCY], w["scalar"] * x[..., SCALAR]
    refused = np.maximum(waiting, computing) + w["shorter"] * np.minimum(waiting, computing)
    return np.where(
        x[..., BLOCKS] > 0, refused + w["loop"], w["vector"] * x[..., VECTOR] + w["vector_loop"]
    )


def divides(asked: Mapping[str, Any], w: Mapping[str, float]) -> bool:
    """What distribute.onnx answers."""
    previous, rest, whole = (np.asarray(asked[k], float) for k in ("previous", "rest", "whole"))
    trips = whole[TRIPS]
    parts = cost(previous, w) + cost(rest, w) + w["check"] * float(asked["checks"])
    return bool(parts < w["keep"] * cost(whole, w) and not 0 < trips < w["trips"])


def node_network() -> onnx.ModelProto:
    """The first node that may come and that is vectorizable as the loop before is, or isn't."""
    column = numpy_helper.from_array(np.int64(BLOCKS), "blocks")
    nodes = [
        helper.make_node("Gather", ["nodes", "blocks"], ["of_nodes"], axis=1),
        helper.make_node("Gather", ["previous", "blocks"], ["of_loop"], axis=0),
        helper.make_node("Equal", ["of_nodes", "of_loop"], ["alike"]),
        helper.make_node("And", ["alike", "action_mask"], ["best"]),
        helper.make_node("Cast", ["best"], ["one"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["action_mask"], ["other"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["one", "other"], ["score"]),
        helper.make_node("ArgMax", ["score"], ["node"], axis=0, keepdims=0),
    ]
    tensor = helper.make_tensor_value_info
    inputs = [
        tensor("action_mask", TensorProto.BOOL, ["n"]),
        tensor("nodes", TensorProto.FLOAT, ["n", COLUMNS]),
        tensor("previous", TensorProto.FLOAT, [COLUMNS]),
    ]
    return finished("node", nodes, inputs, [column])


def distribute_network(w: Mapping[str, float]) -> onnx.ModelProto:
    """What `divides` says."""
    constants: dict[str, Any] = {name: np.float32(value) for name, value in w.items()}
    constants |= {"zero": np.float32(0)}
    for name, column in (
        ("blocks", BLOCKS),
        ("waits", LATENCY),
        ("scalar_cost", SCALAR),
        ("vector_cost", VECTOR),
        ("log_trips", TRIPS),
    ):
        constants[f"{name}_column"] = np.int64(column)
    nodes = []

    def add(kind: str, *inputs: str, **more: Any) -> str:
        name = f"value_{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [name], **more))
        return name

    def of(row: str, column: str) -> str:
        return add("Gather", row, f"{column}_column", axis=0)

    def cost_of(row: str) -> str:
        waiting = add("Mul", of(row, "waits"), "latency")
        computing = add("Mul", of(row, "scalar_cost"), "scalar")
        hidden = add("Mul", add("Min", waiting, computing), "shorter")
        refused = add("Add", add("Add", add("Max", waiting, computing), hidden), "loop")
        vectors = add("Add", add("Mul", of(row, "vector_cost"), "vector"), "vector_loop")
        return add("Where", add("Greater", of(row, "blocks"), "zero"), refused, vectors)

    checks = add("Mul", add("Cast", "checks", to=TensorProto.FLOAT), "check")
    parts = add("Add", add("Add", cost_of("previous"), cost_of("rest")), checks)
    gains = add("Less", parts, add("Mul", cost_of("whole"), "keep"))
    log_trips = of("whole", "log_trips")
    known = add("Greater", log_trips, "zero")
    few = add("And", known, add("Less", log_trips, "trips"))
    answer = add("And", gains, add("Not", few))
    nodes.append(helper.make_node("Cast", [answer], ["distribute"], to=TensorProto.INT64))
    tensor = helper.make_tensor_value_info
    inputs = [tensor(name, TensorProto.FLOAT, [COLUMNS]) for name in ("previous", "rest", "whole")]
    inputs.append(tensor("checks", TensorProto.INT64, []))
    made = [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    return finished("distribute", nodes, inputs, made)


def finished(name: str, nodes: list[Any], inputs: list[Any], constants: list[Any]) -> Any:
    output = helper.make_tensor_value_info(name, TensorProto.INT64, [])
    graph = helper.make_graph(nodes, f"loop-distribution-{name}", inputs, [output], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made, full_check=True)
    return made


def make(weights: Weights, folder: Path) -> None:
    onnx.save(node_network(), folder / "node.onnx")
    onnx.save(distribute_network(weights), folder / "distribute.onnx")


def asking(plugin: str, model: str) -> list[str]:
    words = [f"-fpass-plugin={plugin}", "-mllvm", f"-loop-distribution-model={model}"]
    words += ["-mllvm", "-loop-distribution-on-failure=fail"]
    return [part for word in words for part in ("-Xclang", word)]


def decisions(folder: Path) -> dict[str, dict[str, Any]]:
    """Of each function: the parts into which its loop was divided, and the comparisons."""
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
            last = "node" if int(episode.actions[-1]["distribute"]) else "together"
            parts.append(episode.observations[-1][last].tolist())
            function = episode.context.rpartition(":")[2]
            found[function] = {"parts": parts, "checks": checks}
    return found


def times(programs: Mapping[str, Path], rounds: int) -> dict[str, dict[str, float]]:
    """Of each way and loop, nanoseconds."""
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
    made = training_loops.loops(seed, BATCH)
    source = folder / f"loops{seed}.c"
    source.write_text(training_loops.program(made))
    programs, decided = {}, {}
    for number, (way, model) in enumerate(ways.items()):
        programs[way] = folder / f"program{seed}.{number}"
        record = folder / f"record{seed}.{number}"
        option = f"{model}{'&' if '?' in model else '?'}record={record}"
        command = ["clang-22", *FLAGS, *asking(plugin, option), source, "-o", programs[way], "-lm"]
        subprocess.run(command, check=True)
        decided[way] = decisions(record)
    spent = times(programs, rounds)
    return [
        {
            "name": f"{seed}:{loop.name}",
            "source": loop.function(),
            "trips": loop.trips,
            "iterations": loop.iterations,
            "ways": {
                way: {"ns": spent[way][loop.name], **decided[way][loop.name]} for way in ways
            },
        }
        for loop in made
        if all(loop.name in decided[way] for way in ways)
    ]


def examples(loops: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Each other division of a loop: features, trips and the logarithm of the ratio of times."""
    found = []
    for loop in loops:
        stock = loop["ways"]["never"]
        seen = []
        for its in loop["ways"].values():
            if len(its["parts"]) < 2 or its["parts"] in seen:
                continue
            seen.append(its["parts"])
            ratio = math.log(its["ns"] / stock["ns"])
            found.append(
                (np.array(stock["parts"]), np.array(its["parts"]), its["checks"], ratio, loop)
            )
    return found


def expected(example: tuple[Any, ...], w: Mapping[str, float]) -> float:
    stock, parts, checks, *_ = example
    divided = cost(parts, w).sum() + w["check"] * checks
    return math.log(divided / cost(stock, w).sum())


def loss(pairs: Sequence[tuple[Any, ...]], w: Mapping[str, float]) -> float:
    """Huber's. A gain that isn't there is worse than one that is missed."""
    total = 0.0
    for example in pairs:
        off = example[3] - expected(example, w)
        size = abs(off)
        total += (size * size / 2 if size < 0.15 else 0.15 * (size - 0.075)) * (2 if off > 0 else 1)
    return total / len(pairs)


START: Weights = {
    "latency": 1, "scalar": 0.35, "shorter": 0.2, "loop": 0.5, "vector": 0.5, "vector_loop": 0.3,
    "check": 0.05,
}  # fmt: skip


def fit(pairs: Sequence[tuple[Any, ...]], start: Weights) -> Weights:
    """One weight after the other, by steps that shrink. The scale is that of the latency."""
    best, lowest = dict(start), loss(pairs, start)
    step = 1.6
    while step > 1.02:
        better = False
        for name in (n for n in START if n != "latency"):
            for factor in (step, 1 / step):
                tried = {**best, name: max(best[name] * factor, UNIT)}
                if (its := loss(pairs, tried)) < lowest - 1e-7:
                    best, lowest, better = tried, its, True
        if not better:
            step = math.sqrt(step)
    return best


def mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def check(loops: Sequence[Mapping[str, Any]]) -> None:
    """Prints what was gained, and the loops that are slower."""
    ratios = {
        loop["name"]: loop["ways"]["model"]["ns"] / loop["ways"]["never"]["ns"] for loop in loops
    }
    divided = [k["name"] for k in loops if len(k["ways"]["model"]["parts"]) > 1]
    slow = [name for name in divided if ratios[name] > 1.02]
    print(f"{len(ratios)} loops: {mean(list(ratios.values())):.3f} geometric mean")
    print(f"{len(divided)} divided: {mean([ratios[n] for n in divided]):.3f}, {len(slow)} slower")
    for loop in loops:
        if loop["name"] in slow:
            print(f"{ratios[loop['name']]:.3f} {loop['name']} {loop['trips']} {loop['source']}")


def main() -> int:
    from mlbridge import files

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=["make", "measure", "fit", "check"])
    parser.add_argument("file", nargs="?", type=Path, help="of measured times")
    parser.add_argument("--loops", type=int, default=600)
    parser.add_argument("--first", type=int, default=1, help="seed; --loops / 30 are used")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--plugin", default=files.plugin("loop-distribution"))
    options = parser.parse_args()
    weights = json.loads((MODEL / "weights.json").read_text()) if options.what != "measure" else {}
    if options.what == "make":
        make(weights, MODEL)
        return 0
    if options.what == "fit":
        loops = json.loads(options.file.read_text())
        found = quantized({**weights, **fit(examples(loops), START)})
        print(json.dumps(found))
        return 0
    ways = {way: f"function:{way}" for way in WAYS}
    if options.what == "check":
        ways = {"never": "function:never", "model": f"native:{MODEL}/{{agent}}.onnx"}
    loops = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.first, options.first + math.ceil(options.loops / BATCH)):
            loops += measured(seed, ways, options.plugin, options.rounds, Path(folder))
            print(f"{len(loops)} loops", file=sys.stderr, flush=True)
    if options.file:
        options.file.write_text(json.dumps(loops))
    if options.what == "check":
        check(loops)
    return 0


if __name__ == "__main__":
    sys.exit(main())
