# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds the recipe that is best for a program by its own runs (see the package)."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from .. import profdata
from ..clock import LEAST_PAIRS
from ..errors import Error, InvalidArgument, Unsupported
from ..process_runner import Output, Ran, run_tool
from ..ratio import Ratio
from ..workspace import BuildFailed, Program, Variant, Workspace
from . import decisions_file
from .recipes import LEVERS, Recipe, first, instrumented, recipes, variations
from .workplace import Workplace, contents_of

#: What is looked for: less time in no more code; less time; less code that isn't slower.
OBJECTIVES = ("time-at-no-more-bytes", "time", "bytes")
#: Seconds for each recipe and command in the first round and in that of the leaders, as parts of
#: those of the confirmation.
_ROUNDS = (0.1, 0.4)
#: The links with which other levers are tried.
_LINKS = 2
#: Time that more bytes must save to be worth a note.
_WORTH = 0.01
#: How the problem of a recipe begins whose program does something else.
WRONG = "wrong"
_BASELINE, _COUNTING = "none", "counting"
_TIMEOUT = 60.0


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
    objective: str = "time-at-no-more-bytes"
    levers: tuple[str, ...] = LEVERS
    seconds: float = 30.0  #: of measuring for the confirmation, for each recipe and command
    timeout: float = 600.0  #: seconds of a build, a check or a run
    compiler: str = "clang-22"


@dataclass(frozen=True)
class Measured:
    """A recipe beside the build's own; None where nothing was measured."""

    bytes: float | None = None  #: executable bytes of what is linked
    time: Ratio | None = None  #: the geometric mean over commands
    commands: Mapping[str, Ratio] = field(default_factory=dict)


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
    notes: list[str] = field(default_factory=list)

    def wrong(self) -> Recipe | None:
        """The recipe with the fewest levers whose program does something else, if there is one."""
        found = [
            recipe for recipe in recipes() if self.problems.get(recipe.name, "").startswith(WRONG)
        ]
        return min(found, key=lambda recipe: len(recipe.name.split("-")), default=None)

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
            "raced": numbers(self.raced),
            "confirmed": numbers(self.confirmed),
            "repeat": {text: ratio.as_json() for text, ratio in self.repeat.items()},
            "notes": self.notes,
        }


def specialize(
    settings: Settings,
    output: Path,
    work: Path,
    *,
    keep: bool = True,
    shown: Callable[[str], None] = lambda text: None,
) -> Specialization:
    """Build a program by all recipes, measure them, and write the best one's decisions file.

    `work` is a new folder or one of an earlier call with the same settings, which goes on; it
    should be on a disk with room for ten built trees. It is removed at the end unless `keep` or
    there was a wrong output. `shown` is told what was done. Raises
    InvalidArgument, BuildFailed, DeadlineExceeded, NotFound, Unsupported, Busy, OSError.
    """
    must_make_sense(settings)
    said = run_tool([settings.compiler, "--version"], timeout=_TIMEOUT).stdout.text
    version = said.partition("\n")[0]
    major = re.search(r"clang version (\d+)\.", version)
    if not major:
        raise Unsupported(f"{settings.compiler} says that it is {version!r}; expected a clang")
    made_from = [asdict(settings) | {"tree": str(settings.tree.resolve())}, version]
    done = False
    place = Workplace(work, [*made_from, contents_of(settings.tree, output)])
    try:
        search = _Search(settings, place, version, major[1], shown)
        found = search.run()

        def write(place: Path, recipe: Recipe) -> None:
            profile = search.profile_of(recipe).read_bytes() if recipe.profile else b""
            decisions_file.write(place, profile, found.as_json() | {"recipe": recipe._asdict()})

        wrong = found.wrong()
        if wrong:
            kept = output.with_name(f"{output.name}.wrong")
            write(kept, wrong)
            found.notes.append(
                f"{wrong.name} makes a wrong program: {kept} has its decisions, "
                f"{place.folder / 'trees' / wrong.name} what was built"
            )
        write(output, found.chosen)
        done = not keep and not wrong
        return found
    finally:
        place.close(remove=done)


def must_make_sense(settings: Settings) -> None:
    """InvalidArgument if not."""
    if not settings.runs:
        raise InvalidArgument("there is no run; expected a command that should be faster")
    if settings.objective not in OBJECTIVES:
        raise InvalidArgument(
            f"the objective is {settings.objective}; expected one of {OBJECTIVES}"
        )
    if odd := set(settings.levers) - set(LEVERS):
        raise InvalidArgument(f"there is no lever {sorted(odd)[0]}; expected {', '.join(LEVERS)}")
    if both := set(settings.runs) & set(settings.confirm_runs):
        raise InvalidArgument(
            f"`{sorted(both)[0]}` is a run; what confirms should be another input"
        )


