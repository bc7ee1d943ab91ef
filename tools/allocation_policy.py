# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The networks of models/register-allocation, which decide as function:heuristic does.

tools/allocation_policy.py make [FOLDER]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from common import ROOT
from onnx import helper
from policy_networks import BOOL, FLOAT, INT64, model

MODEL = ROOT / "models" / "register-allocation"
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


def networks() -> dict[str, onnx.ModelProto]:
    """For each agent. Nothing but sums and products, so that every engine decides alike."""
    node = Graph()
    urgent = node("Mul", node.column("annotations", 0), node.number(1e30))
    made: dict[str, tuple[str, Graph, str, dict[str, Shape]]] = {
        "node": (
            "node",
            node,
            node("Add", "spill_weights", urgent),
            {"action_mask": ["N"], "spill_weights": ["N"], "annotations": ["N", 5]},
        )
    }

    task = Graph()
    executions, evicts, saved = (task.column("node_properties", at) for at in (6, 7, 8))
    none = task("Less", evicts, task.number(0))
    least = task("Where", none, executions, task("Min", evicts, executions))
    worth = task.sum([(saved, 1), (least, 1), (executions, -1)])
    split = task("Unsqueeze", worth, task.constant(np.array([0])))
    both = task("Concat", task.constant(np.zeros(1, np.float32)), split, axis=0)
    made["task"] = ("task", task, both, {"action_mask": [2], "node_properties": [9]})

    colour = Graph()
    stack = np.zeros(33, np.float32)
    stack[0] = 1
    weights = (100, -10, -1, -20)  # saves a copy, is saved first, cost, wanted by others
    terms = [(colour.column("registers", at), weight) for at, weight in enumerate(weights)]
    kept = colour("Add", colour.sum(terms), colour.constant(stack * np.float32(-1e6)))
    spent = colour("Mul", colour.constant(-stack), colour.column("node_properties", 4))
    taken = colour("Mul", colour.column("registers", 4), colour.number(-1))
    free = colour("Greater", colour.column("node_properties", 0), colour.number(0))
    score = colour("Where", free, kept, colour("Add", spent, taken))
    made["colour"] = (
        "colour",
        colour,
        score,
        {"action_mask": [33], "node_properties": [5], "registers": [33, 5]},
    )

    split_ = Graph()
    weight = split_.column("points", 0)
    score = split_("Add", weight, split_.sum([(split_.column("points", 2), -1)]))
    made["split"] = ("point", split_, score, {"action_mask": ["P"], "points": ["P", 3]})
    return {
        agent: graph.made(name, score, inputs)
        for agent, (name, graph, score, inputs) in made.items()
    }


def main() -> int:
    if sys.argv[1:2] != ["make"] or len(sys.argv) > 3:
        print(__doc__)
        return 2
    folder = Path(sys.argv[2]) if sys.argv[2:] else MODEL
    for agent, network in networks().items():
        onnx.save(network, folder / f"{agent}.onnx")
    return 0


if __name__ == "__main__":
    sys.exit(main())
