# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is tried as another user, which only root can begin."""

from __future__ import annotations

import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

OTHER = "nobody"


def need_another_user() -> None:
    """Skips, and says why, where this can't be tried."""
    if os.geteuid():
        pytest.skip(f"only root can run programs as {OTHER}")
    if shutil.which("setpriv") is None:
        pytest.skip("util-linux's setpriv, which runs programs as another user, is not there")
    try:
        pwd.getpwnam(OTHER)
    except KeyError:
        pytest.skip(f"there is no user {OTHER}")


def as_other(words: Sequence[str | Path]) -> list[str]:
    """The command, run as that user."""
    found = pwd.getpwnam(OTHER)
    user = [f"--reuid={found.pw_uid}", f"--regid={found.pw_gid}", "--clear-groups"]
    # A preloaded library may lie where that user can't look.
    return ["env", "-u", "LD_PRELOAD", "setpriv", *user, "--", *map(str, words)]


@pytest.fixture
def common() -> Iterator[Path]:
    """A folder that all users can look into, as those of tmp_path are not; it is root's."""
    need_another_user()
    folder = Path(tempfile.mkdtemp(prefix="mlbridge-users-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def python() -> str:
    """One that every user can run."""
    return os.path.realpath(sys.executable)
