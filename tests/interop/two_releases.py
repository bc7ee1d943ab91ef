# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compilers of one release with the servers of another, on every transport with every serdes.

    two_releases.py [COMMIT]

Builds the Python package of the commit, by default of the newest release before this one (a tag
vX.Y.Z), in build/nightly/, and has its peer.py talk to the present one: each asks the other, and
each drives the other's environment.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRANSPORTS = {"unix": "unix:{}/s", "shm": "shm:{}/s", "pipe": "pipe:{}/s"}
TRANSPORTS |= {"pipe, a folder": "pipe:{}/", "grpc": "grpc:localhost:0"}
SERDES = ("bitstream", "json", "protobuf")
ROLES = (("serve", "ask"), ("environment", "drive"))
WITHOUT = ("ONNX", "LLVM", "MLIR", "GCC", "COMPAT")  # what doesn't talk to a peer
SECONDS = 60


@dataclass(frozen=True)
class Release:
    """A tree and the folder in which its package is installed, if that isn't the interpreter's."""

    name: str
    tree: Path
    packages: Path | None = None

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, str(self.tree / "tests/interop/peer.py"), *arguments]

    def environment(self) -> dict[str, str]:
        found = {k: v for k, v in os.environ.items() if k != "MLBRIDGE_COMPONENT_PATH"}
        return found | ({"PYTHONPATH": str(self.packages)} if self.packages else {})


def git(*arguments: str, tree: Path = ROOT) -> str:
    command: list[str | Path] = ["git", "-C", tree, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def release_before(tree: Path = ROOT) -> str:
    """The tag of the newest release before the last commit; "" if there is none."""
    return git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^", tree=tree)


def built(commit: str) -> Release:
    """The package of a commit, built in a work tree of its own."""
    folder = ROOT / "build" / "nightly" / f"release-{git('rev-parse', '--short', commit)}"
    tree, packages = folder / "tree", folder / "packages"
    if not packages.is_dir():
        git("worktree", "prune")
        git("worktree", "add", "--force", "--detach", str(tree), commit)
        fresh = folder / "unfinished"
        shutil.rmtree(fresh, ignore_errors=True)
        defines = [f"--config-settings=cmake.define.MLBRIDGE_{part}=OFF" for part in WITHOUT]
        make: list[str | Path] = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation"]
        make += ["--no-deps", *defines]
        for distribution in (tree, tree / "python/distributions/grpc"):
            if (distribution / "pyproject.toml").is_file():
                subprocess.run([*make, "-w", fresh, distribution], check=True)
        for wheel in fresh.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(fresh / "packages")
        (fresh / "packages").rename(packages)
    return Release(commit, tree, packages)


def outcome(listens: Release, comes: Release, uri: str, serdes: str, roles: tuple[str, str]) -> str:
    """ "passed", or what went wrong."""
    with subprocess.Popen(
        listens.command(roles[0], uri),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=listens.environment(),
    ) as server:
        try:
            assert server.stdout is not None
            word, _, address = server.stdout.readline().strip().partition(" ")
            if word != "ready":
                return f"the server: {word} {address}"
            done = subprocess.run(
                comes.command(roles[1], f"{address}?serdes={serdes}"),
                capture_output=True,
                text=True,
                timeout=SECONDS,
                env=comes.environment(),
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"no end within {SECONDS} s"
        finally:
            server.kill()
    return (done.stdout + done.stderr).strip() or f"ended with {done.returncode}"


def main() -> int:
    commit = sys.argv[1] if len(sys.argv) > 1 else release_before()
    if not commit:
        print("skipped: this clone has no tag of an earlier release, vX.Y.Z")
        return 0
    old, new = built(commit), Release("present", ROOT)
    failed = 0
    for listens, comes in ((old, new), (new, old)):
        for (transport, uri), serdes, roles in itertools.product(TRANSPORTS.items(), SERDES, ROLES):
            with tempfile.TemporaryDirectory() as folder:
                result = outcome(listens, comes, uri.format(folder), serdes, roles)
            failed += result != "passed"
            row = f"{transport:14} {serdes:9} {roles[0]:11} {listens.name:9} {roles[1]:5}"
            print(f"{row} {comes.name:9} {result}", flush=True)
    print(f"{failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
