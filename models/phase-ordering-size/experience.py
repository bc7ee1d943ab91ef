# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is known of each training file: the states that orders of groups led to, and their sizes.

Passes are deterministic, so the episodes of a file form a tree. A state's value is the best size
seen below it; that gives each action tried in a state a cost, and the policy learns from those.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Sequence = tuple[int, ...]
STEP_COST = 0.0015  # in log size: a group that gains less isn't worth its compile time
IDLE_COST = 0.002  # a group that changes nothing
WORST = 0.3  # larger losses are all the same


@dataclass
class State:
    """The module after a sequence. `size`: executable bytes, if measured; `digest`: what it is."""

    observation: NDArray[np.float32] | None = None
    size: int | None = None
    digest: str = ""


@dataclass
class Tree:
    """All that was tried on one file."""

    program: str
    name: str
    oz_text: int
    states: dict[Sequence, State] = field(default_factory=dict)

    def add(
        self,
        sequence: Sequence,
        observation: NDArray[np.float32] | None = None,
        size: int | None = None,
        digest: str = "",
    ) -> None:
        """Add what is known of the state after `sequence`."""
        state = self.states.setdefault(sequence, State())
        if observation is not None:
            state.observation = observation
        if size is not None:
            state.size = size
        state.digest = digest or state.digest

    def merge(self, other: Tree) -> None:
        """Add what another tree of the same file knows."""
        for sequence, state in other.states.items():
            self.add(sequence, state.observation, state.size, state.digest)

    def best(self) -> tuple[float, Sequence]:
        """The smallest size over that of -Oz, and the shortest sequence to it."""
        sizes = [
            (state.size / self.oz_text, len(sequence), sequence)
            for sequence, state in self.states.items()
            if state.size is not None
        ]
        ratio, _, sequence = min(sizes, default=(math.inf, 0, ()))
        return ratio, sequence

    def costs(self, stop: int) -> dict[Sequence, dict[int, float]]:
        """For each state with an observation: log size over -Oz of the best end after an action."""
        children: dict[Sequence, list[Sequence]] = {}
        for sequence in self.states:
            for length in range(1, len(sequence) + 1):
                known = children.setdefault(sequence[: length - 1], [])
                if sequence[:length] not in known:
                    known.append(sequence[:length])
        value: dict[Sequence, float] = {}
        result: dict[Sequence, dict[int, float]] = {}
        for sequence in sorted(set(children) | set(self.states), key=len, reverse=True):
            state = self.states.get(sequence, State())
            costs: dict[int, float] = {}
            if state.size is not None:
                costs[stop] = math.log(max(state.size, 1) / self.oz_text)
            for child in children.get(sequence, ()):
                if child not in value:
                    continue
                after = self.states.get(child, State()).digest
                idle = bool(after) and after == state.digest
                costs[child[-1]] = value[child] + STEP_COST + (IDLE_COST if idle else 0.0)
            if costs:
                value[sequence] = min(costs.values())
            if len(costs) > 1 and state.observation is not None:
                result[sequence] = costs
        return result


def read(path: Path) -> Iterator[Tree]:
    """Trees of a file written by `write_line`; a line cut short by an interruption ends it."""
    try:
        with gzip.open(path, "rt") as lines:
            for line in lines:
                item = json.loads(line)
                tree = Tree(item["program"], item["name"], item["oz_text"])
                for sequence, size, digest, observation in item["states"]:
                    values = np.array(observation, np.float32) if observation else None
                    tree.add(tuple(sequence), values, size, digest)
                yield tree
    except (EOFError, json.JSONDecodeError):
        return


def line(tree: Tree) -> str:
    """A tree as one line of JSON."""
    states = [
        [
            list(sequence),
            state.size,
            state.digest,
            [] if state.observation is None else [float(f"{x:.7g}") for x in state.observation],
        ]
        for sequence, state in tree.states.items()
    ]
    item = {"program": tree.program, "name": tree.name, "oz_text": tree.oz_text, "states": states}
    return json.dumps(item, separators=(",", ":")) + "\n"


def gather(paths: Iterable[Path]) -> dict[str, Tree]:
    """All trees of several files, those of the same training file merged."""
    trees: dict[str, Tree] = {}
    for path in paths:
        for tree in read(path):
            if tree.name in trees:
                trees[tree.name].merge(tree)
            else:
                trees[tree.name] = tree
    return trees
