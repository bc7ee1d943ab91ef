# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the Debian packages into build/deb: tools/deb.py [OPTION ...]

Options go to dpkg-buildpackage, which builds a copy of the tree without network. Where Debian has
no nanobind (Debian 12), PyPI's is installed before that, into build/deb/venv.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from common import BUILD, ROOT

FOLDER = BUILD / "deb"
SOURCE = FOLDER / "source"
PROFILE = "pkg.mlbridge.nanobind"  # builds with a nanobind that the environment names
FOR_BUILDING = ROOT / "tools/requirements/build.txt"


def run(*command: str | Path, **more: str) -> str:
    """Runs a program that must succeed; what it printed, if it wasn't for the user."""
    done = subprocess.run(
        command, cwd=SOURCE, env=os.environ | more, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip()


def local_nanobind() -> Path:
    """The folder of the CMake files of a nanobind of our own."""
    python = FOLDER / "venv/bin/python"
    if not python.exists():
        run("/usr/bin/python3", "-m", "venv", python.parents[1])
    wanted = [x for x in FOR_BUILDING.read_text().splitlines() if x.startswith("nanobind")]
    run(python, "-m", "pip", "install", "--quiet", *(x.replace(" ", "") for x in wanted))
    return Path(run(python, "-m", "nanobind", "--cmake_dir"))


def main(options: list[str]) -> int:
    for old in FOLDER.glob("*.*"):
        old.unlink()
    shutil.rmtree(SOURCE, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", ".git", ".mypy_cache", ".ruff_cache")
    SOURCE.mkdir(parents=True)
    for entry in ROOT.iterdir():
        if entry.name in ("build", ".git"):
            continue
        if entry.is_dir():
            shutil.copytree(entry, SOURCE / entry.name, ignore=ignored, symlinks=True)
        else:
            shutil.copy2(entry, SOURCE)
    env = dict(os.environ)
    command = ["dpkg-buildpackage", "-us", "-uc", "-b", *options]
    known = subprocess.run(["apt-cache", "show", "nanobind-dev"], capture_output=True, check=False)
    if known.returncode != 0 or "nanobind_DIR" in env:
        command.append(f"--build-profiles={PROFILE}")
        env["nanobind_DIR"] = env.get("nanobind_DIR") or str(local_nanobind())
    code = subprocess.run(command, cwd=SOURCE, env=env, check=False).returncode
    if code == 0:
        print("\n".join(str(made.relative_to(ROOT)) for made in sorted(FOLDER.glob("*.deb"))))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
