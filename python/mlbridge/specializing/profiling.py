# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Takes the profile of a program's runs."""

from __future__ import annotations

import shutil

from .. import profdata
from ..errors import InvalidArgument
from ..workspace import BuildFailed, Workspace
from .recipes import Recipe, instrumented
from .specialization import Settings
from .workplace import Workplace

_COUNTING = "counting"


def take_profile(settings: Settings, place: Workplace, workspace: Workspace, major: str) -> str:
    """Build a program that counts, run it, and write the profiles that recipes use; says what is in
    them. Raises BuildFailed, DeadlineExceeded; InvalidArgument if there is nothing in them."""
    for continuous in (False, True):
        notes: list[str] = []
        raw = place.folder / "raw"
        shutil.rmtree(raw, ignore_errors=True)
        words = instrumented(str(raw), continuous=continuous)
        variant = place.variant(_COUNTING, settings.compiler, words)
        try:
            workspace.build(variant)
        except BuildFailed as error:
            raise BuildFailed(f"with -fprofile-generate: {error}") from None
        shutil.rmtree(raw, ignore_errors=True)  # of programs that ran in the build
        files, silent = [], []
        for number, command in enumerate(settings.runs):
            ran, _ = workspace.run(variant, command)
            if ran.code < 0:
                notes.append(f"; `{command}` ended with {ran.code} when it was counted")
            written = [file for file in sorted(raw.glob("*.profraw")) if file.stat().st_size]
            if not written:
                silent.append(command)
            own = raw / f"run-{number}"
            own.mkdir(parents=True)
            files += [file.rename(own / file.name) for file in written]
        workspace.remove(variant)
        if not silent:
            break
    if not files:
        raise InvalidArgument(
            "no run wrote a profile: the build doesn't hand -fprofile-generate to its links "
            "(have it link by $CC), or the runs start another program than was built"
        )
    if silent:
        notes.append(f"; `{silent[0]}` wrote no profile, and only what other runs do is known")
    tool = f"llvm-profdata-{major}"
    whole, partial = place.profile_of(Recipe(True)), place.profile_of(Recipe(True, True))
    profdata.merge(files, whole, tool)
    counts = profdata.counts(whole, tool)
    known = sum(one.max > 0 for one in counts.values())
    if not known:
        raise InvalidArgument("the profile is empty: no function of the program ran")
    profdata.without_unused(whole, partial, tool)
    return f"profiled the runs: {known} of {len(counts)} functions ran{''.join(notes)}"
