# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What differs from a commit, which Python tests that concerns, and the package that they test."""

from __future__ import annotations

import subprocess
from pathlib import Path

from common import BUILD, ROOT


def git(*words: str) -> str | None:
    """What git prints; None if it fails or isn't there."""
    try:
        done = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def base() -> str | None:
    """The commit from which changes count: where this left origin's main; if that is what is
    checked out, as after a push, the one before; without an origin, the state of a day before the
    last commit. None if nothing says."""
    head = git("rev-parse", "HEAD")
    for main in ("origin/main", "origin/HEAD"):
        common = git("merge-base", "HEAD", main)
        if common and common != head:
            return common
    if git("remote", "get-url", "origin"):
        return git("rev-parse", "--verify", "HEAD^")
    when = git("show", "-s", "--format=%ct", "HEAD")
    if not when:
        return None
    before = f"--before={int(when) - 86400}"
    return git("rev-list", "-1", "--first-parent", before, "HEAD") or None


def changed(since: str) -> set[Path] | None:
    """Files that differ from this commit in the working tree; None if git can't say."""
    differing = git("diff", "--name-only", since)
    new = git("ls-files", "--others", "--exclude-standard")
    if differing is None or new is None:
        return None
    return {ROOT / name for name in (*differing.splitlines(), *new.splitlines())}


def is_test(path: Path) -> bool:
    return path.name.endswith("_test.py")


def tests_of(paths: set[Path], folders: list[str]) -> list[Path]:
    """The test files among these Python files, and those whose name says that they are of one:
    serve_test.py of server.py."""
    names = {path.stem for path in paths if path.suffix == ".py" and not is_test(path)}
    found = {path for folder in folders for path in (ROOT / folder).glob("*.py") if is_test(path)}

    def concerned(test: Path) -> bool:
        tested = test.stem.removesuffix("_test")
        return any(name.startswith(tested) or tested.startswith(name) for name in names)

    return sorted(test for test in found if test in paths or concerned(test))


def package_of_the_tree() -> Path | None:
    """A folder for PYTHONPATH: the package's Python files as they are in the tree, the rest as in
    build/venv. None if no package is installed there."""
    installed = next(iter(BUILD.glob("venv/lib/python*/site-packages/mlbridge")), None)
    if installed is None:
        return None
    folder = BUILD / "check" / "mlbridge"
    folder.mkdir(parents=True, exist_ok=True)
    for link in folder.iterdir():
        link.unlink()
    tree = ROOT / "python" / "mlbridge"
    for source in (*tree.iterdir(), *installed.iterdir()):
        link = folder / source.name
        if source.name != "__pycache__" and not link.is_symlink():
            link.symlink_to(source)
    return folder.parent