class _Search:
    """The steps of a specialization."""

    def __init__(
        self,
        settings: Settings,
        place: Workplace,
        version: str,
        major: str,
        shown: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._place = place
        self._major = major
        self._shown = shown
        self._found = Specialization(settings, version)
        program = Program(
            name=settings.tree.resolve().name,
            tree=settings.tree,
            build=settings.build,
            prepare=settings.prepare,
            outputs=settings.outputs,
            cflags=f"-{settings.level}" if settings.level else "",
            linked=True,
            variables=place.variables(major),
        )
        self._workspace = Workspace(
            program, place.folder / "trees", place.compiler, settings.timeout
        )

    def profile_of(self, recipe: Recipe) -> Path:
        """The merged profile of all runs, as the recipe needs it."""
        return self._place.folder / f"{'partial' if recipe.partial else 'profile'}.profdata"

    def run(self) -> Specialization:
        """All of it."""
        found = self._found
        if "profile" in self._settings.levers:
            profdata.must_have_runtime(self._settings.compiler)
        self._build(Recipe())
        if self._settings.check:
            self._place.step("check none", lambda: self._must_pass(Recipe()))
        for command in self._commands:
            self._place.step(f"try {command}", partial(self._try, command))
        if "profile" in self._settings.levers:
            kept = "kept: " * self._place.has("profile")
            self._shown(kept + self._place.step("profile", self._take_profile))
        self._race()
        tried = [recipe for recipe in (Recipe(), *recipes()) if recipe.name in found.raced]
        best = choose(found.raced, tried, self._settings.objective)
        if best is None:
            why = "is as fast" if self._settings.objective == "bytes" else "has no more bytes"
            found.notes.append(f"no recipe {why}, so nothing was confirmed")
            self._say_what_more_bytes_give(tried)
            return found
        found.chosen = self._confirm(best)
        self._say_what_more_bytes_give(tried)
        return found

    @property
    def _commands(self) -> list[str]:
        return [*self._settings.runs, *self._settings.confirm_runs]

    # Builds

    def _variant(self, name: str, words: Sequence[str]) -> Variant:
        command = self._settings.compiler
        return Variant(name, lambda _: self._place.compilers(command, words))

    def _variant_of(self, recipe: Recipe) -> Variant:
        # The recipe without levers, if it is measured, is a second build like the baseline.
        return self._variant(recipe.name, recipe.words(str(self.profile_of(recipe))))

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
            self._place.calls()
            built = self._workspace.build(self._variant_of(recipe))
            if not self._place.calls():
                raise BuildFailed(
                    f"`{self._settings.build}` called no compiler by $CC, $CXX or a name such as "
                    "cc or g++, so its code is not what would be measured"
                )
            if built.old and recipe == Recipe() and not self._settings.prepare:
                self._shown(
                    f"{built.old} executables and shared objects were there before and not built "
                    "again; if they matter, have --prepare clean the tree"
                )
            return {"bytes": {name: one.bytes for name, one in built.objects.items()},
                    "seconds": round(built.seconds, 2)}  # fmt: skip

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
            if text := self._place.step(f"problem {recipe.name}", lambda: self._problem(recipe)):
                problems[recipe.name] = text
                self._shown(f"{recipe.name} is left out: {text}")
                return False
            self._build(recipe)
        return True

    def _problem(self, recipe: Recipe) -> str:
        try:
            self._build(recipe)
            if self._settings.check:
                self._must_pass(recipe)
            for command in self._commands:
                ran, files = self._workspace.run(self._variant_of(recipe), command)
                kept = self._place.kept(f"try {command}")["results"]
                if what := difference(kept, self._described(ran, files)):
                    return f"{WRONG}: `{command}`: {what}"
        except (Error, OSError) as error:
            return str(error)
        return ""

    # Runs

    def _described(self, ran: Ran, files: Mapping[str, Output | None]) -> dict[str, str]:
        found = {"exit code": str(ran.code)}
        if not self._settings.check:
            found["standard output"] = ran.stdout.digest
            found |= {name: one.digest if one else "no file" for name, one in files.items()}
        return found

    def _must_pass(self, recipe: Recipe) -> bool:
        ran, _ = self._workspace.run(self._variant_of(recipe), self._settings.check)
        if ran.code:
            raise InvalidArgument(
                f"the check `{self._settings.check}` ended with {ran.code}: {ran.reason}"
            )
        return True

    def _try(self, command: str) -> dict[str, Any]:
        """The results of a command; InvalidArgument if it can't be measured."""
        tries = []
        for _ in range(2):
            ran, files = self._workspace.run(self._baseline, command)
            if ran.code < 0 or ran.code in (126, 127):
                raise InvalidArgument(f"`{command}` ended with {ran.code}: {ran.reason}")
            tries.append(self._described(ran, files))
        if what := difference(*tries):
            raise InvalidArgument(
                f"`{command}`: {what} from run to run, so builds can't be told right or wrong by "
                "it; have it print the same each time, or state a check"
            )
        self._shown(f"`{command}` takes {ran.seconds:.3f} s")
        return {"seconds": f"{ran.seconds:.4f}", "results": tries[0]}

    def _take_profile(self) -> str:
        for continuous in (False, True):
            raw = self._place.folder / "raw"
            shutil.rmtree(raw, ignore_errors=True)
            words = instrumented(str(raw), continuous=continuous)
            variant = self._variant(_COUNTING, words)
            try:
                self._workspace.build(variant)
            except BuildFailed as error:
                raise BuildFailed(f"with -fprofile-generate: {error}") from None
            shutil.rmtree(raw, ignore_errors=True)  # of programs that ran in the build
            for command in self._settings.runs:
                ran, _ = self._workspace.run(variant, command)
                if ran.code < 0:
                    self._shown(f"`{command}` ended with {ran.code} when it was counted")
            files = [file for file in sorted(raw.glob("*.profraw")) if file.stat().st_size]
            shutil.rmtree(self._workspace.folder / _COUNTING, ignore_errors=True)
            if files:
                break
        else:
            raise InvalidArgument(
                "no run wrote a profile: the build doesn't hand -fprofile-generate to its links "
                "(have it link by $CC), or the runs start another program than was built"
            )
        tool = f"llvm-profdata-{self._major}"
        whole = self.profile_of(Recipe(True))
        profdata.merge(files, whole, tool)
        counts = profdata.counts(whole, tool)
        known = sum(one.max > 0 for one in counts.values())
        if not known:
            raise InvalidArgument("the profile is empty: no function of the program ran")
        profdata.without_unused(whole, self.profile_of(Recipe(True, True)), tool)
        return f"profiled {len(self._settings.runs)} runs: {known} of {len(counts)} functions ran"

    # Measuring

    def _time(
        self, stage: str, tried: Sequence[Recipe], command: str, seconds: float
    ) -> dict[str, Any]:
        names = " ".join(recipe.name for recipe in tried)

        def work() -> dict[str, Any]:
            for recipe in (Recipe(), *tried):
                self._build(recipe)
            variants = [self._variant_of(recipe) for recipe in tried if recipe != Recipe()]
            if not variants:
                variants = [self._second()]
            timing = self._workspace.time(
                [self._baseline, *variants],
                command,
                seconds * (len(variants) + 1),
                compared=not self._settings.check,
            )
            return timing.as_json()

        return self._place.step(f"{stage} {command}: {names}", work)

    def _second(self) -> Variant:
        """A copy of the baseline, which is compared with it if there is nothing else."""
        second = self._variant("again", ())
        if not self._is_built(second.name):
            self._workspace.build(second)
        return second

    def _say_how_long(self, count: int) -> None:
        """About, for so many recipes in the first rounds."""
        settings, kept = self._settings, self._place.kept
        one = [float(kept(f"try {command}")["seconds"]) for command in self._commands]
        confirmed = 5 * len(settings.confirm_runs or settings.runs)
        rounds = (_ROUNDS[0] * count + 4 * _ROUNDS[1]) * len(settings.runs) + confirmed
        seconds = max(rounds * settings.seconds, 3 * LEAST_PAIRS * sum(one) * count)
        self._shown(f"measuring takes about {math.ceil(seconds / 60)} minutes")

    def _measure(
        self, stage: str, tried: Sequence[Recipe], commands: Iterable[str], seconds: float
    ) -> dict[str, Measured]:
        if not tried:
            return {}
        by_recipe: dict[str, dict[str, Ratio]] = {recipe.name: {} for recipe in tried}
        for command in commands:
            timing = self._time(stage, tried, command, seconds)
            if what := timing["differences"].get(_BASELINE):
                raise InvalidArgument(f"`{command}`: {what}; have it print the same each time")
            repeat = ratio_from(timing["repeat"])
            self._found.repeat[command] = repeat
            for recipe in tried:
                name = recipe.name if recipe != Recipe() else "again"
                if what := timing["differences"].get(name):
                    self._found.problems[recipe.name] = f"{WRONG}: `{command}`: {what}"
                elif name in timing["ratios"]:
                    by_recipe[recipe.name][command] = ratio_from(timing["ratios"][name])
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
        usable = [recipe for recipe in first(settings.levers) if self._is_usable(recipe)]
        self._say_how_long(1 + 3 * len(usable))
        raced |= self._measure("first", usable, settings.runs, short)
        leading = sorted(leaders(raced, usable), key=lambda one: time_of(raced[one.name]))
        more = [
            recipe
            for one in leading[:_LINKS]
            for recipe in variations(one, settings.levers)
            if self._is_usable(recipe)
        ]
        raced |= self._measure("more", more, settings.runs, short)
        self._show(raced)
        left = allowed(raced, [*usable, *more], settings.objective)
        left = leaders(raced, left)
        if len(left) > 1:
            raced |= self._measure("leaders", left, settings.runs, long)
            self._show({recipe.name: raced[recipe.name] for recipe in left})

    def _show(self, found: Mapping[str, Measured]) -> None:
        for name, one in found.items():
            self._shown(f"{name}: bytes {one.bytes:.3f}, time {one.time}")

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
        for recipe in sorted(
            tried, key=lambda recipe: (recipe != best, recipe.partial, -len(recipe.name))
        ):
            if (one := found.confirmed.get(recipe.name)) and self._is_gain(one):
                if recipe == Recipe():
                    found.notes.append(
                        f"a gain without a change: the same build takes {one.time} of its own "
                        "time, so something else than the code decides here"
                    )
                if recipe != best:
                    found.notes.append(f"{best.name} led on the runs, but is not confirmed")
                return recipe
        self._say_what_it_takes(best)
        return Recipe()

    def _say_what_more_bytes_give(self, tried: Sequence[Recipe]) -> None:
        """A note if a larger program would be faster."""
        found, raced = self._found, self._found.raced
        if self._settings.objective != "time-at-no-more-bytes":
            return
        best = choose(raced, tried, "time")
        now = time_of(raced[found.chosen.name]) if found.chosen.name in raced else 1.0
        if best and best != found.chosen and time_of(raced[best.name]) < now - _WORTH:
            one = raced[best.name]
            found.notes.append(
                f"with more bytes it would be faster: {best.name} takes {one.time} of the time on "
                f"the runs, with {one.bytes:.3f} of the bytes; --objective time"
            )

    def _is_gain(self, one: Measured) -> bool:
        if one.time is None:
            return False
        noise = max((noise_of(ratio) for ratio in self._found.repeat.values()), default=1.0)
        is_smaller = one.bytes is not None and one.bytes < 1
        if self._settings.objective == "bytes":
            return is_smaller and one.time.low <= noise
        if self._settings.objective != "time" and one.bytes is not None and one.bytes > 1:
            return False
        return one.time.high * noise < 1

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
        self._found.notes.append(text)


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The first result that is another one."""
    for what, value in before.items():
        if after.get(what) != value:
            codes = f" is {after.get(what)}, not {value}" if what == "exit code" else " differs"
            return f"{what}{codes}"
    return ""


def ratio_from(found: Mapping[str, Any]) -> Ratio:
    """A ratio that JSON held."""
    low, high = (0.0 if found["low"] is None else found["low"],
                 math.inf if found["high"] is None else found["high"])  # fmt: skip
    return Ratio(found["mean"], low, high, found["count"])


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


def leaders(found: Mapping[str, Measured], tried: Sequence[Recipe]) -> list[Recipe]:
    """The recipes that may be as fast as the fastest."""
    times = {name: one.time for name, one in found.items() if one.time}
    if not times:
        return []
    limit = min(times.values(), key=lambda time: time.mean).high
    return [recipe for recipe in tried if recipe.name in times and times[recipe.name].low <= limit]


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


def choose(found: Mapping[str, Measured], tried: Sequence[Recipe], objective: str) -> Recipe | None:
    """The best recipe, if one will do. Among those that are as fast as far as is known, that with
    the least bytes."""
    there = allowed(found, tried, objective)
    if objective != "bytes":
        there = leaders({recipe.name: found[recipe.name] for recipe in there}, there)
    return min(there, key=lambda recipe: found[recipe.name].bytes or 1.0, default=None)
