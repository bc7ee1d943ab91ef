# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""clang-tidy on the C++ sources of the dev preset.

A file that was clean is looked at again only when it, a header of the project that it includes (any
header, if the preset doesn't compile the file), the command, the list of checks or clang-tidy has
changed.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import BUILD, CHECKED, ROOT, environment, jobs

PRESET = BUILD / "cmake" / "dev"
CLEAN = CHECKED / "tidy.json"
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


def key(command: dict[str, str], needs: list[Path], version: bytes) -> str:
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes() + version)
    digest.update(command["command"].encode())
    for path in sorted({Path(command["file"]), *needs}):
        digest.update(str(path).encode() + b"\0")
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def tidy(path: str) -> tuple[str, int, str]:
    done = subprocess.run(
        ["clang-tidy-22", "--quiet", "-p", str(PRESET), *EXTRA, path],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    return path, done.returncode, done.stdout + (done.stderr if done.returncode else "")


def main() -> int:
    database = PRESET / "compile_commands.json"
    if not database.is_file():
        print(f"{database} is missing: tools/cmake_build.py dev makes it")
        return 1
    commands = json.loads(database.read_text())
    needs = dependencies()
    version = subprocess.run(["clang-tidy-22", "--version"], capture_output=True, check=True).stdout
    headers = [p for f in ("compilers", "include", "src") for p in (ROOT / f).rglob("*.h")]
    keys: dict[str, str] = {}
    for command in commands:
        path = Path(command["file"]).resolve()
        if path.is_relative_to(ROOT) and not path.is_relative_to(BUILD):
            keys.setdefault(
                str(path), key(command, needs.get(command.get("output", ""), headers), version)
            )
    try:
        clean = set(json.loads(CLEAN.read_text()))
    except (OSError, ValueError):
        clean = set()
    todo = [path for path, digest in keys.items() if digest not in clean]
    print(f"{len(keys)} files, {len(todo)} to look at", flush=True)
    bad = 0
    with ThreadPoolExecutor(jobs()) as pool:
        for file, code, output in pool.map(tidy, todo):
            if code:
                bad += 1
                print(f"{output}\n{file}: not clean", flush=True)
            else:
                clean.add(keys[file])
    CLEAN.parent.mkdir(parents=True, exist_ok=True)
    # Only what is in use now is kept.
    CLEAN.write_text(json.dumps(sorted(clean & set(keys.values()))))
    print(f"{bad} of {len(keys)} files not clean")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
