# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What decisions for single functions give, over a whole program's recipe.

    python3 -m experiments.speed_functions lame tcc --recipes build/experiments/specialize.json \\
      -o build/experiments/functions.json

The base is the recipe that experiments.specialize has chosen for the program. Each of the functions
in which most runs is compiled for size, or kept from being inlined, with all else as in the base,
and a profile of its own: these decisions change what is inlined before anything is counted. What
saves time on the runs, by an interval, is taken together, and measured on inputs that nothing has
seen.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from experiments.specialize import FRESH, profiled, runs_of
from mlbridge import clock, profdata
from mlbridge.errors import Error
from mlbridge.outputs import write_whole
from mlbridge.ratio import Ratio
from mlbridge.specializing.choosing import combined
from mlbridge.specializing.recipes import Recipe
from programs import work
from programs.build import compile_program, link_program
from programs.catalog import Program, ProgramsError, load, select
from programs.fetch import BUILD, fetch

ATTRIBUTES = ("optsize", "minsize", "noinline")
#: How many decisions are measured for longer, and how much longer.
_BEST, _LONGER = 4, 4
_BASE, _ALL = "base", "all"


class Functions:
    """A program, built by the recipe with decisions for functions."""

    def __init__(self, program: Program, folder: Path, recipe: Recipe, most: int) -> None:
        self._program, self._folder, self._recipe = program, folder, recipe
        self._runs, self._fresh = runs_of(program)
        profile, self._digest = self._build(_BASE, ())
        known = profdata.counts(profile)
        hottest = sorted(known, key=lambda key: known[key].sum, reverse=True)
        self._names = list(dict.fromkeys(name for _, name in hottest if name != "main"))[:most]

    def _build(self, name: str, decisions: Iterable[str]) -> tuple[Path, str]:
        """The profile that it was built with, and a hash of what was built."""
        forced = [w for one in decisions for w in ("-mllvm", f"-force-attribute={one}")]
        counted = self._folder / f"{name}-counted"
        counted.mkdir()
        profile = profiled(self._program, counted, self._runs, forced)
        if self._recipe.partial:
            profdata.without_unused(profile, profile)
        # The same path for all, as it is in what is built.
        same = profile.replace(self._folder / "profile.profdata")
        words = ["-O3", *self._recipe.words(str(same))]
        compiled = compile_program(
            self._program, self._folder / f"{name}-objects", flags=(*words, *forced), drivers=True
        )
        target = self._folder / name / "mlbridge-bin"
        link_program(self._program, compiled, target, ("clang-22", *words))
        digest = hashlib.blake2b()
        for file in sorted(target.iterdir()):
            digest.update(file.read_bytes())
        return same, digest.hexdigest()

    def _times(
        self, builds: Sequence[str], commands: Iterable[str], seconds: float
    ) -> dict[str, Ratio]:
        found: dict[str, list[Ratio]] = {name: [] for name in builds}
        for command in commands:
            works = [
                clock.Work(name, (clock.Command.of(command),), self._folder / name, outputs=())
                for name in (_BASE, *builds)
            ]
            timing = clock.compare(works[0], works[1:], budget=seconds * len(works))
            for name, ratio in timing.ratios.items():
                found[name].append(ratio)
        return {name: both for name, some in found.items() if (both := combined(some))}

    def best(self, seconds: float) -> dict[str, Any]:
        """The decisions that save time on the runs, and what they give on fresh inputs."""
        builds: dict[str, str] = {}
        tried = [f"{name}:{attribute}" for name in self._names for attribute in ATTRIBUTES]
        for number, one in enumerate(tried):
            if self._build(f"decision-{number}", [one])[1] != self._digest:
                builds[f"decision-{number}"] = one
        first = self._times(list(builds), self._runs, seconds) if builds else {}
        leading = sorted(first, key=lambda name: first[name].mean)[:_BEST]
        longer = self._times(leading, self._runs, _LONGER * seconds) if leading else {}
        taken: dict[str, str] = {}  # one for each function
        for name in sorted(longer, key=lambda name: longer[name].mean):
            if longer[name].high < 1:
                taken.setdefault(builds[name].rpartition(":")[0], builds[name])
        decisions = list(taken.values())
        if not decisions:
            same = Ratio(1.0, 1.0, 1.0, 1).as_json()
            return {"decisions": [], "changes": len(builds), "runs": None, "fresh": same}
        self._build(_ALL, decisions)
        return {
            "decisions": decisions,
            "changes": len(builds),
            "runs": self._times([_ALL], self._runs, _LONGER * seconds)[_ALL].as_json(),
            "fresh": self._times([_ALL], self._fresh, 2 * _LONGER * seconds)[_ALL].as_json(),
        }


def main(arguments: list[str]) -> int:
    """Command line."""
    about = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="experiments.speed_functions", description=about)
    parser.add_argument("names", nargs="+", help="sets or programs")
    parser.add_argument(
        "--recipes", type=Path, required=True, metavar="FILE", help="of experiments.specialize"
    )
    parser.add_argument("--functions", type=int, default=6, help="the most that are tried")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each decision and command")
    parser.add_argument("-o", dest="output", type=Path, metavar="FILE", required=True)
    options = parser.parse_args(arguments)
    known = json.loads(options.recipes.read_text())["programs"]
    recipes = {name: Recipe.of(one["recipe"]) for name, one in known.items()}
    programs = fetch(select(load(), options.names))
    if lacking := [program.name for program in programs if program.name not in recipes]:
        parser.error(f"{options.recipes} has no recipe for {', '.join(lacking)}")
    work.write(BUILD / "work")
    work.write(BUILD / FRESH, edition=1)
    found: dict[str, Any] = {}
    for program in tqdm(programs, unit="program", file=sys.stderr):
        with tempfile.TemporaryDirectory(dir=BUILD, prefix=f".{program.name}-") as folder:
            try:
                recipe = recipes[program.name]
                functions = Functions(program, Path(folder), recipe, options.functions)
                one = functions.best(options.seconds)
            except (Error, ProgramsError) as error:
                tqdm.write(f"{program.name}: {error}")
                continue
        found[program.name] = one
        tqdm.write(f"{program.name}: {Ratio.from_json(one['fresh'])} {one['decisions']}")
        mean = Ratio.of(each["fresh"]["mean"] for each in found.values())
        made = {"programs": found, "mean": str(mean)}
        write_whole(options.output, json.dumps(made, indent=1).encode() + b"\n")
    if found:
        print(mean)
    return 0 if len(found) == len(programs) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
