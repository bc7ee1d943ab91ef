# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How much a search of LLVM's options gains over a program's own profile and link: an oracle.

    python3 -m experiments.speed_oracle lzip brotli --tries 150 -o build/experiments/oracle.json

Needs Optuna. Each program is compiled once, with the profile of its runs, for full link-time
optimization (`mlbridge specialize`'s profile-full). A try links it anew with other options of the
optimizer and the code generator: first each by itself, then as `mlbridge specialize --budget` draws
them. It is compared with the same link without by the clock, on the runs. The five best are
compared for longer, and the best of these on fresh inputs, which nothing has seen. An output that
differs ends a try.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tqdm import tqdm

from experiments.specialize import FRESH, profiled, runs_of
from mlbridge import clock
from mlbridge.errors import Error
from mlbridge.outputs import write_whole
from mlbridge.ratio import Ratio
from mlbridge.specializing.choosing import combined
from mlbridge.specializing.draws import Draws
from mlbridge.specializing.options import OPTIONS, Options
from mlbridge.specializing.recipes import Recipe
from programs import work
from programs.build import compile_program, link_program
from programs.catalog import Program, ProgramsError, load, select
from programs.fetch import BUILD, fetch

RECIPE = Recipe(True, link="full")
BEST = 5


class Oracle:
    """A program, compiled with its profile, that is linked with many settings."""

    def __init__(self, program: Program, folder: Path, seconds: float) -> None:
        self._program = program
        self._folder = folder
        self._seconds = seconds
        self._runs, self._fresh = runs_of(program)
        self._profile = str(profiled(program, folder, self._runs))
        words = ("-O3", *RECIPE.words(self._profile))
        self._compiled = compile_program(program, folder / "objects", flags=words, drivers=True)
        self.link("base", ())

    def link(self, name: str, options: Options) -> None:
        """Link it. ProgramsError"""
        target = self._folder / name / "mlbridge-bin"
        shutil.rmtree(target, ignore_errors=True)
        words = RECIPE._replace(options=options).words(self._profile)
        link_program(self._program, self._compiled, target, ("clang-22", "-O3", *words))

    def time(self, name: str, seconds: float, *, fresh: bool = False) -> Ratio:
        """The time over the same link's without settings. Error if an output differs."""
        ratios = []
        for run in self._fresh if fresh else self._runs:
            works = [
                clock.Work(one, (clock.Command.of(run),), self._folder / one, outputs=())
                for one in ("base", name)
            ]
            timing = clock.compare(works[0], works[1:], budget=seconds)
            if timing.differences:
                raise ProgramsError(f"{self._program.name}: {timing.differences}")
            ratios.append(timing.ratios[name])
        found = combined(ratios)
        assert found
        return found

    def search(self, tries: int) -> dict[str, Any]:
        """The best of so many tries."""
        alone = [((name, value),) for name, values in OPTIONS.items() for value in values]
        draws = Draws(alone)
        found: list[tuple[float, Options]] = []
        failed = 0
        for _ in tqdm(range(tries), desc=self._program.name, file=sys.stderr):
            drawn = draws.ask()
            try:
                self.link("try", drawn)
                time = self.time("try", self._seconds)
            except (Error, ProgramsError):
                failed += 1
                draws.tell(None)
                continue
            draws.tell(time.mean)
            found.append((time.mean, drawn))
        if not found:
            raise ProgramsError(f"{self._program.name}: none of {tries} tries was right")
        found.sort(key=lambda one: one[0])
        leading = []
        for _, drawn in found[:BEST]:
            self.link("try", drawn)
            leading.append((self.time("try", 5 * self._seconds), drawn))
        time, drawn = min(leading, key=lambda one: one[0].mean)
        self.link("try", drawn)
        return {
            "tries": tries,
            "failed": failed,
            "options": drawn,
            "runs": time.as_json(),
            "fresh": self.time("try", 10 * self._seconds, fresh=True).as_json(),
            "every try": [[round(mean, 5), options] for mean, options in found],
        }


def means_of(found: dict[str, Any]) -> dict[str, str]:
    """Geometric means over programs, on the runs and on fresh inputs."""
    return {
        which: str(Ratio.of(one[which]["mean"] for one in found.values()))
        for which in ("runs", "fresh")
    }


def main(arguments: list[str]) -> int:
    """Command line."""
    about = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="experiments.speed_oracle", description=about)
    parser.add_argument("names", nargs="+", help="sets or programs")
    parser.add_argument("--tries", type=int, default=150)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each try and command")
    parser.add_argument("-o", dest="output", type=Path, metavar="FILE", required=True)
    options = parser.parse_args(arguments)
    programs = fetch(select(load(), options.names))
    work.write(BUILD / "work")
    work.write(BUILD / FRESH, edition=1)
    settings = {"tries": options.tries, "seconds": options.seconds}
    found: dict[str, Any] = {}
    if options.output.exists():
        kept = json.loads(options.output.read_text())
        if kept["settings"] != settings:
            print(f"speed_oracle: {options.output} has other settings", file=sys.stderr)
            return 1
        found = kept["programs"]
    for program in programs:
        if program.name in found:
            continue
        with tempfile.TemporaryDirectory(dir=BUILD, prefix=f".{program.name}-") as folder:
            oracle = Oracle(program, Path(folder), options.seconds)
            found[program.name] = oracle.search(options.tries)
        shown = {name: one for name, one in found[program.name].items() if name != "every try"}
        print(program.name, json.dumps(shown), flush=True)
        text = json.dumps(
            {"settings": settings, "programs": found, "means": means_of(found)}, indent=1
        )
        write_whole(options.output, text.encode() + b"\n")
    print(json.dumps(means_of(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
