# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The weights of this folder as a network, and the search for the weights.

    models/regalloc-eviction/make.py make                  policy.onnx from weights.json
    models/regalloc-eviction/make.py search [--minutes N] [--effort N]
                                                   evolution strategy, from those weights on

The search (models/shared/search.py) is on functions in whose allocation something may be evicted.
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

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "shared"))
from onnx_text import network as network_of
from search import Policy, Weights, arguments, llc, sample, search

HERE = Path(__file__).resolve().parent
WIDTH = 33
INTEGERS = ("is_free", "is_hint", "is_local", "max_stage", "min_stage")
#: What weights can be given to, in addition to `self`: not to evict anything.
FEATURES = (
    *INTEGERS,
    *(
        "nr_urgent nr_broken_hints nr_rematerializable nr_defs_and_uses weighed_reads_by_max "
        "weighed_writes_by_max weighed_read_writes_by_max weighed_indvars_by_max "
        "hint_weights_by_max start_bb_freq_by_max end_bb_freq_by_max hottest_bb_freq_by_max "
        "liverange_size use_def_density"
    ).split(),
)


def network(weights: Mapping[str, float]) -> onnx.ModelProto:
    """Evicts what has the greatest sum of weighted features among what may be evicted; what LLVM's
    heuristic would evict has 1 more. Takes no inputs but those with a weight."""
    used = [name for name in FEATURES if weights.get(name)]
    inputs = [f"{'int64' if name in INTEGERS else 'float'}[1, {WIDTH}] {name}" for name in used]
    lines = []
    total = "sum"
    for name in used:
        value = name
        if name in INTEGERS:
            value = f"{name}_float"
            lines.append(f"{value} = Cast <to = 1> ({name})")
        elif name == "use_def_density":  # NaN where it is infinite
            value = "density"
            lines.append(f"endless = IsNaN ({name})")
            lines.append(f"finite = Where (endless, none, {name})")
            lines.append(f"{value} = Min (finite, one)")
        lines.append(f"{name}_term = Mul ({value}, {name}_weight)")
        lines.append(f"{name}_sum = Add ({total}, {name}_term)")
        total = f"{name}_sum"
    terms = "\n".join(lines)
    graph = f"""
    "regalloc-eviction" (int64[1, {WIDTH}] mask, int64[1] eviction_default, {", ".join(inputs)})
      => (int64[1] index_to_evict)
    <float never = {{-3e38}}, float none = {{0}}, float one = {{1}}> {{
      chosen = Equal (positions, eviction_default)
      bonus = Cast <to = 1> (chosen)
      sum = Add (bonus, self)
      {terms}
      allowed = Cast <to = 9> (mask)
      score = Where (allowed, {total}, never)
      index_to_evict = ArgMax <axis = 1, keepdims = 0> (score)
    }}"""
    constants = {
        "positions": np.arange(WIDTH)[None],
        "self": np.eye(1, WIDTH, WIDTH - 1, dtype=np.float32) * weights.get("self", 0),
        **{f"{name}_weight": np.float32(weights[name]) for name in used},
    }
    return network_of(graph, constants, {"mlbridge.weights": json.dumps(dict(weights))})


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
        self.asked.add(context.unit)
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
    weights = json.loads((HERE / "weights.json").read_text())
    if options.what == "make":
        save(weights, HERE)
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
