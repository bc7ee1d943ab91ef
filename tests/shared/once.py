# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Things that are slow to make, made once in a run of pytest and shared by its processes."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from building import ROOT

#: A folder for each run, named as the process that leads it.
RUNS = ROOT / "build" / "test" / "shared"


def begin_run() -> Path:
    """The folder of the run that this process leads. Removes those of runs that were killed."""
    RUNS.mkdir(parents=True, exist_ok=True)
    for folder in RUNS.iterdir():
        if folder.name == str(os.getpid()) or not Path("/proc", folder.name).exists():
            shutil.rmtree(folder, ignore_errors=True)
    folder = RUNS / str(os.getpid())
    folder.mkdir()
    return folder


class SharedBuild:
    """Folders that are filled by the first process of a run that asks for them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, name: str, make: Callable[[Path], object]) -> Path:
        """The folder of this name, filled by `make`; other processes wait for it.

        If `make` raises, the next one that asks tries again. Tests must not change the contents.
        """
        made, done = self.folder / name, self.folder / f"{name}.done"
        with open(self.folder / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(made, ignore_errors=True)
                made.mkdir()
                make(made)
                done.touch()
        return made
