# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The policy of models/regalloc-eviction: weights as a network, and the search for the weights.

    tools/eviction_policy.py make                  policy.onnx from weights.json
    tools/eviction_policy.py search [--minutes N] [--effort N]
                                                   evolution strategy, from those weights on

The search compiles modules of the training programs (`python3 -m programs.corpus training`) at -O2,
and compares with LLVM what their spills, reloads and copies cost. It prints the weights whenever
they are better than before.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from common import BUILD, ROOT, jobs
from onnx import TensorProto, helper, numpy_helper

from mlbridge.spills import spill_costs

MODEL = ROOT / "models" / "regalloc-eviction"
CORPUS = BUILD / "programs" / "corpus"
WIDTH = 33
INTEGERS = ("is_free", "is_hint", "is_local", "max_stage", "min_stage")
#: What weights can be given to, in addition to `self`: not to evict anything.
FEATURES = (
    *INTEGERS,
    "nr_urgent",
    "nr_broken_hints",
    "nr_rematerializable",
    "nr_defs_and_uses",
    "weighed_reads_by_max",
    "weighed_writes_by_max",
    "weighed_read_writes_by_max",
    "weighed_indvars_by_max",
    "hint_weights_by_max",
    "start_bb_freq_by_max",
    "end_bb_freq_by_max",
    "hottest_bb_freq_by_max",
    "liverange_size",
    "use_def_density",
)
#: Seconds for one module; modules of a program; bytes of a module.
LIMIT, MOST, LARGEST = 60, 20, 600_000
Weights = dict[str, float]


