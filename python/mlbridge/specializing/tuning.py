# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The search for options of LLVM, over the recipe that leads, on this machine or on a cluster."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import Error
from .draws import Draws
from .options import FIRST, read
from .recipes import Recipe
from .specialization import Settings
from .tries import Base, Tries
from .tries_on_nodes import Evaluate, on_nodes
from .workplace import Workplace


@dataclass
class Tuned:
    """Of the recipes that were tried: times over the base's, and what is wrong with those that have
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
    base: Base,
    major: str,
    shown: Callable[[str], None],
) -> Tuned:
    """Try options until the budget is spent; tries of an earlier call aren't done again."""
    draws, found = Draws(FIRST), Tuned()
    spent, number = 0.0, 0

    def draw() -> tuple[str, Recipe]:
        nonlocal number
        number += 1
        recipe = base.recipe._replace(options=draws.ask())
        return f"tune {number}: {recipe.name}", recipe

    with _evaluator(settings, place, tries, base, major, shown) as (most, evaluate):
        while spent < settings.budget:
            step, recipe = draw()
            count = place.kept(step)["at once"] if place.has(step) else most
            drawn = {step: recipe, **dict(draw() for _ in range(count - 1))}
            before = time.monotonic()
            for step, made in evaluate(
                {
                    step: recipe
                    for step, recipe in drawn.items()
                    if recipe != base.recipe and not found.avoids(recipe) and not place.has(step)
                }
            ):
                now = time.monotonic()
                kept = made | {"at once": count, "spent": now - before}
                place.keep(step, kept, made["seconds"])
                before = now
            for step, recipe in drawn.items():
                if not place.has(step):
                    draws.tell(1.0 if recipe == base.recipe else None)
                    spent += 1
                    continue
                one = place.kept(step)
                spent += one["spent"]
                draws.tell(one["time"])
                if one["time"]:
                    found.right[recipe] = one["time"]
                elif one["wrong"]:
                    least = base.recipe._replace(options=read(one["wrong"]))
                    found.wrong[least] = one["problem"]
                    _must_be_there(place, tries, least)
                said = f"{one['time']:.3f} of the time" if one["time"] else one["problem"]
                shown(
                    f"{recipe.name}: {said}; best {min(found.right.values(), default=1.0):.3f}, "
                    f"{spent / 60:.1f} of {settings.budget / 60:.3g} minutes"
                )
    return found


@contextlib.contextmanager
def _evaluator(
    settings: Settings,
    place: Workplace,
    tries: Tries,
    base: Base,
    major: str,
    shown: Callable[[str], None],
) -> Iterator[tuple[int, Evaluate]]:
    """How many tries go on at once, and what evaluates them."""
    if settings.cluster:
        with on_nodes(settings, place, base, major, shown) as both:
            yield both
        return

    def here(recipes: Mapping[str, Recipe]) -> Iterator[tuple[str, dict[str, Any]]]:
        for step, recipe in recipes.items():
            yield step, tries.tried(recipe)

    yield 1, here


def _must_be_there(place: Workplace, tries: Tries, wrong: Recipe) -> None:
    """Build a wrong program here, which a node may have found."""
    if not place.tree_of(wrong).is_dir():
        with contextlib.suppress(Error):
            tries.build(wrong)
