# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The policy of models/regalloc-eviction: weights as a network, and the search for the weights.

    tools/eviction_policy.py make                  policy.onnx from weights.json
    tools/eviction_policy.py search [--minutes N] [--effort N]
                                                   evolution strategy, from those weights on

The search (tools/policy_search.py) is on functions in whose allocation something may be evicted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import policy_networks as networks
from common import ROOT
from onnx import helper
from policy_networks import BOOL, FLOAT, INT64
from policy_search import Policy, Weights, arguments, llc, sample, search

MODEL = ROOT / "models" / "regalloc-eviction"
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
        helper.make_node("Cast", ["chosen"], ["bonus"], to=FLOAT),
        helper.make_node("Add", ["bonus", "self"], ["sum"]),
    ]
    total = "sum"
    used = [name for name in FEATURES if weights.get(name)]
    for name in used:
        value = name
        if name in INTEGERS:
            value = f"{name}_float"
            nodes.append(helper.make_node("Cast", [name], [value], to=FLOAT))
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
        helper.make_node("Cast", ["mask"], ["allowed"], to=BOOL),
        helper.make_node("Where", ["allowed", total, "never"], ["score"]),
        helper.make_node("ArgMax", ["score"], ["index_to_evict"], axis=1, keepdims=0),
    ]
    inputs = {"mask": (INT64, [1, WIDTH]), "eviction_default": (INT64, [1])}
    inputs |= {name: (INT64 if name in INTEGERS else FLOAT, [1, WIDTH]) for name in used}
    return networks.model(
        "regalloc-eviction",
        nodes,
        inputs,
        {"index_to_evict": (INT64, [1])},
        constants,
        {"mlbridge.weights": json.dumps(dict(weights))},
    )


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


def save(weights: Weights, folder: Path) -> str:
    path = folder / "policy.onnx"
    onnx.save(network(weights), path)
    return f"native:{path}"


POLICY = Policy("regalloc-advice", "regalloc-eviction", (*FEATURES, "self"), save)


def main() -> int:
    options = arguments(__doc__)
    weights = json.loads((MODEL / "weights.json").read_text())
    if options.what == "make":
        save(weights, MODEL)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        watching = Watching(Path(folder))

        def asked(module: Path) -> tuple[Path | None, float, float] | None:
            watching.asked.clear()
            costs = llc(POLICY, module, watching.uri)
            if not costs:
                return None
            names = [f"--func={name}" for name in watching.asked]
            inside = sum(cost for name, cost in costs.items() if name in watching.asked)
            if names:
                subprocess.run(["llvm-extract-22", *names, module, "-o", module], check=True)
            return module if names else None, inside, sum(costs.values()) - inside

        try:
            modules = sample(Path(folder), asked, options.modules)
        finally:
            watching.close()
        search(POLICY, modules, weights, options.minutes, options.effort, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
