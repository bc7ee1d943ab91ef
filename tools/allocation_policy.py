# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The policy of models/register-allocation: weights as four networks, and the search for them.

    tools/allocation_policy.py make                the networks from weights.json
    tools/allocation_policy.py search [--minutes N] [--effort N]
                                                   evolution strategy, from those weights on

All weights but those of START being 0, the networks decide as function:heuristic does.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from common import ROOT
from onnx import helper
from policy_networks import BOOL, FLOAT, INT64, model
from policy_search import Policy, Weights, arguments, llc, sample, search

MODEL = ROOT / "models" / "register-allocation"
#: What decides as the heuristic does.
START = {
    "task.saved": 1.0,
    "task.least": 1.0,
    "colour.hint": 1.0,
    "colour.saved_first": -1.0,
    "colour.cost": -1.0,
    "colour.wanted": -1.0,
    "colour.evicts": -1.0,
    "split.copies": -1.0,
}
#: In addition to these, which are 0 there.
NAMES = (
    *START,
    "node.neighbours",
    "node.registers",
    "node.uses",
    "node.size",
    "task.executions",
    "split.count",
)


Shape = list[int | str]


class Graph:
    """Writes a network line by line; every value is named by the line that makes it."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Any] = {}

    def __call__(self, kind: str, *inputs: str, **attributes: Any) -> str:
        made = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [made], **attributes))
        return made

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def number(self, value: float) -> str:
        return self.constant(np.float32(value))

    def column(self, of: str, which: int) -> str:
        return self("Gather", of, self.constant(np.int64(which)), axis=-1)

    def sum(self, terms: Sequence[tuple[str, float]]) -> str:
        """Of the values times their weights."""
        total = ""
        for value, weight in terms:
            if not weight and (total or len(terms) > 1):
                continue
            term = self("Mul", value, self.number(weight))
            total = self("Add", total, term) if total else term
        return total

    def made(self, name: str, score: str, inputs: Mapping[str, Shape]) -> onnx.ModelProto:
        """The highest score among what is allowed."""
        never = self.number(-3e38)
        best = self("Where", "action_mask", score, never)
        self.nodes.append(helper.make_node("ArgMax", [best], [name], axis=0, keepdims=0))
        specs = {
            key: (BOOL if key == "action_mask" else FLOAT, shape) for key, shape in inputs.items()
        }
        return model(name, self.nodes, specs, {name: (INT64, [])}, self.constants)


def networks(weights: Mapping[str, float]) -> dict[str, onnx.ModelProto]:
    """For each agent. Nothing but sums and products, so that every engine decides alike."""

    def of(name: str) -> float:
        return weights.get(name, 0.0)

    node = Graph()
    terms = []
    for at, name, scale in (
        (1, "neighbours", 64),
        (2, "registers", 32),
        (3, "uses", 16),
        (4, "size", 256),
    ):
        if of(f"node.{name}"):
            part = node("Mul", node.column("annotations", at), node.number(1 / scale))
            terms.append((node("Min", part, node.number(1)), of(f"node.{name}")))
    score = "spill_weights"
    if terms:
        factor = node("Add", node.sum(terms), node.number(1))
        score = node("Mul", score, factor)
    urgent = node("Mul", node.column("annotations", 0), node.number(1e30))
    made: dict[str, tuple[str, Graph, str, dict[str, Shape]]] = {
        "node": (
            "node",
            node,
            node("Add", score, urgent),
            {"action_mask": ["N"], "spill_weights": ["N"], "annotations": ["N", 5]},
        )
    }

    task = Graph()
    executions, evicts, saved = (task.column("node_properties", at) for at in (6, 7, 8))
    none = task("Less", evicts, task.number(0))
    least = task("Where", none, executions, task("Min", evicts, executions))
    worth = task.sum(
        [
            (saved, of("task.saved")),
            (least, of("task.least")),
            (executions, of("task.executions") - 1),
        ]
    )
    split = task("Unsqueeze", worth, task.constant(np.array([0])))
    both = task("Concat", task.constant(np.zeros(1, np.float32)), split, axis=0)
    made["task"] = ("task", task, both, {"action_mask": [2], "node_properties": [9]})

    colour = Graph()
    stack = np.zeros(33, np.float32)
    stack[0] = 1
    terms = [
        (colour.column("registers", at), of(f"colour.{name}") * scale)
        for at, name, scale in (
            (0, "hint", 100),
            (1, "saved_first", 10),
            (2, "cost", 1),
            (3, "wanted", 20),
        )
    ]
    kept = colour("Add", colour.sum(terms), colour.constant(stack * np.float32(-1e6)))
    spent = colour("Mul", colour.constant(-stack), colour.column("node_properties", 4))
    taken = colour("Mul", colour.column("registers", 4), colour.number(of("colour.evicts")))
    free = colour("Greater", colour.column("node_properties", 0), colour.number(0))
    score = colour("Where", free, kept, colour("Add", spent, taken))
    made["colour"] = (
        "colour",
        colour,
        score,
        {"action_mask": [33], "node_properties": [5], "registers": [33, 5]},
    )

    split_ = Graph()
    score = split_(
        "Add",
        split_.column("points", 0),
        split_.sum(
            [
                (split_.column("points", 2), of("split.copies")),
                (split_.column("points", 1), of("split.count")),
            ]
        ),
    )
    made["split"] = ("point", split_, score, {"action_mask": ["P"], "points": ["P", 3]})
    return {
        agent: graph.made(name, score, inputs)
        for agent, (name, graph, score, inputs) in made.items()
    }


def save(weights: Weights, folder: Path) -> str:
    for agent, network in networks(weights).items():
        onnx.save(network, folder / f"{agent}.onnx")
    return f"native:{folder}/{{agent}}.onnx"


POLICY = Policy("register-allocation", "register-allocation", NAMES, save)


def main() -> int:
    options = arguments(__doc__)
    stored = MODEL / "weights.json"
    weights = json.loads(stored.read_text()) if stored.is_file() else START
    if options.what == "make":
        save(weights, MODEL)
        return 0

    def spilling(module: Path) -> tuple[Path | None, float, float] | None:
        costs = llc(POLICY, module, None)
        return (module, sum(costs.values()), 0) if costs else None

    with tempfile.TemporaryDirectory() as folder:
        modules = sample(Path(folder), spilling, options.modules)
        search(POLICY, modules, weights, options.minutes, options.effort, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
