# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a built program does, and whether another build of it does the same."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from ..errors import InvalidArgument
from ..process_runner import Output, Ran
from ..workspace import Variant, Workspace
from .specialization import WRONG, Settings

NO_FILE = "no file"
Results = Mapping[str, str]


class Behaviour:
    """The check and the runs of a program, in the builds of a workspace."""

    def __init__(self, settings: Settings, workspace: Workspace) -> None:
        self._settings = settings
        self._workspace = workspace

    def results(self, ran: Ran, files: Mapping[str, Output | None]) -> dict[str, str]:
        """The parts of a run that must be the same in another build."""
        found = {"exit code": str(ran.code)}
        if not self._settings.check:
            found["standard output"] = ran.stdout.digest
            found |= {name: one.digest if one else NO_FILE for name, one in files.items()}
        return found

    def must_pass(self, variant: Variant) -> None:
        """InvalidArgument if the check says that the build is wrong."""
        ran, _ = self._workspace.run(variant, self._settings.check)
        if ran.code:
            raise InvalidArgument(
                f"the check `{self._settings.check}` ended with {ran.code}: {ran.reason}"
            )

    def difference(self, variant: Variant, expected: Mapping[str, Results]) -> str:
        """What a build does otherwise: by the check, and by the results of commands."""
        if self._settings.check:
            try:
                self.must_pass(variant)
            except InvalidArgument as error:
                return f"{WRONG}: {error}"
        for command, results in expected.items():
            ran, files = self._workspace.run(variant, command)
            if what := first_difference(results, self.results(ran, files)):
                return f"{WRONG}: `{command}`: {what}"
        return ""


def sizes_in(tree: Path) -> dict[str, int]:
    """The bytes of all files in a tree."""
    found = {}
    for folder, _, names in os.walk(tree):
        for name in names:
            path = Path(folder, name)
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                found[str(path.relative_to(tree))] = status.st_size
    return found


def first_difference(before: Results, after: Results) -> str:
    """The first result that is another one."""
    for what, value in before.items():
        if after.get(what) != value:
            codes = f" is {after.get(what)}, not {value}" if what == "exit code" else " differs"
            return f"{what}{codes}"
    return ""
