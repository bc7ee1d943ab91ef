# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tries options of LLVM over a recipe that was built: are they right, and how fast are they?"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..errors import Error, InvalidArgument
from ..workspace import BuildFailed, Built, Variant, Workspace
from .behaviour import Behaviour
from .choosing import combined
from .recipes import Recipe
from .specialization import Settings
from .workplace import Workplace

#: Seconds of a try for each recipe and command, as a part of those of the confirmation.
_TRY = 0.05
#: How often as long as usual a build or a run of a try may take.
_SLOW = 10


@dataclass(frozen=True)
class BaseBuild:
    """The recipe over which options are tried, and what is known of its build here."""

    recipe: Recipe
    digest: str  #: of all that it has linked
    expected: dict[str, dict[str, str]]  #: the results of each run
    most_bytes: int | None  #: more executable bytes are no good
    slowest: float  #: seconds of its build from the start, or of its longest run


class Tries:
    """Tries in a workspace that has the build of a recipe."""

    def __init__(
        self,
        settings: Settings,
        workspace: Workspace,
        variant_of: Callable[[Recipe], Variant],
        base: BaseBuild,
        linked: Collection[str],
    ) -> None:
        """`linked`: the executables and shared objects of that build, if a try can take its object
        files and only link; empty if not."""
        self._settings = settings
        self._workspace = workspace
        self._variant_of = variant_of
        self._base = base
        self._linked = linked
        self._times = {base.digest: 1.0}  #: of what was linked
        self._behaviour = Behaviour(settings, workspace)

    def tried(self, recipe: Recipe) -> dict[str, Any]:
        """The time over that without these options, or what is the problem; whether it makes a
        wrong program, whose build stays; the seconds that this took. Options that change nothing
        are common, and the same code isn't timed twice."""
        begun = time.monotonic()
        base = self._base
        made: dict[str, Any] = {"time": None, "problem": "", "wrong": False}
        try:
            with self._in_time():
                built = self._build(recipe)
                if base.most_bytes is not None and built.bytes > base.most_bytes:
                    made["problem"] = "more bytes than the build's own"
                elif built.digest in self._times:
                    made["time"] = self._times[built.digest]
                elif what := self.difference(recipe):
                    made |= {"problem": what, "wrong": True}
                else:
                    made["time"] = self._times[built.digest] = self._time(recipe)
        except Error as error:
            made["problem"] = str(error)
        if not made["wrong"]:
            self._workspace.remove(self._variant_of(recipe))
        return made | {"seconds": time.monotonic() - begun}

    def difference(self, recipe: Recipe) -> str:
        """What the program of a recipe that is built does otherwise; empty if nothing."""
        return self._behaviour.difference(self._variant_of(recipe), self._base.expected)

    def least_wrong(self, recipe: Recipe) -> Recipe | None:
        """What is left of a recipe that made a wrong program, perhaps elsewhere: one of its options
        if one alone does, or all; its build stays. None if it is right here."""
        alone = [recipe._replace(options=(one,)) for one in recipe.options]
        with self._in_time():
            for one in dict.fromkeys([*alone, recipe]):
                with contextlib.suppress(Error):
                    self._build(one)
                    if self.difference(one):
                        if one != recipe:
                            self._workspace.remove(self._variant_of(recipe))
                        return one
                self._workspace.remove(self._variant_of(one))
        return None

    @contextlib.contextmanager
    def _in_time(self) -> Iterator[None]:
        """Options may make builds and programs that don't end."""
        timeout = self._workspace.timeout
        self._workspace.timeout = min(timeout, _SLOW * (1 + self._base.slowest))
        try:
            yield
        finally:
            self._workspace.timeout = timeout

    def _build(self, recipe: Recipe) -> Built:
        variant = self._variant_of(recipe)
        if self._linked:
            like = self._variant_of(self._base.recipe)
            return self._workspace.relink(variant, like, self._linked)
        return self._workspace.build(variant)

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


def can_relink(
    place: Workplace, workspace: Workspace, recipe: Recipe, compiler: str, linked: Collection[str]
) -> bool:
    """Whether the build links again from the object files of a recipe, by the compiler that it is
    told."""
    like = place.variant_of(recipe, compiler)
    again = replace(like, name="relinked")
    try:
        workspace.relink(again, like, linked)
        return place.was_called()
    except BuildFailed:
        return False
    finally:
        workspace.remove(again)
