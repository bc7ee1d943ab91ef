# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Download the catalog's programs as Debian source packages and unpack them.

    python3 -m programs.fetch [demo|training|validation|NAME ...]

The package lists come from the machine's own apt sources, read as source lists and kept under
build/programs, so nothing outside the tree changes and root is not needed. apt checks signatures
and hashes; nothing is unpacked before that. NAME.version marks a tree that is complete.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from mlbridge import process_runner
from mlbridge.corpus.packages import Apt
from mlbridge.errors import Error
from mlbridge.process_runner import Ran
from programs.catalog import ROOT, Program, ProgramsError, load, select

BUILD = ROOT / "build" / "programs"
_TIMEOUT = 300
_OUTPUT = 1 << 30  # bytes that are kept of one
_ARCHIVE = re.compile(r"\.tar\.(gz|bz2|xz)$")


def run(
    command: Sequence[str],
    cwd: Path,
    timeout: float,
    stdin: Path | None = None,
    env: dict[str, str] | None = None,
) -> Ran:
    """Run `command`; after `timeout` seconds it is killed with what it has started."""
    source = stdin or Path(os.devnull)
    try:
        return process_runner.run(
            command, cwd, env=env, timeout=timeout, stdin=source, keep=_OUTPUT
        )
    except Error as error:
        raise ProgramsError(str(error)) from error


def source_tree(program: Program, build: Path = BUILD) -> Path:
    """Where the program's sources lie once they are fetched."""
    return build / "source" / program.name


def _tail(text: str) -> str:
    return "\n".join(text.splitlines()[-5:])


def unpack(archives: list[Path], tree: Path) -> None:
    """Unpack `archives` without their common top folder; `tree` appears when it is complete."""
    tree.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=tree.parent, prefix=".unpack-") as temporary:
        staging = Path(temporary)
        for archive in archives:
            # GNU tar refuses members that lead out of the folder.
            command = ["tar", "--no-same-owner", "--no-same-permissions", "-xf"]
            ran = run([*command, str(archive.resolve())], staging, _TIMEOUT)
            if ran.code != 0:
                raise ProgramsError(f"{archive.name}: {_tail(ran.stderr.text)}")
        tops = list(staging.iterdir())
        top = tops[0] if len(tops) == 1 and tops[0].is_dir() else staging
        if tree.exists():
            shutil.rmtree(tree)
        complete = staging.with_name(staging.name + "-complete")
        top.rename(complete)
        complete.rename(tree)
        staging.mkdir(exist_ok=True)


def version_of(archive: str) -> str:
    """The version in the name of a source package's archive."""
    match = re.match(r"[^_]+_(.+?)(\.orig)?\.tar\.", archive)
    return match.group(1) if match else "unknown"


def _stamp(program: Program, build: Path) -> Path:
    return build / "source" / f"{program.name}.version"


def fetch_one(program: Program, apt: Apt, build: Path) -> None:
    """Fetch one program."""
    tree = source_tree(program, build)
    build.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build, prefix=".download-") as temporary:
        folder = Path(temporary)
        try:
            apt.download(program.package, folder)
        except Error as error:
            raise ProgramsError(str(error)) from error
        archives = sorted(path for path in folder.iterdir() if _ARCHIVE.search(path.name))
        if not archives:
            names = ", ".join(path.name for path in folder.iterdir()) or "nothing"
            raise ProgramsError(f"{program.package}: expected a tar archive, apt fetched {names}")
        unpack(archives, tree)
        program.write_generated(tree)
        program.sources(tree)
        version = version_of(archives[0].name)
        _stamp(program, build).write_text(f"{program.package} {version}\n")


def fetched_version(program: Program, build: Path = BUILD) -> str:
    """Package and upstream version of a fetched program."""
    return _stamp(program, build).read_text().strip()


def is_fetched(program: Program, build: Path = BUILD) -> bool:
    """Whether the program's sources are there, complete."""
    return _stamp(program, build).is_file() and source_tree(program, build).is_dir()


def fetch(programs: list[Program], build: Path = BUILD, least: int | None = None) -> list[Program]:
    """Fetch what is missing, and return the programs that are there.

    Fewer than `least` (default: all) are an error that names each that failed.
    """
    missing = [program for program in programs if not is_fetched(program, build)]
    if not missing:
        return programs
    apt = Apt(build / "apt")
    failures: dict[Program, ProgramsError] = {}
    bar = tqdm(missing, desc="fetch", unit="program", file=sys.stderr, disable=None)
    for program in bar:
        bar.set_postfix_str(program.name)
        try:
            fetch_one(program, apt, build)
        except ProgramsError as error:
            failures[program] = error
    there = [program for program in programs if program not in failures]
    if failures:
        text = f"{len(failures)} of {len(programs)} programs could not be fetched\n"
        text += "\n".join(f"{program.name}: {error}" for program, error in failures.items())
        if least is None or len(there) < least:
            raise ProgramsError(text)
        print(f"fetch: going on without them: {text}", file=sys.stderr)
    return there


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="programs.fetch", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("names", nargs="*", help="sets or programs (default: all)")
    options = parser.parse_args(arguments)
    try:
        fetch(select(load(), options.names))
    except ProgramsError as error:
        print(f"fetch: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
