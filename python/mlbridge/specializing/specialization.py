# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a specialization is asked for, and what it has found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InvalidArgument
from ..ratio import Ratio
from .choosing import OBJECTIVES, Measured
from .recipes import LEVERS, Recipe, recipes

#: How the problem of a recipe begins whose program does something else.
WRONG = "wrong"
#: The variables that builds add to what they are told.
VARIABLES = ("CFLAGS", "CXXFLAGS", "LDFLAGS")


@dataclass(frozen=True)
class Settings:
    """A program, and what it is to be made better at.

    `prepare`, `build`, `check` and the runs are commands for the shell, in a copy of the tree; the
    first three find $CC, $CXX, $CFLAGS and $CXXFLAGS.
    """

    tree: Path
    build: str
    runs: tuple[str, ...]  #: that are profiled, and decide
    confirm_runs: tuple[str, ...] = ()  #: on which the winner is measured, if there are any
    prepare: str = ""
    check: str = ""  #: must end with 0 in every build; then the outputs of runs may change
    outputs: tuple[str, ...] = ()  #: files that the runs write, which are compared
    level: str = "O3"
    objective: str = OBJECTIVES[0]
    levers: tuple[str, ...] = LEVERS
    seconds: float = 30.0  #: of measuring for the confirmation, for each recipe and command
    timeout: float = 600.0  #: seconds of a build, a check or a run
    budget: float = 0.0  #: seconds of a search for LLVM's options, over the recipe that leads
    cluster: str = ""  #: the address of a Ray cluster, whose nodes search
    compiler: str = "clang-22"


@dataclass
class Specialization:
    """What was found; recipes are named as Recipe.name says."""

    settings: Settings
    compiler: str  #: the first line of its --version
    bytes: dict[str, int] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)  #: of recipes that can't be used
    raced: dict[str, Measured] = field(default_factory=dict)  #: on the runs
    confirmed: dict[str, Measured] = field(default_factory=dict)  #: the winner and its parts, anew
    repeat: dict[str, Ratio] = field(default_factory=dict)  #: of each command: its time over itself
    chosen: Recipe = field(default_factory=Recipe)
    #: Recipes made of those that led: for the processor, by a search, or the wrong part of one.
    derived: list[Recipe] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    #: Steps, and of each the seconds since the first began and those that it took.
    timeline: list[tuple[str, float, float]] = field(default_factory=list)

    def wrong(self) -> Recipe | None:
        """The recipe with the fewest levers whose program does something else, if there is one."""
        found = [
            recipe
            for recipe in (*recipes(self.settings.levers), *self.derived)
            if self.problems.get(recipe.name, "").startswith(WRONG)
        ]
        return min(
            found,
            key=lambda recipe: (len(recipe.name.split("-")), len(recipe.options)),
            default=None,
        )

    def as_json(self) -> dict[str, Any]:
        """For the decisions file."""
        settings = asdict(self.settings) | {"tree": str(self.settings.tree)}

        def numbers(found: Mapping[str, Measured]) -> dict[str, Any]:
            return {
                name: {
                    "bytes": one.bytes,
                    "time": one.time and one.time.as_json(),
                    "commands": {text: ratio.as_json() for text, ratio in one.commands.items()},
                }
                for name, one in found.items()
            }

        return {
            "recipe": self.chosen._asdict(),
            "compiler": self.compiler,
            "settings": settings,
            "bytes": self.bytes,
            "problems": self.problems,
            "tuned": {recipe.name: recipe.options for recipe in self.derived if recipe.options},
            "raced": numbers(self.raced),
            "confirmed": numbers(self.confirmed),
            "repeat": {text: ratio.as_json() for text, ratio in self.repeat.items()},
            "notes": self.notes,
            "timeline": self.timeline,
        }


def must_make_sense(settings: Settings) -> None:
    """InvalidArgument if not."""
    if not settings.runs:
        raise InvalidArgument("there is no run; expected a command that should be faster")
    if not settings.build.strip() or not all(
        map(str.strip, (*settings.runs, *settings.confirm_runs))
    ):
        raise InvalidArgument("a command is empty")
    for name in settings.outputs:
        if not name.strip() or Path(name).is_absolute() or ".." in Path(name).parts:
            raise InvalidArgument(f"the output '{name}' is no file in the tree")
    if settings.objective not in OBJECTIVES:
        raise InvalidArgument(
            f"the objective is {settings.objective}; expected one of {', '.join(OBJECTIVES)}"
        )
    if settings.budget and settings.objective == "bytes":
        raise InvalidArgument("a search is for time; expected no budget, or another objective")
    if settings.cluster and not settings.budget:
        raise InvalidArgument("a cluster is for a search; expected a budget")
    if odd := set(settings.levers) - set(LEVERS):
        raise InvalidArgument(f"there is no lever {sorted(odd)[0]}; expected {', '.join(LEVERS)}")
    if both := set(settings.runs) & set(settings.confirm_runs):
        raise InvalidArgument(
            f"`{sorted(both)[0]}` is a run; what confirms should be another input"
        )
