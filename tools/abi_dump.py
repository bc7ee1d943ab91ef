# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the functions and structures of libmlbridge-c.so to tests/c-api/VERSION.abi, in place of
the last release's. It is run for a release; tests/c-api/abi_test.py compares the present ones.

    tools/abi-dump

The C interface alone is compiled, with debug information, and linked without the rest.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import ROOT, environment, jobs, version

FOLDER = ROOT / "tests" / "c-api"
SOURCES = sorted(p for p in (ROOT / "src/c").glob("*.cpp") if not p.name.endswith("_test.cpp"))
# Nothing of one machine, nor what isn't in a header.
OPTIONS = (
    "--drop-private-types --exported-interfaces-only --type-id-style hash --no-corpus-path "
    "--no-comp-dir-path --no-show-locs --no-elf-needed --no-architecture --no-parameter-names"
).split()


def call(*command: str | Path) -> None:
    subprocess.run(list(map(str, command)), env=environment(), check=True)


def compile_source(source: Path, target: Path, include: Path = ROOT / "include") -> None:
    compiler: list[str | Path] = ["c++", "-std=c++17", "-fPIC", "-g", "-O0"]
    cached = ["ccache"] if "CMAKE_CXX_COMPILER_LAUNCHER" in environment() else []
    call(*cached, *compiler, f"-I{include}", f"-I{ROOT}/src", "-c", source, "-o", target)


def link(objects: list[Path], target: Path) -> None:
    options = ["-Wl,--unresolved-symbols=ignore-all", "-Wl,-soname,libmlbridge-c.so.0"]
    exports = f"-Wl,--version-script={ROOT}/src/c/exports.map"
    call("c++", "-shared", *options, exports, *objects, "-o", target)


def build(folder: Path) -> list[Path]:
    """The objects of the C interface and, beside them, libmlbridge-c.so."""
    objects = [folder / f"{source.stem}.o" for source in SOURCES]
    with ThreadPoolExecutor(jobs()) as pool:
        list(pool.map(compile_source, SOURCES, objects))
    link(objects, folder / "libmlbridge-c.so")
    return objects


def main() -> int:
    target = FOLDER / f"{version()}.abi"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        fresh = folder / "dump"
        headers = ("--headers-dir", ROOT / "include/mlbridge")
        call("abidw", *OPTIONS, *headers, "--out-file", fresh, folder / "libmlbridge-c.so")
        for old in FOLDER.glob("*.abi"):
            old.unlink()
        target.write_bytes(fresh.read_bytes())
    print(target.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
