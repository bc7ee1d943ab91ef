# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The data of a training of agents: single functions, the costs of stock LLVM's code for them, and
the decisions of the built-in heuristic in them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..corpus.resolve import module_files, opened
from ..errors import DeadlineExceeded, InvalidArgument, PolicyFailed
from ..process_runner import run_tool
from ..recording import Episode, Recording, Tensors
from .optimizations import TrainedAgents

HEURISTIC, RANDOM = "function:heuristic", "function:random"
LIMIT = 60.0  # seconds for one compile
#: One in so many programs or modules is kept apart.
APART = 5
#: The most functions of one module, so that there are several modules.
SHARE = 8
#: The most decisions in one function, and of one agent in all.
LONGEST, MOST = 600, 5_000
#: The most functions that are compiled for each one that is wanted.
TRIES = 4
#: Instead of a cost of 0, of which there is no logarithm.
TINY = 1e-6
FAILED = (PolicyFailed, DeadlineExceeded, InvalidArgument)


class Costs(NamedTuple):
    """The costs of a function's code by stock LLVM, and with the heuristic."""

    stock: float
    heuristic: float


@dataclass
class Part:
    """Functions as modules of their own, and each agent's decisions: inputs and choice."""

    functions: dict[str, Costs] = field(default_factory=dict)
    decisions: dict[str, list[tuple[Tensors, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )


@dataclass
class Prepared:
    """A part for training, a part kept apart, and the counts of what was left out, by reason."""

    training: Part = field(default_factory=Part)
    apart: Part = field(default_factory=Part)
    left_out: Counter[str] = field(default_factory=Counter)


def compiled(optimization: TrainedAgents, module: str, uri: str, folder: Path) -> float:
    """Compiles a module; the cost of its code. PolicyFailed if the compiler fails."""
    command = optimization.command(module, uri)
    run_tool(command, folder, timeout=LIMIT, what=module, error=PolicyFailed)
    return optimization.cost(folder)


def prepare(
    optimization: TrainedAgents,
    corpus: Any,
    folder: Path,
    *,
    part: str = "",
    functions: int = 64,
    rows: int = 256,
    seed: int = 0,
) -> Prepared:
    """Functions in `folder` in which agents decide, with at most `rows` choices for a decision; at
    most `functions` to train on, and a fourth of that apart. Modules that don't compile are left
    out; InvalidArgument if nothing is left."""
    folder.mkdir()
    prepared = Prepared()
    modules = list(_modules(corpus, part))
    groups = sorted({group for group, _ in modules})
    order = np.random.default_rng(seed)
    order.shuffle(groups)
    kept_apart = set(groups[APART - 1 :: APART] or groups[1:2])
    for number, at in enumerate(order.permutation(len(modules))):
        group, read = modules[at]
        to, most = prepared.training, functions
        if group in kept_apart:
            to, most = prepared.apart, max(1, functions // 4)
        if len(to.functions) < most:
            work = folder / str(number)
            work.mkdir()
            left = min(most - len(to.functions), math.ceil(most / min(SHARE, len(groups))))
            try:
                _add(optimization, read(work), work, left, rows, to, prepared.left_out)
            except FAILED as error:
                prepared.left_out[f"modules: {type(error).__name__}"] += 1
    if not prepared.training.functions:
        raise InvalidArgument(
            f"{corpus}: there is no function in which the agents of {optimization.name} decide"
            + "".join(f"; {count} {why}" for why, count in prepared.left_out.items())
        )
    return prepared


def _modules(corpus: Any, part: str) -> Iterator[tuple[str, Any]]:
    """The group of each module, which is kept apart as a whole, and a function that gives the
    module's file, in a folder."""
    collection = opened(corpus, part)
    if collection is None:
        for file in module_files(corpus):
            yield file, lambda folder, file=file: file
        return
    modules = list(collection)
    programs = {module.program for module in modules}
    for module in modules:
        group = module.program if len(programs) > 1 else module.hash
        yield group, lambda folder, module=module: str(collection.extract(module, folder))


def _tool(*command: str) -> str:
    return run_tool(command, timeout=LIMIT, error=PolicyFailed).stdout.text


def _add(
    optimization: TrainedAgents,
    module: str,
    work: Path,
    most: int,
    rows: int,
    to: Part,
    left_out: Counter[str],
) -> None:
    """Adds the functions of one module in which most is decided, if they cost anything, and the
    decisions in all functions."""
    whole, recordings = str(work / "whole.bc"), work / "recordings"
    _tool("opt-22", *optimization.pipeline, module, "-o", whole)
    compiled(optimization, whole, f"{HEURISTIC}?record={recordings}", work)
    by_function: defaultdict[str, list[Episode]] = defaultdict(list)
    for file in sorted(recordings.iterdir()) if recordings.is_dir() else ():
        for episode in Recording(file).episodes():
            if len(episode):
                by_function[episode.unit.rpartition(":")[2]].append(episode)
        file.unlink()
    eligible = {}
    for function, episodes in by_function.items():
        if sum(map(len, episodes)) > LONGEST or max(map(_widest, episodes)) > rows:
            left_out["functions with too many choices"] += 1
        else:
            eligible[function] = episodes
    for number, function in enumerate(sorted(eligible, key=lambda name: _rank(eligible[name]))):
        for episode in eligible[function]:
            _keep(to, episode)
        if number < TRIES * most and most:
            alone = str(work / f"{number}.bc")
            try:
                _tool("llvm-extract-22", f"--func={function}", whole, "-o", alone)
                costs = [compiled(optimization, alone, uri, work) for uri in ("", HEURISTIC)]
            except FAILED:
                left_out["functions that can't be extracted"] += 1
                continue
            if costs[0] > 0:
                to.functions[alone] = Costs(*costs)
                most -= 1
            else:
                left_out["functions that cost nothing"] += 1


def _rank(episodes: list[Episode]) -> tuple[int, int]:
    """Puts functions first in which most agents are asked: without pressure none can do better."""
    return -len({episode.agent for episode in episodes}), -sum(map(len, episodes))


def _widest(episode: Episode) -> int:
    return max(seen["action_mask"].size for seen in episode.observations)


def _keep(to: Part, episode: Episode) -> None:
    for seen, action in zip(episode.observations, episode.actions, strict=True):
        [choice] = action.values()
        if len(to.decisions[episode.agent]) < MOST:
            to.decisions[episode.agent].append((seen, int(choice)))


def reward(optimization: TrainedAgents, stock: float, cost: float) -> float:
    """0 for the cost of stock LLVM's code, 0.1 for about a tenth less."""
    least = optimization.least
    return math.log((stock + least) / (max(cost, TINY) + least))


def rewards(optimization: TrainedAgents, part: Part, uri: str, folder: Path) -> list[float]:
    """The reward of each function with the agents at the URI; if the compiler fails, that of twice
    stock LLVM's cost."""
    gains = []
    for file, known in part.functions.items():
        try:
            cost = compiled(optimization, file, uri, folder)
        except FAILED:
            cost = 2 * known.stock
        gains.append(reward(optimization, known.stock, cost))
    return gains
