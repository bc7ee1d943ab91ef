# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge specialize`: a program made faster by a profile of its own runs."""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..optimizations import LEVELS
from ..specializing.choosing import OBJECTIVES
from ..specializing.recipes import LEVERS, Recipe
from .arguments import Parser, positive_seconds
from .common import DONE, Interrupted, UsageError, must_be_writable, printable, table

if TYPE_CHECKING:
    from ..specializing.choosing import Measured
    from ..specializing.specialization import Specialization


def add_arguments(parser: Parser) -> None:
    """The options of `mlbridge specialize`."""
    parser.describe(
        """\
Makes a program faster: builds it with counters, takes the profile of all runs, builds it with the
profile alone and in link-time optimization, with and without cold functions for size, and chooses
by the clock. What is chosen is measured anew, on the runs of --confirm-run if there are any; what
isn't faster for certain is not used. FILE has the decisions and the profile, for
`mlbridge flags --decisions FILE` in all later builds.""",
        """\
The build is told the compiler by $CC and $CXX, and the level by $CFLAGS and $CXXFLAGS; it also
finds cc, gcc, clang, c++ … on its PATH. Runs must print the same each time, unless --check says
what is right. If it is interrupted, the same command goes on.

example:
  mlbridge specialize -o f --build 'make -j2' --run './app a' --confirm-run './app b'
  make CC="clang-22 $(mlbridge flags --decisions f)\"""",
    )
    parser.option("-o FILE", "the decisions file", dest="output", required=True)
    parser.option("--build COMMAND", "builds the program: 'make -j2'", required=True)
    parser.option("--run COMMAND ...", "run in the built tree: it is profiled, and decides")
    parser.option("--confirm-run COMMAND ...", "on which what was chosen is measured")
    parser.option("--tree DIR", "the source tree, which is copied (default: .)", default=".")
    parser.option("--prepare COMMAND", "run before each build: ./configure")
    parser.option("--check COMMAND", "must end with 0 in each built tree: 'make check'")
    parser.option(
        "--output FILE ...", "a file that the runs write, to be compared", dest="output_files"
    )
    parser.option("--level", "the -O level (default: O3)", choices=LEVELS, default="O3")
    parser.option(
        "--objective",
        "less time in no more code (the default); less time; less code that isn't slower",
        choices=OBJECTIVES,
        default=OBJECTIVES[0],
    )
    parser.option(
        "--without LEVER ...", f"don't use this one of {', '.join(LEVERS)}", choices=LEVERS
    )
    parser.option(
        "--time TIME",
        "measure each command for so long when it confirms, for each recipe (default: 30s)",
        type=positive_seconds,
        default=30.0,
    )
    parser.option(
        "--budget TIME",
        "then search LLVM's options for so long, over the recipe that leads: 30m",
        type=positive_seconds,
        default=0.0,
    )
    parser.option(
        "--ray ADDRESS", "a Ray cluster that is running, whose nodes search instead of this machine"
    )
    parser.option(
        "--timeout TIME",
        "the most for a build, a check or a run (default: 10m)",
        type=positive_seconds,
        default=600.0,
    )
    parser.option("--compiler COMMAND", "(default: clang-22)", default="clang-22")
    parser.option(
        "--work DIR", "keep what was built here (default: in ~/.cache/mlbridge, removed at the end)"
    )


def run(options: argparse.Namespace) -> int:
    """Specialize, and print what was found."""
    if not options.run:
        raise UsageError(
            "the following arguments are required: --run; see mlbridge specialize --help"
        )
    if options.ray and not options.budget:
        raise UsageError("--ray is for a search; say how long it may take by --budget")
    must_be_writable(o=options.output)
    from ..errors import Busy, Error
    from ..specializing.search import specialize
    from ..specializing.specialization import Settings

    settings = Settings(
        tree=Path(options.tree),
        build=options.build,
        runs=tuple(dict.fromkeys(options.run)),
        confirm_runs=tuple(dict.fromkeys(options.confirm_run)),
        prepare=options.prepare or "",
        check=options.check or "",
        outputs=tuple(options.output_files),
        level=options.level,
        objective=options.objective,
        levers=tuple(one for one in LEVERS if one not in options.without),
        seconds=options.time,
        timeout=options.timeout,
        budget=options.budget,
        cluster=options.ray or "",
        compiler=options.compiler,
    )
    work = Path(options.work) if options.work else folder_of(options.output)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        found = specialize(
            settings,
            Path(options.output),
            work,
            keep=options.work is not None,
            shown=lambda text: print(printable(text), file=sys.stderr, flush=True),
        )
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; the same command goes on, from {work}") from None
    except Error as error:
        if work.is_dir() and not isinstance(error, Busy):
            print(f"what was built is in {work}, for the next try", file=sys.stderr)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
    show(found, options.output)
    return DONE


def folder_of(output: str) -> Path:
    """The folder that belongs to a decisions file: in the cache of the user, as the file may lie in
    the tree."""
    path = Path(output).resolve()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.blake2b(os.fsencode(path), digest_size=8).hexdigest()
    return cache / "mlbridge" / "specialize" / digest


def show(found: Specialization, output: str) -> None:
    """The table, and what was chosen."""
    from ..workspace import cxx_of

    usual = found.bytes["none"]

    def row(name: str, one: Measured, where: str) -> list[Any]:
        return [name, where, one.size, one.time or "-"]

    rows = [row(name, one, "runs") for name, one in found.raced.items()]
    where = "confirm runs" if found.settings.confirm_runs else "runs, anew"
    rows += [row(name, one, where) for name, one in found.confirmed.items()]
    if rows:
        table(["recipe", "measured on", "bytes", "time"], rows, left=("recipe", "measured on"))
        print(
            f"over the build's own ({usual} executable bytes; -{found.settings.level} in $CFLAGS);"
            " [95 % confidence]"
        )
    for name, text in found.problems.items():
        print(f"left out: {name}: {printable(text)}")
    for recipe in filter(lambda recipe: recipe.options, found.derived):
        print(f"{recipe.name} has {' '.join(f'-{name}={value}' for name, value in recipe.options)}")
    for text in found.notes:
        print(f"note: {printable(text)}")
    if found.chosen != Recipe():
        one = found.confirmed[found.chosen.name]
        print(f"chosen: {found.chosen.name}: time {one.time}, bytes {one.size}")
        flags = f"$(mlbridge flags --decisions {shlex.quote(output)})"
        cxx = cxx_of(found.settings.compiler)
        print(f'build with: CC="{found.settings.compiler} {flags}" CXX="{cxx} {flags}"')
    else:
        print("chosen: none; the build's own stays as it is")
