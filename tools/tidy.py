# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""clang-tidy on the C++ sources of the dev preset.

    tools/tidy.py [--all]

Looks at the files that differ from origin's main, and at those that include such a file (any header
of the project counts, if the preset doesn't compile the file); --all: at all. Where main is what is
checked out, as on a machine that builds what was pushed, at what its last commit changed. A file
that was clean is looked at again only when it, what it includes, the command, the list of checks or
clang-tidy is another.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from changed import base, changed
from common import BUILD, CHECKED, ROOT, environment, jobs

PRESET = BUILD / "cmake" / "dev"
CLEAN = CHECKED / "tidy"  # an empty file for each result; its name is the key
KEPT_DAYS = 60
# g++'s own options mean nothing to clang, and what its library deprecates is not ours.
EXTRA = [f"--extra-arg=-Wno-{w}" for w in ("unknown-warning-option", "deprecated-declarations")]


def dependencies() -> dict[str, list[Path]]:
    """For each object file the project's own files that it was made from, by ninja's records."""
    text = subprocess.run(
        ["ninja", "-C", str(PRESET), "-t", "deps"],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    found: dict[str, list[Path]] = {}
    current: list[Path] = []
    for line in text.splitlines():
        if line and not line.startswith(" "):
            current = found.setdefault(line.split(":", 1)[0], [])
        elif line.strip():
            path = (PRESET / line.strip()).resolve()
            if path.is_relative_to(ROOT):
                current.append(path)
    return found


def object_of(command: dict[str, str]) -> str:
    """The object file; CMake states it since 3.27."""
    words = command["command"].split()
    return command.get("output") or words[words.index("-o") + 1]


def key(command: dict[str, str], needs: set[Path], version: bytes) -> str:
    """The same for the same text in another folder."""
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes() + version)
    digest.update(" ".join(EXTRA).encode())
    digest.update(command["command"].replace(str(ROOT), ".").encode())
    for path in sorted(needs):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0")
        if path.is_file():
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def was_clean(digest: str) -> bool:
    if not (CLEAN / digest).is_file():
        return False
    with contextlib.suppress(OSError):
        (CLEAN / digest).touch()  # it was of use
    return True


def keep(digest: str) -> None:
    """A cache that can't be written only costs time."""
    with contextlib.suppress(OSError):
        CLEAN.mkdir(parents=True, exist_ok=True)
        (CLEAN / digest).touch()


def forget_old() -> None:
    with contextlib.suppress(OSError):
        for path in CLEAN.iterdir():
            if path.stat().st_mtime < time.time() - KEPT_DAYS * 86400:
                path.unlink()


def tidy(path: Path) -> tuple[Path, int, str]:
    done = subprocess.run(
        ["clang-tidy-22", "--quiet", "-p", str(PRESET), *EXTRA, str(path)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    return path, done.returncode, done.stdout + (done.stderr if done.returncode else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true")
    every = parser.parse_args().all
    database = PRESET / "compile_commands.json"
    if not database.is_file():
        print(f"{database} is missing: tools/cmake_build.py dev makes it")
        return 1
    since = None if every else base()
    touched = changed(since) if since else None
    if touched is not None and ROOT / ".clang-tidy" in touched:
        touched = None
    records = dependencies()
    version = subprocess.run(["clang-tidy-22", "--version"], capture_output=True, check=True).stdout
    headers = [p for f in ("compilers", "include", "src") for p in (ROOT / f).rglob("*.h")]
    seen: set[Path] = set()
    keys: dict[Path, str] = {}
    for command in json.loads(database.read_text()):
        path = Path(command["file"]).resolve()
        if not path.is_relative_to(ROOT) or path.is_relative_to(BUILD) or path in seen:
            continue
        seen.add(path)
        needs = {path, *records.get(object_of(command), headers)}
        if touched is None or needs & touched:
            keys[path] = key(command, needs, version)
    todo = [path for path, digest in keys.items() if not was_clean(digest)]
    differing = f"{len(keys)} of which differ from {since[:12]}" if since else "all of which count"
    print(f"{len(seen)} files, {differing}, {len(todo)} to look at", flush=True)
    bad = 0
    with ThreadPoolExecutor(jobs()) as pool:
        for path, code, output in pool.map(tidy, todo):
            if code:
                bad += 1
                print(f"{output}\n{path}: not clean", flush=True)
            else:
                keep(keys[path])
    forget_old()
    print(f"{bad} of {len(keys)} files not clean")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
