# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tries options of LLVM over a recipe that was built: are they right, and how fast are they?"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import Error, InvalidArgument
from ..workspace import BuildFailed, Built, Variant, Workspace
from .behaviour import Behaviour
from .choosing import combined
from .recipes import Recipe
from .specialization import Settings

#: Seconds of a try for each recipe and command, as a part of those of the confirmation.
_TRY = 0.05
#: How often as long as usual a build or a run of a try may take.
_SLOW = 10


@dataclass(frozen=True)
class Base:
    """The recipe over which options are tried, and what is known of its build."""

    recipe: Recipe
    linked: tuple[str, ...]  #: the executables and shared objects that it links
    is_relinked: bool  #: a try takes its object files, and only links
    expected: dict[str, dict[str, str]]  #: the results of each run
    most_bytes: int | None  #: more executable bytes are no good
    slowest: float  #: seconds of its build, or of its longest run

    def seconds(self, settings: Settings) -> float:
        """The most for a build or a run of a try."""
        return min(settings.timeout, _SLOW * (1 + self.slowest))

    def limit(self, settings: Settings) -> float:
        """The most for a try, with a search for the option that is wrong."""
        runs = len(settings.runs)
        steps = (2 + runs) * 20 + 4 * runs
        return steps * self.seconds(settings) + 4 * _TRY * settings.seconds * runs


class Tries:
    """Tries in a workspace that has the build of a recipe."""

    def __init__(
        self,
        settings: Settings,
        workspace: Workspace,
        variant_of: Callable[[Recipe], Variant],
        base: Base,
    ) -> None:
        self._settings = settings
        self._workspace = workspace
        self._variant_of = variant_of
        self._base = base
        self._behaviour = Behaviour(settings, workspace)

    def tried(self, recipe: Recipe) -> dict[str, Any]:
        """The time over that without these options, or what is the problem; the least of the
        options that make a wrong program, whose build stays; the seconds that this took."""
        begun = time.monotonic()
        base = self._base
        made: dict[str, Any] = {"time": None, "problem": "", "wrong": []}
        self._workspace.timeout = base.seconds(self._settings)
        try:
            built = self.build(recipe)
            if base.most_bytes is not None and built.bytes > base.most_bytes:
                made["problem"] = "more bytes than the build's own"
            elif what := self._difference(recipe):
                made["problem"] = what
                made["wrong"] = self._least_wrong(recipe).options
            else:
                made["time"] = self._time(recipe)
        except Error as error:
            made["problem"] = str(error)
        finally:
            self._workspace.timeout = self._settings.timeout
        if not made["wrong"]:
            self._workspace.remove(self._variant_of(recipe))
        return made | {"seconds": time.monotonic() - begun}

    def build(self, recipe: Recipe) -> Built:
        """Build it, from the object files of the base if code is made in the link."""
        variant, base = self._variant_of(recipe), self._base
        if base.is_relinked:
            return self._workspace.relink(variant, self._variant_of(base.recipe), base.linked)
        return self._workspace.build(variant)

    def _difference(self, recipe: Recipe) -> str:
        return self._behaviour.difference(self._variant_of(recipe), self._base.expected)

    def _time(self, recipe: Recipe) -> float:
        settings = self._settings
        variants = [self._variant_of(one) for one in (self._base.recipe, recipe)]
        ratios = []
        for command in settings.runs:
            seconds = 2 * _TRY * settings.seconds
            timing = self._workspace.time(variants, command, seconds, compared=not settings.check)
            if timing.differences:
                raise InvalidArgument(f"`{command}`: {', '.join(timing.differences.values())}")
            ratios.append(timing.ratios[recipe.name])
        over = combined(ratios)
        assert over, "there is a run"
        return over.mean

    def _least_wrong(self, recipe: Recipe) -> Recipe:
        """The recipe with one of these options that makes a wrong program, if one alone does."""
        for option in recipe.options if len(recipe.options) > 1 else ():
            one = recipe._replace(options=(option,))
            what = ""
            with contextlib.suppress(Error):
                self.build(one)
                what = self._difference(one)
            if what:
                self._workspace.remove(self._variant_of(recipe))
                return one
            self._workspace.remove(self._variant_of(one))
        return recipe


def can_relink(
    workspace: Workspace, variant: Variant, like: Variant, linked: tuple[str, ...]
) -> bool:
    """Whether the build links again from the object files of another variant's."""
    try:
        workspace.relink(variant, like, linked)
    except BuildFailed:
        return False
    finally:
        workspace.remove(variant)
    return True
