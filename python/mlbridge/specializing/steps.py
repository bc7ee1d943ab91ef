# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The steps that find the recipe that is best for a program by its own runs."""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .. import profdata
from ..clock import LEAST_PAIRS
from ..cluster import must_answer
from ..errors import DeadlineExceeded, Error, InvalidArgument
from ..files import extra
from ..process_runner import run_tool
from ..ratio import Ratio
from ..workspace import BuildFailed, Variant
from .behaviour import NO_FILE, Behaviour, first_difference, sizes_in
from .choosing import (
    Measured,
    choose,
    combined,
    contenders,
    leaders,
    noise_of,
    surely,
    time_of,
)
from .draws import Draws
from .profiling import take_profile
from .recipes import Recipe, first, plugin, recipes, variations
from .specialization import WRONG, Settings, Specialization
from .tries import BaseBuild, Tries, can_relink
from .tries_on_nodes import nodes
from .tuning import here, tune
from .workplace import Workplace

#: Seconds for each recipe and command in the first round and in that of the leaders, as parts of
#: those of the confirmation.
_ROUNDS = (0.1, 0.4)
#: The links with which other levers are tried, if bytes don't matter; otherwise all are. As many of
#: the fastest recipes are tried with versions.
_LINKS = 2
#: The time of what is nearly as fast.
_NEARLY = 1.04
#: Seconds of a command that is hardly more than its start, and of one that runs a few times only.
_SHORTEST, _LONG = 0.003, 1.0
#: Seconds of a comparison that is kept when it has ended, and the recipes that it has if these
#: don't suffice for as many: the build's own is compared with itself each time.
_LONGEST, _LEAST_AT_ONCE = 1200.0, 3
_UNKNOWN, _EVEN = Measured(), Ratio(1.0, 1.0, 1.0, 1)
#: How many of the best of a search are measured for longer.
_BEST = 3
#: Time that more bytes must save to be worth a note.
_WORTH = 0.01
#: The longest time of what isn't slower.
_NOT_SLOWER = 1.01
_BASELINE, _AGAIN = "none", "again"
_TIMEOUT = 60.0