def network(weights: Mapping[str, float]) -> onnx.ModelProto:
    """Evicts what has the greatest sum of weighted features among what may be evicted; what LLVM's
    heuristic would evict has 1 more. Takes no inputs but those with a weight."""
    constants: dict[str, Any] = {
        "positions": np.arange(WIDTH)[None],
        "never": np.float32(-3e38),
        "self": np.eye(1, WIDTH, WIDTH - 1, dtype=np.float32) * weights.get("self", 0),
    }
    nodes = [
        helper.make_node("Equal", ["positions", "eviction_default"], ["chosen"]),
        helper.make_node("Cast", ["chosen"], ["bonus"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["bonus", "self"], ["sum"]),
    ]
    total = "sum"
    used = [name for name in FEATURES if weights.get(name)]
    for name in used:
        value = name
        if name in INTEGERS:
            value = f"{name}_float"
            nodes.append(helper.make_node("Cast", [name], [value], to=TensorProto.FLOAT))
        elif name == "use_def_density":  # NaN where it is infinite
            constants |= {"none": np.float32(0), "one": np.float32(1)}
            nodes.append(helper.make_node("IsNaN", [name], ["endless"]))
            nodes.append(helper.make_node("Where", ["endless", "none", name], ["finite"]))
            value = "density"
            nodes.append(helper.make_node("Min", ["finite", "one"], [value]))
        constants[f"{name}_weight"] = np.float32(weights[name])
        nodes.append(helper.make_node("Mul", [value, f"{name}_weight"], [f"{name}_term"]))
        nodes.append(helper.make_node("Add", [total, f"{name}_term"], [f"{name}_sum"]))
        total = f"{name}_sum"
    nodes += [
        helper.make_node("Cast", ["mask"], ["allowed"], to=TensorProto.BOOL),
        helper.make_node("Where", ["allowed", total, "never"], ["score"]),
        helper.make_node("ArgMax", ["score"], ["index_to_evict"], axis=1, keepdims=0),
    ]
    tensor = helper.make_tensor_value_info
    inputs = [
        tensor("mask", TensorProto.INT64, [1, WIDTH]),
        tensor("eviction_default", TensorProto.INT64, [1]),
    ]
    for name in used:
        kind = TensorProto.INT64 if name in INTEGERS else TensorProto.FLOAT
        inputs.append(tensor(name, kind, [1, WIDTH]))
    graph = helper.make_graph(
        nodes,
        "regalloc-eviction",
        inputs,
        [tensor("index_to_evict", TensorProto.INT64, [1])],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(made, {"mlbridge.weights": json.dumps(dict(weights))})
    onnx.checker.check_model(made)
    return made


@dataclass(frozen=True)
class Asking:
    """The functions of a module in whose allocation something may be evicted."""

    program: str
    module: Path
    #: Of LLVM, in these functions and in the module's others.
    cost: float
    others: float


def llc(module: Path, model: str, effort: int = 0) -> dict[str, float] | None:
    """What spills cost in each function; None if the module can't be compiled in time."""
    from mlbridge import files

    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record.yaml"
        command = ["llc-22", "-O2", "-relocation-model=pic", "-filetype=null", str(module)]
        command += [f"-pass-remarks-output={record}", "-pass-remarks-filter=regalloc", "-o", "-"]
        command += ["-load", files.plugin("regalloc-advice"), f"-regalloc-eviction-model={model}"]
        command += ["-regalloc-eviction-on-failure=fail", f"-regalloc-eviction-effort={effort}"]
        try:
            done = subprocess.run(command, capture_output=True, timeout=LIMIT, check=False)
        except subprocess.TimeoutExpired:
            return None
        return None if done.returncode else spill_costs(record)


class Watching:
    """A server that answers as LLVM would, and knows for which functions it was asked."""

    def __init__(self, folder: Path) -> None:
        import mlbridge

        self.uri = f"unix:{folder / 'watching'}"
        self.asked: set[str] = set()
        self._server = mlbridge.Server(self.uri)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(self._answer,))
        self._thread.start()

    def _answer(self, features: Mapping[str, Any], context: Any) -> Any:
        self.asked.add(context.context)
        default = features["eviction_default"]
        free = np.flatnonzero(features["mask"].reshape(WIDTH))
        return default if default[0] in free else free[:1]

    def close(self) -> None:
        self._server.stop()
        self._thread.join()


def sample(folder: Path) -> list[Asking]:
    """Of the training programs' modules, as the middle end at -O2 leaves them."""
    from tqdm import tqdm

    from mlbridge import corpus

    training = corpus.open(CORPUS).part("training")
    of_program: Counter[str] = Counter()
    found: list[Asking] = []
    watching = Watching(folder)
    try:
        for stored in tqdm(training, unit="module", file=sys.stderr):
            if of_program[stored.program] == MOST:
                continue
            source, module = folder / "source.bc", folder / f"{stored.hash}.bc"
            source.write_bytes(training.read(stored))
            subprocess.run(["opt-22", "-passes=default<O2>", source, "-o", module], check=True)
            watching.asked.clear()
            if module.stat().st_size > LARGEST or not (costs := llc(module, watching.uri)):
                continue
            of_program[stored.program] += 1
            asked = set(watching.asked)
            inside = sum(cost for name, cost in costs.items() if name in asked)
            others = sum(costs.values()) - inside
            if asked:
                names = [f"--func={name}" for name in asked]
                subprocess.run(["llvm-extract-22", *names, module, "-o", module], check=True)
            found.append(Asking(stored.program, module if asked else Path(), inside, others))
    finally:
        watching.close()
    return found


def ratios(modules: list[Asking], weights: Weights, effort: int, folder: Path) -> dict[str, float]:
    """Of each program, to LLVM: one is added to both costs, so that there is a ratio."""
    path = folder / "policy.onnx"
    onnx.save(network(weights), path)

    def cost(module: Asking) -> float:
        if module.module == Path():
            return module.others
        costs = llc(module.module, f"native:{path}", effort)
        return module.others + (2 * module.cost if costs is None else sum(costs.values()))

    with ThreadPoolExecutor(jobs()) as pool:
        costs = list(pool.map(cost, modules))
    mine: defaultdict[str, float] = defaultdict(float)
    usual: defaultdict[str, float] = defaultdict(float)
    for module, its in zip(modules, costs, strict=True):
        mine[module.program] += its
        usual[module.program] += module.cost + module.others
    return {program: (mine[program] + 1) / (usual[program] + 1) for program in usual}


def value(found: Mapping[str, float]) -> float:
    """The mean logarithm, where no program counts for more than a gain of a third, and half of what
    it loses above 5 % counts once more."""
    logs = [math.log(ratio) for ratio in found.values()]
    return sum(max(x, -0.4) + 0.5 * max(0.0, x - 0.05) for x in logs) / len(logs)


def search(
    modules: list[Asking], start: Weights, minutes: float, effort: int, folder: Path
) -> None:
    """A (1+1) evolution strategy: some weights are changed at random, or removed, there or the
    opposite way; steps grow when that helps."""
    rng = np.random.default_rng(0)
    names = [*FEATURES, "self"]
    best = np.array([start.get(name, 0.0) for name in names])

    def tried(weights: Any) -> float:
        stated = {n: round(float(w), 3) for n, w in zip(names, weights, strict=True) if w}
        found = ratios(modules, stated, effort, folder)
        its = value(found)
        worst = max(found, key=found.__getitem__)
        mean = math.exp(sum(map(math.log, found.values())) / len(found))
        note = f"{mean:.4f}, at most {found[worst]:.3f} ({worst})"
        print(f"{its:+.5f}: {note} {json.dumps(stated) if its < lowest else ''}", flush=True)
        return its

    lowest = math.inf
    lowest = tried(best)
    until, step = time.monotonic() + 60 * minutes, 0.6
    while time.monotonic() < until:
        chosen = rng.random(len(names)) < 0.15
        change = chosen * (-best if rng.random() < 0.25 else step * rng.standard_normal(len(names)))
        if not change.any():
            continue
        better = False
        for sign in (1, -1):
            if (its := tried(best + sign * change)) < lowest:
                best, lowest, better = best + sign * change, its, True
                break
        step = min(1.5, max(0.08, step * (1.25 if better else 0.93)))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=["make", "search"])
    parser.add_argument("--minutes", type=float, default=60, help="of the search")
    parser.add_argument("--effort", type=int, default=0, help="with which policies are compared")
    options = parser.parse_args()
    weights = json.loads((MODEL / "weights.json").read_text())
    if options.what == "make":
        onnx.save(network(weights), MODEL / "policy.onnx")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        modules = sample(Path(folder))
        search(modules, weights, options.minutes, options.effort, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
