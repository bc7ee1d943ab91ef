# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the wheels of all distributions into build/wheels, and installs them into build/venv.

    tools/install_package.py

demo/prepare.py has it install only what `make demo` runs, or all that an earlier run installed.
Does nothing if no source has changed since the last time. Both build in the same folder, so that
the second builds only what the first has left out.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import packing
from common import BUILD, PYTHON, ROOT, run_logged

STAMP = BUILD / ".package-stamp"
LOG = BUILD / "package.log"
WHEELS = BUILD / "wheels"
PIP: tuple[str | Path, ...] = (PYTHON, "-m", "pip", "--disable-pip-version-check", "-v")
BUILT = BUILD / "cmake/package"  # as deep as the presets' folders: ccache has what these compiled
INPUTS = ("CMakeLists.txt", "pyproject.toml", "README.md", "LICENSE", "tools/packing.py")
FOLDERS = ("cmake", "include", "proto", "src", "compilers", "python", "models", "compat/python")
CI_COMPILER = "12"
SKIPPED = (".pyc", ".md", "_test.cpp", "_test.py")


@dataclass(frozen=True)
class Parts:
    """What is built: the distributions beside the main one, CMake's options for all, and the Debian
    packages that they are made for."""

    add_ons: tuple[str, ...]
    options: dict[str, str]
    libraries: tuple[str, ...]


DEMO, ALL = "demo", "all"
PARTS = {
    DEMO: Parts(
        ("llvm22",),
        {
            "MLBRIDGE_JSON": "OFF",
            "MLBRIDGE_LLVM": "ON",
            "MLBRIDGE_LLVM_PLUGINS": "mlbridge-phase-ordering",
        },
        ("llvm-22-dev",),
    ),
    ALL: Parts(
        tuple(packing.ADD_ONS),
        {f"MLBRIDGE_{part}": "ON" for part in ("PROTOBUF", "GRPC", "LLVM", "MLIR", "GCC")},
        (
            "llvm-22-dev",
            "llvm-19-dev",
            "libmlir-22-dev",
            "gcc-12-plugin-dev",
            "libsimdjson-dev",
            "libprotobuf-dev",
            "libprotoc-dev",
            "libgrpc++-dev",
        ),
    ),
}


@dataclass(frozen=True)
class Stamp:
    """Which parts are installed, and of what they were made: "" while that isn't sure."""

    parts: str
    made_of: str

    def write(self) -> None:
        STAMP.write_text(json.dumps(asdict(self)) + "\n")


def installed() -> Stamp | None:
    """What is in build/venv. Looked at from outside the tree, in a way that starts nothing."""
    if not list(BUILD.glob("venv/lib/python*/site-packages/ml_compiler_bridge-*.dist-info")):
        return None
    try:
        found = Stamp(**json.loads(STAMP.read_text()))
    except (OSError, TypeError, ValueError):  # none, or another version's, which had all parts
        return Stamp(ALL, "")
    return found if found.parts in PARTS else Stamp(ALL, "")


def fingerprint(parts: str) -> str:
    digest = hashlib.sha256(sys.version.encode())
    files = [ROOT / name for name in INPUTS]
    for folder in FOLDERS:
        files += sorted(p for p in (ROOT / folder).rglob("*") if p.is_file())
    for path in files:
        if path.is_file() and not path.name.endswith(SKIPPED):
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    # What the package is made for belongs to it: another LLVM means another plugin.
    llvm = subprocess.run(
        ["dpkg-query", "-W", "-f=${Version}", *PARTS[parts].libraries],
        capture_output=True,
        check=False,
    )
    digest.update(llvm.stdout)
    return digest.hexdigest()


def warnings() -> dict[str, str]:
    """With the compiler that CI has they are errors, as in the presets, whose objects a compiler
    cache then has for this as well; another compiler may have new ones."""
    version = subprocess.run(["c++", "-dumpversion"], capture_output=True, text=True, check=False)
    return {"MLBRIDGE_WERROR": "ON"} if version.stdout.strip() == CI_COMPILER else {}


def build(parts: str) -> int:
    """Makes the wheels, and installs them."""
    options = PARTS[parts].options | warnings()
    make: list[str | Path] = [
        *(*PIP, "wheel", "--no-build-isolation", "--no-deps", "-w", WHEELS),
        f"--config-settings=build-dir={BUILT}",
        *(f"--config-settings=cmake.define.{name}={value}" for name, value in options.items()),
        ROOT / packing.MAIN,
    ]
    # By the names that presets call them, so that ccache has their results for these as well.
    code = run_logged(LOG, *make, seconds=3600, env={"CC": "cc", "CXX": "c++"})
    code = code or packing.pack(LOG, BUILT, PARTS[parts].add_ons, WHEELS)
    if code := code or (packing.pack_compat(LOG, WHEELS) if parts == ALL else 0):
        return code
    Stamp(parts, "").write()  # from here on the other parts are gone, or these are there
    install = [*PIP, "install", "--no-deps", "--force-reinstall"]
    for wheels in packing.in_order(WHEELS):
        code = code or run_logged(LOG, *install, *wheels, seconds=3600)
    return code


def main(wanted: str = ALL) -> int:
    there = installed()
    # What is installed stays: whoever has run `make build` keeps what it made.
    parts = there.parts if there and wanted == DEMO else wanted
    made_of = fingerprint(parts)
    if there == Stamp(parts, made_of):
        return 0
    what = "the part of the Python package that the demo needs"
    what = what if parts == DEMO else "the Python package"
    print(f"building {what} (log: build/package.log) ...", flush=True)
    start = time.monotonic()
    if there:
        Stamp(there.parts, "").write()
    for old in WHEELS.glob("*.whl"):
        old.unlink()
    LOG.write_text("")
    if code := build(parts):
        lines = LOG.read_text(errors="replace").splitlines()
        print("\n".join(lines[-60:]))
        print(f"building the Python package failed; the whole log is {LOG}")
        return code
    Stamp(parts, made_of).write()
    print(f"{what} is in build/venv ({time.monotonic() - start:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
