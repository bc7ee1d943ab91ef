# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds the recipe that is best for a program by its own runs (see the package)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from ..errors import InvalidArgument, Unsupported
from ..process_runner import run_tool
from . import decisions_file
from .recipes import Recipe, plugin_digest, recipes
from .specialization import VARIABLES, Settings, Specialization, must_make_sense
from .steps import Search, processor
from .workplace import Workplace, contents_of

_TIMEOUT = 60.0
#: A larger budget goes on with a search, here or on other machines.
_FREE = ("tree", "budget", "cluster")
#: The names of settings for people, where they aren't these.
_OPTIONS = {
    "runs": "--run",
    "confirm_runs": "--confirm-run",
    "outputs": "--output",
    "seconds": "--time",
    "levers": "--without",
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
    should be on a disk with room for twenty built trees. It is removed at the end unless `keep` or
    there was a wrong output; with `keep`, it is InvalidArgument if it has one of other settings.
    `shown` is told what was done. Raises InvalidArgument, BuildFailed,
    DeadlineExceeded, NotFound, Unsupported, Busy, OSError.
    """
    must_make_sense(settings)
    wrong_file = output.with_name(f"{output.name}.wrong")
    for file in (output, wrong_file):
        _must_be_own(file)
    said = run_tool([settings.compiler, "--version"], timeout=_TIMEOUT).stdout.text
    version = said.partition("\n")[0]
    major = re.search(r"clang version (\d+)\.", version)
    if not major:
        raise Unsupported(f"{settings.compiler} says that it is {version!r}; expected a clang")
    files = partial(contents_of, settings.tree, (output, wrong_file))
    asked = {name: value for name, value in asdict(settings).items() if name not in _FREE}
    made_from = {
        **{_OPTIONS.get(name, f"--{name}"): value for name, value in asked.items()},
        "the source tree": str(settings.tree.resolve()),
        "its files": files(),
        "the compiler": version,
        **{f"${name}": os.environ.get(name, "") for name in (*VARIABLES, "PATH")},
        "MLBridge": [recipe.words("") for recipe in recipes()],
        "the processor": processor(settings.compiler),
        "the plugin for versions": plugin_digest() if "versions" in settings.levers else "",
    }
    done = False

    def is_same() -> bool:
        return bool(files() == made_from["its files"])

    place = Workplace(work, made_from, anew=not keep)
    if place.changed:
        shown(f"begins anew, as these have changed: {', '.join(place.changed)}")
    try:
        search = Search(settings, place, version, major[1], is_same, shown)
        found = search.run()

        def write(file: Path, recipe: Recipe) -> None:
            profile = place.profile_of(recipe).read_bytes() if recipe.profile else b""
            decisions_file.write(
                file.resolve(), profile, found.as_json() | {"recipe": recipe._asdict()}
            )

        wrong = found.wrong()
        wrong_file.unlink(missing_ok=True)
        if wrong:
            write(wrong_file, wrong)
            found.notes.append(
                f"{wrong.name} makes a wrong program: {wrong_file} has its decisions, "
                f"{place.folder / 'trees' / wrong.name} what was built"
            )
        write(output, found.chosen)
        done = not keep and not wrong
        return found
    finally:
        place.close(remove=done)


def _must_be_own(file: Path) -> None:
    """InvalidArgument if there is something else than a decisions file."""
    if file.exists() and not file.is_file():
        raise InvalidArgument(f"{file} is no file; expected a new one, or an earlier one")
    if file.is_file() and file.stat().st_size:
        try:
            decisions_file.read(file)
        except InvalidArgument:
            raise InvalidArgument(
                f"{file} is there, and no decisions file; remove it, or choose another name"
            ) from None
