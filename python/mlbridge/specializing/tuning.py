# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The search for options of LLVM, over the recipe that leads, on this machine or on a cluster."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from .draws import Draws
from .options import FIRST, Options, read
from .recipes import Recipe
from .specialization import Settings
from .tries import BaseBuild, Tries
from .tries_on_nodes import Evaluate
from .workplace import Workplace


@dataclass
class Tuned:
    """The recipes that were tried: times over the base's, and what is wrong with those that have
    the fewest options of which the program does something else."""

    right: dict[Recipe, float] = field(default_factory=dict)
    wrong: dict[Recipe, str] = field(default_factory=dict)

    def avoids(self, recipe: Recipe) -> bool:
        """Whether it has options that are wrong."""
        return any(set(less.options) <= set(recipe.options) for less in self.wrong)


def tune(
    settings: Settings,
    place: Workplace,
    tries: Tries,
    base: BaseBuild,
    evaluator: Callable[[], AbstractContextManager[tuple[int, Evaluate]]],
    shown: Callable[[str], None],
) -> Tuned:
    """Try options until the budget is spent; tries of an earlier call aren't done again.
    `evaluator` says how many tries go on at once, and evaluates them: `here` or `nodes`.

    They go in batches of as many as go on at once, so that the same is drawn again when an
    interrupted search goes on, wherever that is."""
    draws, found = Draws(FIRST), Tuned()
    spent, number = 0.0, 0

    def draw() -> tuple[str, Recipe]:
        nonlocal number
        number += 1
        recipe = base.recipe._replace(options=draws.ask())
        return f"tune {number}: {recipe.name}", recipe

    with contextlib.ExitStack() as stack:
        opened = cache(lambda: stack.enter_context(evaluator()))  # if there is something to try
        while spent < settings.budget:
            batch = f"batch {number + 1}"
            count = place.kept(batch) if place.has(batch) else opened()[0]
            if count > 1:
                place.keep(batch, count, 0.0)
            drawn = dict(draw() for _ in range(count))
            todo = {
                step: recipe
                for step, recipe in drawn.items()
                if recipe != base.recipe and not found.avoids(recipe) and not place.has(step)
            }
            before = time.monotonic()
            for step, made in opened()[1](todo) if todo else ():
                now = time.monotonic()
                place.keep(step, made | {"spent": now - before}, made["seconds"])
                before = now
            for step, recipe in drawn.items():
                if not place.has(step):
                    draws.tell(1.0 if recipe == base.recipe else None)
                    spent += 1
                    continue
                one = place.kept(step)
                spent += one["spent"]
                if one.get("lost"):
                    draws.lose()
                else:
                    draws.tell(one["time"])
                if one["time"]:
                    found.right[recipe] = one["time"]
                elif one["wrong"]:
                    least = place.step(f"least of {step}", partial(_least_wrong, tries, recipe))
                    if least is None:
                        one = one | {"problem": f"{one['problem']}; on a node, and not here"}
                    else:
                        found.wrong[base.recipe._replace(options=read(least))] = one["problem"]
                said = f"{one['time']:.3f} of the time" if one["time"] else one["problem"]
                shown(
                    f"{recipe.name}: {said}; best {min(found.right.values(), default=1.0):.3f}, "
                    f"{spent / 60:.1f} of {settings.budget / 60:.3g} minutes"
                )
    return found


@contextlib.contextmanager
def here(tries: Tries) -> Iterator[tuple[int, Evaluate]]:
    """What evaluates tries on this machine, one at a time; `nodes` has a cluster do it."""

    def evaluated(recipes: Mapping[str, Recipe]) -> Iterator[tuple[str, dict[str, Any]]]:
        for step, recipe in recipes.items():
            yield step, tries.tried(recipe)

    yield 1, evaluated


def _least_wrong(tries: Tries, recipe: Recipe) -> Options | None:
    least = tries.least_wrong(recipe)
    return None if least is None else least.options