class Search:
    """The steps of a specialization."""

    def __init__(
        self,
        settings: Settings,
        place: Workplace,
        version: str,
        major: str,
        is_same: Callable[[], bool],
        shown: Callable[[str], None],
    ) -> None:
        """`is_same`: whether the source tree is what it was."""
        self._settings = settings
        self._place = place
        self._major = major
        self._is_same = is_same
        self._shown = shown
        self._found = Specialization(settings, version)
        self._workspace = place.workspace(settings, major)
        self._behaviour = Behaviour(settings, self._workspace)

    def run(self) -> Specialization:
        """All of it."""
        found = self._found
        if "profile" in self._settings.levers:
            profdata.must_have_runtime(self._settings.compiler)
        if self._settings.budget:
            Draws()  # here it says what it lacks, not in an hour
        if self._settings.cluster and not self._place.has(f"build {_BASELINE}"):
            must_answer(self._settings.cluster)
        self._build(Recipe())
        names = self._place.step("called by name", self._place.called_by_name)
        if self._settings.check:
            self._place.step("check none", lambda: self._behaviour.must_pass(self._baseline))
        for command in self._commands:
            self._place.step(f"try {command}", partial(self._try, command))
            code = self._place.kept(f"try {command}")["results"]["exit code"]
            if code != "0":
                found.notes.append(f"`{command}` ends with {code}, in the build's own, too")
                self._shown(found.notes[-1])
        tried = [self._place.kept(f"try {command}")["results"] for command in self._commands]
        for name in () if self._settings.check else self._settings.outputs:
            if all(one[name] == NO_FILE for one in tried):
                raise InvalidArgument(f"no run wrote the file {name}, which was to be compared")
        if "profile" in self._settings.levers:
            kept = "kept: " * self._place.has("profile")
            take = partial(take_profile, self._settings, self._place, self._workspace, self._major)
            self._shown(kept + self._place.step("profile", take))
        self._race()
        self._tune()
        tried = self._tried
        best = choose(found.raced, tried, self._settings.objective)
        if best is None:
            reason = "is slower" if self._settings.objective == "bytes" else "has more bytes"
            text = f"every recipe {reason}" if tried else "no recipe can be used"
            found.notes.append(f"{text}, so nothing was confirmed")
        else:
            found.chosen = self._confirm(best)
        self._say_what_more_bytes_give(tried)
        if found.chosen != Recipe() and names:
            found.notes.append(
                f"the build calls {' and '.join(names)} by name, not $CC or $CXX: have a folder "
                "that is first on PATH hold such names, written by `mlbridge wrapper`"
            )
        found.timeline = self._place.timeline()
        return found

    @property
    def _tried(self) -> list[Recipe]:
        """All recipes that were measured on the runs."""
        every = [*recipes(self._settings.levers), *self._found.derived]
        return [recipe for recipe in every if recipe.name in self._found.raced]

    @property
    def _commands(self) -> list[str]:
        return [*self._settings.runs, *self._settings.confirm_runs]

    # Builds

    def _variant(self, name: str, words: Sequence[str]) -> Variant:
        return self._place.variant(name, self._settings.compiler, words)

    def _variant_of(self, recipe: Recipe) -> Variant:
        # The recipe without levers, if it is measured, is a second build like the baseline.
        return self._place.variant_of(recipe, self._settings.compiler)

    @property
    def _baseline(self) -> Variant:
        return self._variant(_BASELINE, ())

    def _is_built(self, name: str) -> bool:
        return (self._workspace.folder / name).is_dir()

    def _build(self, recipe: Recipe) -> None:
        """Build it, unless that was done and its tree is there."""
        step = f"build {recipe.name}"
        if not self._is_built(recipe.name):
            self._place.forget(step)

        def work() -> dict[str, Any]:
            built = self._workspace.build(self._variant_of(recipe))
            if not self._place.was_called():
                raise BuildFailed(
                    f"`{self._settings.build}` called no compiler by $CC, $CXX or a name such as "
                    "cc or g++; have it take $CC: 'make CC=$CC'"
                )
            if built.old and recipe == Recipe() and not self._settings.prepare:
                self._shown(
                    f"{built.old} executables and shared objects were there before and not built "
                    "again; if they matter, have --prepare clean the tree"
                )
            return {
                "bytes": {name: one.bytes for name, one in built.objects.items()},
                "digest": built.digest,
                "seconds": round(built.seconds, 2),
            }

        is_new = recipe.name not in self._found.bytes
        kept = "kept: " * self._place.has(step)
        made = self._place.step(step, work)
        self._found.bytes[recipe.name] = sum(made["bytes"].values())
        if not is_new:
            return
        self._shown(
            f"{kept}built {recipe.name}: {self._found.bytes[recipe.name]} executable bytes, "
            f"{made['seconds']:.1f} s"
        )

    def _is_usable(self, recipe: Recipe) -> bool:
        """Whether it can be built, passes the check, and prints what the build's own does."""
        problems = self._found.problems
        if recipe != Recipe():
            if recipe.name in problems:
                return False
            text = self._place.step(
                f"problem {recipe.name}",
                lambda: self._problem(recipe),
                # The disk may have room later.
                lasts=lambda text: not text or text.startswith(WRONG),
            )
            self._must_be_the_same()
            if text:
                problems[recipe.name] = text
                self._shown(f"{recipe.name} is left out: {text}")
                return False
            self._build(recipe)
        return True

    def _must_be_the_same(self) -> None:
        if not self._is_same():
            raise InvalidArgument(
                f"{self._settings.tree}: files have changed since this began, so builds can't be "
                "compared; the same command begins anew"
            )

    def _problem(self, recipe: Recipe) -> str:
        try:
            self._build(recipe)
            built, usual = (
                self._place.kept(f"build {r.name}")["bytes"] for r in (recipe, Recipe())
            )
            if missing := sorted(usual.keys() - built.keys()):
                return f"the build leaves out {', '.join(missing[:3])}"
        except Error as error:
            return str(error)
        expected = {run: self._place.kept(f"try {run}")["results"] for run in self._commands}
        try:
            return self._behaviour.difference(self._variant_of(recipe), expected)
        except DeadlineExceeded as error:
            return f"{WRONG}: {error}"
        except Error as error:
            return str(error)

    # Runs

    def _try(self, command: str) -> dict[str, Any]:
        """The results of a command; InvalidArgument if it can't be measured."""
        tries, sizes, seconds = [], [], math.inf
        for _ in range(2):
            with self._nothing_left(command):
                ran, files = self._workspace.run(self._baseline, command)
            if ran.code < 0 or ran.code in (126, 127):
                raise InvalidArgument(f"`{command}` ended with {ran.code}: {ran.reason}")
            tries.append(self._behaviour.results(ran, files))
            sizes.append(sizes_in(self._workspace.folder / _BASELINE))
            seconds = min(seconds, ran.seconds)
        before, after = sizes
        if grown := [name for name, size in after.items() if size > before.get(name, size)]:
            raise InvalidArgument(
                f"`{command}` makes {grown[0]} larger each time, so the build that has run more "
                f"often would be slower; have it begin anew: 'rm -f {grown[0]}; …'"
            )
        if what := first_difference(*tries):
            raise InvalidArgument(
                f"`{command}`: {what} from run to run, so builds can't be told right or wrong by "
                "it; have it print the same each time, or state a check"
            )
        fit = "" if _SHORTEST < seconds < _LONG else "; commands of 5 to 50 ms tell most"
        self._shown(f"`{command}` takes {seconds:.3f} s{fit}")
        return {"seconds": f"{seconds:.4f}", "results": tries[0]}

    # Measuring

    def _time(
        self, stage: str, tried: Sequence[Recipe], command: str, seconds: float
    ) -> dict[str, Any]:
        """The times over the build's own; of long commands some at a time, so that a kill costs
        little."""
        one = 2 * LEAST_PAIRS * float(self._place.kept(f"try {command}")["seconds"])
        most = max(_LEAST_AT_ONCE, int(_LONGEST / max(one, 1e-9)))
        found = self._time_some(stage, tried[:most], command, seconds)
        for at in range(most, len(tried), most):
            more = self._time_some(stage, tried[at : at + most], command, seconds)
            found = more | {part: found[part] | more[part] for part in ("ratios", "differences")}
        return found

    def _time_some(
        self, stage: str, tried: Sequence[Recipe], command: str, seconds: float
    ) -> dict[str, Any]:
        names = [recipe.name for recipe in tried]

        def work() -> dict[str, Any]:
            for recipe in (Recipe(), *tried):
                self._build(recipe)
            variants = [self._variant_of(recipe) for recipe in tried if recipe != Recipe()]
            if not variants:
                variants = [self._second()]
            differences = {}
            while variants:
                try:
                    made = self._timed(variants, command, seconds)
                    break
                except (InvalidArgument, DeadlineExceeded) as error:
                    name = str(error).partition(": ")[0]
                    if name not in {one.name for one in variants} - {_AGAIN}:  # the baseline
                        raise InvalidArgument(
                            f"`{command}`: {error}; have it end the same each time"
                        ) from None
                    differences[name] = str(error)
                    variants = [one for one in variants if one.name != name]
            else:
                made = {"ratios": {}, "differences": {}, "repeat": _EVEN.as_json()}
            return made | {"differences": made["differences"] | differences}

        timing = self._place.step(
            f"{stage} {command}: {' '.join(names)}",
            work,
            lasts=lambda made: _BASELINE not in made["differences"],
        )
        if what := timing["differences"].get(_BASELINE):
            raise InvalidArgument(f"`{command}`: {what}; have it print the same each time")
        return timing

    def _timed(self, variants: Sequence[Variant], command: str, seconds: float) -> dict[str, Any]:
        with self._nothing_left(command):
            return self._workspace.time(
                [self._baseline, *variants],
                command,
                seconds * (len(variants) + 1),
                compared=not self._settings.check,
            ).as_json()

    @contextlib.contextmanager
    def _nothing_left(self, command: str) -> Iterator[None]:
        """InvalidArgument if processes had to be ended that a command left running."""
        before = self._place.strays
        yield
        if self._place.strays > before:
            raise InvalidArgument(
                f"`{command}` leaves processes running, which would answer for other builds; "
                "have it end them"
            )

    def _second(self) -> Variant:
        """A copy of the baseline, which is compared with it if there is nothing else."""
        second = self._variant(_AGAIN, ())
        if not self._is_built(second.name):
            self._place.forget(f"build {_AGAIN}")
        self._place.step(f"build {_AGAIN}", lambda: bool(self._workspace.build(second)))
        return second

    def _say_how_long(self, count: int) -> None:
        """About, for so many recipes in the first rounds."""
        settings, kept = self._settings, self._place.kept
        one = [float(kept(f"try {command}")["seconds"]) for command in self._commands]
        confirmed = 5 * len(settings.confirm_runs or settings.runs)
        rounds = (_ROUNDS[0] * count + 4 * _ROUNDS[1]) * len(settings.runs) + confirmed
        seconds = max(rounds * settings.seconds, 3 * LEAST_PAIRS * sum(one) * count)
        minutes = math.ceil(seconds / 60)
        self._shown(f"measuring takes about {minutes} minute{'s' * (minutes > 1)}")

    def _measure(
        self, stage: str, tried: Sequence[Recipe], commands: Iterable[str], seconds: float
    ) -> dict[str, Measured]:
        if not tried:
            return {}
        by_recipe: dict[str, dict[str, Ratio]] = {recipe.name: {} for recipe in tried}
        for command in commands:
            timing = self._time(stage, tried, command, seconds)
            repeat = Ratio.from_json(timing["repeat"])
            self._found.repeat[command] = repeat
            for recipe in tried:
                name = recipe.name if recipe != Recipe() else _AGAIN
                if what := timing["differences"].get(name):
                    self._found.problems[recipe.name] = f"{WRONG}: `{command}`: {what}"
                elif name in timing["ratios"]:
                    by_recipe[recipe.name][command] = Ratio.from_json(timing["ratios"][name])
        usual = self._found.bytes[_BASELINE]
        found = {}
        for name, ratios in by_recipe.items():
            if name in self._found.problems:
                continue
            size = self._found.bytes[name] / usual if usual else None
            found[name] = Measured(size, combined(ratios.values()), ratios)
        return found

    def _race(self) -> None:
        """Short for the first recipes, then for those with more levers and the best links; longer
        for all that may be the best."""
        settings, raced = self._settings, self._found.raced
        short, long = (part * settings.seconds for part in _ROUNDS)
        usable = [recipe for recipe in self._firsts() if self._is_usable(recipe)]
        self._say_how_long(1 + 3 * len(usable))
        raced |= self._measure("first", usable, settings.runs, short)
        best: dict[str, Recipe] = {}  # of each link
        for one in sorted(usable, key=lambda one: time_of(raced.get(one.name, _UNKNOWN))):
            if one.name in raced:
                best.setdefault(one.link, one)
        leading = list(best.values())
        if settings.objective == "time":  # else any of them may have few enough bytes
            leading = leaders(raced, leading)[:_LINKS]
        more = self._usable_more(
            recipe for one in leading for recipe in variations(one, settings.levers)
        )
        raced |= self._measure("more", more, settings.runs, short)
        self._show(raced)
        left = contenders(raced, [*usable, *more], settings.objective)
        if len(left) > 1:
            raced |= self._measure("leaders", left, settings.runs, long)
            self._show({one.name: raced[one.name] for one in left if one.name in raced})
        self._make_versions([*usable, *more])
        for name in self._found.problems:
            raced.pop(name, None)

    def _firsts(self) -> list[Recipe]:
        """The recipes that tell which link is best, and whether the processor's code is."""
        found = first(self._settings.levers)
        name = "tune" in self._settings.levers and processor(self._settings.compiler)
        if name:
            tuned = [one._replace(tune=name) for one in found]
            self._found.derived += tuned
            found += tuned
        return found

    def _usable_more(self, wanted: Iterable[Recipe]) -> list[Recipe]:
        """Make recipes known, and build those that can be used."""
        known = [*recipes(self._settings.levers), *self._found.derived]
        more = [one for one in dict.fromkeys(wanted) if one.name not in self._found.raced]
        self._found.derived += [one for one in more if one not in known]
        return [recipe for recipe in more if self._is_usable(recipe)]

    def _make_versions(self, tried: Sequence[Recipe]) -> None:
        """Measure the fastest recipes, and the smallest of each link that are nearly as fast, with
        versions for newer processors."""
        found, settings = self._found, self._settings
        if not {"profile", "versions"} <= set(settings.levers):
            return
        if self._major != "22" or not Path(plugin()).is_file():
            found.notes.append(
                f"no versions were made: they need clang-22 and its plugin ({extra('clang22')})"
            )
            return
        there = [one for one in tried if one.profile and one.name not in found.problems]
        there.sort(key=lambda one: time_of(found.raced[one.name]))
        limit = _NEARLY * time_of(found.raced[there[0].name]) if there else 0.0
        near = [one for one in there if time_of(found.raced[one.name]) <= limit]
        fastest = contenders(found.raced, there, settings.objective)
        smallest: dict[str, Recipe] = {}
        for one in sorted(near, key=lambda one: found.raced[one.name].bytes or 1.0):
            smallest.setdefault(one.link, one)
        made = self._usable_more(
            one._replace(versions=True, tune=tune)  # tuned code may be larger
            for one in [*fastest[:_LINKS], *smallest.values()]
            for tune in sorted({one.tune, ""})
        )
        if settings.objective == "time-at-no-more-bytes":
            most = found.bytes[_BASELINE]
            made = [one for one in made if found.bytes[one.name] <= most] or made[:1]
        if made:
            seconds = _ROUNDS[1] * settings.seconds
            compared = [*fastest[:_LINKS], *made]
            measured = self._measure("versions", compared, settings.runs, seconds)
            found.raced |= measured
            self._show(measured)

    def _tune(self) -> None:
        """Search for options of LLVM over the recipe that leads; measure the best for longer."""
        settings, found = self._settings, self._found
        if not settings.budget:
            return
        base = choose(found.raced, self._tried, settings.objective)
        if base is None:
            found.notes.append("nothing was searched, as no recipe will do")
            return
        self._build(base)
        about = self._about(base)
        linked = list(self._place.kept(f"build {base.name}")["bytes"])
        relinks = base.link and self._place.step(
            f"relinks {base.name}",
            lambda: can_relink(self._place, self._workspace, base, settings.compiler, linked),
        )
        tries = Tries(settings, self._workspace, self._variant_of, about, linked if relinks else ())
        evaluator = (
            partial(nodes, settings, self._place, about, self._major, self._shown)
            if settings.cluster
            else partial(here, tries)
        )
        tuned = tune(settings, self._place, tries, about, evaluator, self._shown)
        found.derived += tuned.wrong
        found.problems |= {recipe.name: what for recipe, what in tuned.wrong.items()}
        best = sorted(tuned.right, key=tuned.right.__getitem__)
        best = [one for one in best if tuned.right[one] < 1][:_BEST]
        found.derived += best
        best = [recipe for recipe in best if self._is_usable(recipe)]
        if best:
            beside = [base] if base != Recipe() else []
            seconds = _ROUNDS[1] * settings.seconds
            measured = self._measure("tuned", [*beside, *best], settings.runs, seconds)
            found.raced |= measured
            self._show(measured)
        else:
            found.notes.append("the search found no options that save time")
        kept = {recipe.name for recipe in found.derived}
        for tree in self._workspace.folder.glob("*tuned-*"):
            if tree.name.partition(".")[0] not in kept:
                shutil.rmtree(tree, ignore_errors=True)

    def _about(self, recipe: Recipe) -> BaseBuild:
        """What tries over a recipe need to know of it."""
        settings, kept = self._settings, self._place.kept
        tried = [kept(f"try {run}") for run in settings.runs]
        took = {step: seconds for step, _, seconds in self._place.timeline()}
        return BaseBuild(
            recipe,
            digest=kept(f"build {recipe.name}").get("digest", ""),
            expected={run: one["results"] for run, one in zip(settings.runs, tried, strict=True)},
            most_bytes=None if settings.objective == "time" else self._found.bytes[_BASELINE],
            slowest=max(took[f"build {recipe.name}"], *(float(one["seconds"]) for one in tried)),
        )

    def _show(self, found: Mapping[str, Measured]) -> None:
        for name, one in found.items():
            self._shown(f"{name}: bytes {one.size}, time {one.time}")

    def _confirm(self, best: Recipe) -> Recipe:
        """The recipe that fresh measurements confirm: the best, or a part of it, or none."""
        found, settings = self._found, self._settings
        fresh = settings.confirm_runs
        if not fresh:
            found.notes.append(
                "measured anew on the runs that decided; inputs that nothing was tuned on may gain "
                "less: add --confirm-run"
            )
        others = [
            recipe for recipe in (*best.parts(), *best.careful()) if recipe.name in found.raced
        ]
        tried = list(dict.fromkeys([*others, best]))
        found.confirmed = self._measure("confirm", tried, fresh or settings.runs, settings.seconds)
        known = [recipe for recipe in tried if recipe.name in found.confirmed]
        passed = [one for one in known if self._is_gain(found.confirmed[one.name], len(known))]
        chosen = choose(found.confirmed, passed, settings.objective) if passed else None
        if chosen == Recipe():
            found.notes.append(
                f"a gain without a change: the same build takes {found.confirmed['none'].time} of "
                "its own time, so something else than the code decides here"
            )
        if chosen is not None:
            if best not in passed:
                found.notes.append(f"{best.name} led on the runs, but is not confirmed")
            return chosen
        self._say_what_it_takes(best)
        return Recipe()

    def _say_what_more_bytes_give(self, tried: Sequence[Recipe]) -> None:
        """A note if a larger program would be faster."""
        found, raced = self._found, self._found.raced
        if self._settings.objective != "time-at-no-more-bytes":
            return
        best = choose(raced, tried, "time")
        now = time_of(raced[found.chosen.name]) if found.chosen.name in raced else 1.0
        if best is None or best == found.chosen:
            return
        one = raced[best.name]
        if not one.time or (one.bytes or 1.0) <= 1:
            return
        if surely(one.time, len(tried)) * self._noise < now - _WORTH:
            found.notes.append(
                f"with more bytes it may be faster: {best.name} takes {one.time} of the time on "
                f"the runs, with {one.size} of the bytes; --objective time"
            )

    def _is_gain(self, one: Measured, count: int) -> bool:
        """Whether it is better for certain; `count`: how many are asked."""
        if one.time is None:
            return False
        is_smaller = one.bytes is not None and one.bytes < 1
        if self._settings.objective == "bytes":
            return is_smaller and one.time.high <= _NOT_SLOWER
        if self._settings.objective != "time" and one.bytes is not None and one.bytes > 1:
            return False
        return surely(one.time, count) * self._noise < 1

    @property
    def _noise(self) -> float:
        """By how much builds that are the same differ here, beyond what is expected."""
        return max((noise_of(ratio) for ratio in self._found.repeat.values()), default=1.0)

    def _say_what_it_takes(self, best: Recipe) -> None:
        """A note on why nothing is gained."""
        one = self._found.confirmed.get(best.name)
        if one is None or one.time is None:
            self._found.notes.append("nothing could be confirmed")
            return
        text = f"no gain is certain: {best.name} takes {one.time} of the time"
        gain, width = 1 - one.time.mean, one.time.high - one.time.mean
        if 0 < gain < width:
            longer = self._settings.seconds * (width / gain) ** 2
            text += f"; if that is its mean, --time {math.ceil(longer)}s would tell"
        elif one.time.high < 1 and self._settings.objective != "bytes":
            noise = f"; a build takes {self._noise:.3f} of its own time" * (self._noise > 1)
            text += f", which {len(self._found.confirmed)} recipes at once widen{noise}"
        self._found.notes.append(text)


def processor(compiler: str) -> str:
    """The name by which clang knows this machine's processor; "" if it doesn't."""
    command = [compiler, "-###", "-mtune=native", "-c", "-x", "c", os.devnull]
    said = run_tool(command, timeout=_TIMEOUT).stderr.text
    found = re.search(r'"-tune-cpu" "([^"]+)"', said)
    return found[1] if found and found[1] not in ("generic", "native") else ""
