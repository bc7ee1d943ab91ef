# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which recipe is the best by what was measured, and what of that is certain."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist, fmean

from ..ratio import CONFIDENCE, Ratio
from .recipes import Recipe

#: What is looked for: less time in no more code; less time; less code that isn't slower.
OBJECTIVES = ("time-at-no-more-bytes", "time", "bytes")
#: The time, over the least, of what is as fast.
_AS_FAST = 1.002
#: The recipes that are measured for longer if bytes are wanted.
_SMALLEST = 3


@dataclass(frozen=True)
class Measured:
    """A recipe beside the build's own; None where nothing was measured."""

    bytes: float | None = None  #: executable bytes of what is linked
    time: Ratio | None = None  #: the geometric mean over commands
    commands: Mapping[str, Ratio] = field(default_factory=dict)

    @property
    def size(self) -> str:
        """The bytes for people."""
        return "-" if self.bytes is None else f"{self.bytes:.3f}"


def combined(ratios: Iterable[Ratio]) -> Ratio | None:
    """The geometric mean of ratios that were measured one by one, with the interval that their own
    intervals leave; None if there are none."""
    some = list(ratios)
    if not some:
        return None
    if any(one.low <= 0 or math.isinf(one.high) for one in some):
        return Ratio(math.exp(fmean(math.log(one.mean) for one in some)), 0.0, math.inf, 1)
    mean = fmean(math.log(one.mean) for one in some)
    half = math.sqrt(sum((math.log(one.high / one.low) / 2) ** 2 for one in some)) / len(some)
    low, high = math.exp(mean - half), math.exp(mean + half)
    return Ratio(math.exp(mean), low, high, min(one.count for one in some))


def noise_of(repeat: Ratio) -> float:
    """By how much a build that is not as fast as itself widens what is called a gain."""
    if repeat.low <= 1 <= repeat.high:
        return 1.0
    return max(repeat.mean, 1 / repeat.mean)


def surely(ratio: Ratio, count: int) -> float:
    """The upper end of a ratio's interval, if it is one of so many that are tested (Bonferroni)."""
    one, all_ = (NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / 2 / n) for n in (1, max(1, count)))
    return float(ratio.mean * (ratio.high / ratio.mean) ** (all_ / one))


def leaders(found: Mapping[str, Measured], tried: Sequence[Recipe]) -> list[Recipe]:
    """The recipes among those tried that may be as fast as their fastest."""
    times = {one: found[one.name].time for one in tried if one.name in found}
    known = {one: time for one, time in times.items() if time}
    if not known:
        return []
    limit = min(known.values(), key=lambda time: time.mean).high
    return [one for one, time in known.items() if time.low <= limit]


def time_of(one: Measured) -> float:
    """The time; that of what wasn't measured is the longest."""
    return one.time.mean if one.time else math.inf


def allowed(found: Mapping[str, Measured], tried: Sequence[Recipe], objective: str) -> list[Recipe]:
    """The recipes among which the objective chooses."""
    there = [recipe for recipe in tried if recipe.name in found and found[recipe.name].time]
    if objective == "time-at-no-more-bytes":
        return [recipe for recipe in there if (found[recipe.name].bytes or 1.0) <= 1]
    if objective == "bytes":
        return [r for r in there if found[r.name].time.low <= 1]  # type: ignore[union-attr]
    return there


def contenders(
    found: Mapping[str, Measured], tried: Sequence[Recipe], objective: str
) -> list[Recipe]:
    """The recipes that may be the best by the objective."""
    there = allowed(found, tried, objective)
    if objective == "bytes":
        return sorted(there, key=lambda recipe: found[recipe.name].bytes or 1.0)[:_SMALLEST]
    return leaders(found, there)


def choose(found: Mapping[str, Measured], tried: Sequence[Recipe], objective: str) -> Recipe | None:
    """The best recipe, if one will do: the fastest, or one with less bytes that is as fast but for
    what nobody notices."""
    there = contenders(found, tried, objective)
    if objective != "bytes":
        limit = _AS_FAST * min((time_of(found[one.name]) for one in there), default=0.0)
        there = [one for one in there if time_of(found[one.name]) <= limit]
    return min(there, key=lambda recipe: found[recipe.name].bytes or 1.0, default=None)
