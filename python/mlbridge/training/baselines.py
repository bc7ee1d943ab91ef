# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Figures of -Oz and of random choices on the modules of a training, with which its policy is
compared, and a warning if these modules are not what -Oz compiles."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..corpus.adding import level_of
from ..corpus.resolve import module_files, opened
from ..errors import Error
from ..process_runner import run
from .environment import PHASE_ORDERING, make

FILE = "baselines.json"
#: Episodes of random choices.
EPISODES = 24
#: The number of modules in files whose functions' marks are looked at, and seconds for one.
LOOKED_AT, LIMIT = 12, 60.0

Figures = dict[str, float]


def measured(environment: str, options: Mapping[str, Any], seed: int) -> dict[str, Figures]:
    """`reward` and `over_oz` of "random" and "-Oz", where bytes are measured; means of the same
    episodes. Empty for other environments, and if no episode can be played."""
    if environment != PHASE_ORDERING or "corpus" not in options:
        return {}
    try:
        env = make(environment, options)
        try:
            return _played(env, np.random.default_rng(seed), seed)
        finally:
            env.close()
    except Error:  # a training says what is wrong
        return {}


def _played(env: Any, choices: np.random.Generator, seed: int) -> dict[str, Figures]:
    totals: Counter[str] = Counter()
    stock: list[float] = []
    for number in range(EPISODES):
        # The seed is the first episode's; the modules of the others follow from it.
        _, first = env.reset(seed=seed if number == 0 else None)
        over, info = False, first
        while not over:
            action = choices.choice(np.flatnonzero(env.action_masks()))
            _, _, terminated, truncated, info = env.step(int(action))
            over = terminated or truncated
        totals.update(info["totals"])
        if "oz_code_bytes" in first and env.unwrapped.measures_size:
            before = max(1, int(first["code_bytes"][0]))
            stock.append((before - int(first["oz_code_bytes"][0])) / before)
    figures = {"random": {"reward": totals["rewards"] / totals["episodes"]}}
    if totals["sizes"]:
        figures["random"]["over_oz"] = math.exp(totals["log_over_oz"] / totals["sizes"])
        figures["-Oz"] = {"over_oz": 1.0}
        if stock:
            figures["-Oz"]["reward"] = sum(stock) / len(stock)
    return figures


def warning(environment: str, options: Mapping[str, Any]) -> str:
    """A warning about modules that were not compiled at -Oz, if bytes over -Oz are learned; else
    ""."""
    if environment != PHASE_ORDERING or "corpus" not in options:
        return ""
    try:
        levels = _levels(options["corpus"], options.get("part", ""))
    except Error:  # the environment says what is wrong
        return ""
    total = sum(levels.values())
    if not (others := total - levels["-Oz"]):
        return ""
    named = ", ".join(f"{n} at {level}" for level, n in sorted(levels.items()) if level != "-Oz")
    return (
        f"{others} of {total} modules were not compiled at -Oz ({named}): their functions are not "
        "marked as -Oz marks them, so the figures over -Oz are better than what the policy does in "
        "a build at -Oz; collect the corpus from a build with -Oz (CFLAGS=-Oz CXXFLAGS=-Oz)"
    )


def _levels(corpus: Any, part: str) -> Counter[str]:
    modules = opened(corpus, part)
    if modules is not None:
        return Counter(f"-O{level_of(module.flags)}" for module in modules)
    listed = module_files(corpus)
    return Counter(_marked(Path(file)) for file in listed[:: max(1, len(listed) // LOOKED_AT)])


def _marked(module: Path) -> str:
    """The level of a module's functions by their attributes, which those above -Os lack."""
    try:
        command = ["opt-22", "-S", "-passes=", "-o", "-", str(module)]
        text = run(command, timeout=LIMIT, keep=1 << 30).stdout.head
    except Error:
        return "-Oz"  # the module can't be read, so nothing is learned from it
    if b"\ndefine " not in text or b"minsize" in text:
        return "-Oz"
    return "-Os" if b"optsize" in text else "another level"


def card_lines(figures: Mapping[str, Figures], last: Mapping[str, Any]) -> list[str]:
    """The table of a card: the trained policy beside the figures that it is compared with."""
    if not figures:
        return []

    def row(name: str, values: Mapping[str, Any]) -> str:
        cells = (values.get(key) for key in ("reward", "over_oz"))
        return f"| {name} | {' | '.join('-' if c is None else f'{c:.4f}' for c in cells)} |"

    return [
        "| policy | reward of an episode | bytes over -Oz |",
        "|---|---|---|",
        row("trained, in the last iteration", last),
        row(f"random, {EPISODES} episodes", figures.get("random", {})),
        row("-Oz", figures.get("-Oz", {})),
        "",
    ]
