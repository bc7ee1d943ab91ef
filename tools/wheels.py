# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the wheels of all distributions for other machines, into build/wheels/dist.

    tools/wheels [--python COMMAND ...]

They run on every distribution of Linux with glibc 2.31 or later, such as Debian 11 and Ubuntu 20.04
(tools/sysroot.py), that of gRPC, which brings Debian 12's libraries with it, with 2.35 or later;
auditwheel and abi3audit confirm it. The library's wheels of Pythons before 3.12 are for these
versions alone; the first later Python makes one for all that follow, by the stable interface.
By default: Debian's Python 3.11, and python3.10, python3.12 or python3.13, if they are there.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import packing
import sysroot
from common import BUILD, PYTHON, ROOT, environment, run_logged

PLATFORM, GRPC_PLATFORM = "manylinux_2_31_x86_64", "manylinux_2_35_x86_64"
WHEELS = BUILD / "wheels"
RAW, DIST = WHEELS / "raw", WHEELS / "dist"
LOG = BUILD / "wheels.log"
REQUIREMENTS = ROOT / "tools/requirements"
STABLE = (3, 12)
OURS = "License-Expression: Apache-2.0 WITH LLVM-exception\n"
#: Licences of the libraries that wheels bring with them, and the Debian packages that say them.
BROUGHT = {
    "ml_compiler_bridge-": ("Apache-2.0", ["libsimdjson-dev"]),
    "ml_compiler_bridge_grpc-": (
        "Apache-2.0 AND BSD-3-Clause AND MIT",
        (
            "libgrpc-dev libgrpc++-dev libprotobuf-dev libabsl-dev libssl-dev libre2-dev"
            " libc-ares-dev"
        ).split(),
    ),
}


class WheelsError(Exception):
    """No wheels; the message says why."""


def must(*command: str | Path, env: dict[str, str] | None = None) -> None:
    if run_logged(LOG, *command, seconds=3600, env=env):
        tail = "\n".join(LOG.read_text(errors="replace").splitlines()[-40:])
        raise WheelsError(f"{tail}\nthe whole log is {LOG}")


def interpreters(named: list[str]) -> dict[tuple[int, int], str]:
    """The Python commands that wheels are for, by their versions."""
    found: dict[tuple[int, int], str] = {}
    for command in named or [str(PYTHON), "python3.10", "python3.12", "python3.13"]:
        if not shutil.which(command):
            if named:
                raise WheelsError(f"--python: there is no command {command}")
            continue
        ask = [command, "-c", "import sys; print(*sys.version_info[:2])"]
        said = subprocess.run(ask, capture_output=True, text=True, check=False)
        if said.returncode and named:
            raise WheelsError(f"--python: {command} does not run: {said.stderr.strip()}")
        if said.returncode == 0:
            major, minor = map(int, said.stdout.split())
            is_later = (major, minor) >= STABLE and any(v >= STABLE for v in found)
            if (major, minor) not in found and not is_later:
                found[major, minor] = command
    if not any(version < STABLE for version in found):
        raise WheelsError("no Python before 3.12, for which there are wheels of its own")
    return found


def build_environment(version: tuple[int, int], command: str) -> Path:
    """A virtual environment with what builds wheels, and its Python."""
    folder = BUILD / f"venv-wheels-{version[0]}.{version[1]}"
    python = folder / "bin/python"
    listed = [REQUIREMENTS / "build.txt", REQUIREMENTS / "wheels.txt"]
    stamp, wanted = folder / ".made-of", "".join(path.read_text() for path in listed)
    if not stamp.is_file() or stamp.read_text() != wanted:
        must(command, "-m", "venv", "--clear", folder)
        pip: list[str | Path] = [python, "-m", "pip", "install", "--disable-pip-version-check"]
        must(*pip, *(f"--requirement={path}" for path in listed))
        stamp.write_text(wanted)
    return python


def build(version: tuple[int, int], python: Path, toolchain: Path, *, whole: bool) -> None:
    """The library's wheel for a Python; `whole`: all others, too."""
    built = BUILD / f"cmake/wheels-{version[0]}.{version[1]}"
    cache = built / "CMakeCache.txt"
    if cache.is_file() and cache.stat().st_mtime < toolchain.stat().st_mtime:
        shutil.rmtree(built)  # CMake reads a toolchain once
    settings: dict[str, str | Path] = {
        "build-dir": built,
        "cmake.define.CMAKE_TOOLCHAIN_FILE": toolchain,
        "cmake.define.MLBRIDGE_WERROR": "ON",
    }
    if version >= STABLE:
        settings["wheel.py-api"] = f"cp{STABLE[0]}{STABLE[1]}"
    if whole:
        parts = ("LLVM", "MLIR", "GCC")
        settings |= {f"cmake.define.MLBRIDGE_{part}": "ON" for part in parts}
    pip: list[str | Path] = [python, "-m", "pip", "--disable-pip-version-check", "-v"]
    pip += ["wheel", "--no-deps"]
    words = [f"--config-settings={name}={value}" for name, value in settings.items()]
    must(*pip, "--no-build-isolation", "-w", RAW, *words, ROOT / packing.MAIN)
    if whole:
        others = tuple(name for name in packing.ADD_ONS if name != "grpc")
        if packing.pack(LOG, built, others, RAW):
            raise WheelsError(f"a wheel could not be made; the log is {LOG}")
        grpc = ROOT / packing.ADD_ONS["grpc"]
        must(*pip, "--no-build-isolation", "-w", RAW, grpc, env={"CC": "gcc-12", "CXX": "g++-12"})
        if packing.pack_compat(LOG, RAW):
            raise WheelsError(f"the wheel of compat failed; the log is {LOG}")


def say_licences(python: Path, wheel: Path) -> None:
    """Adds those of the libraries that it brings with it, if there are any."""
    brought = next((of for name, of in BROUGHT.items() if wheel.name.startswith(name)), None)
    if brought is None:
        return
    texts = [Path(f"/usr/share/doc/{name}/copyright").read_text() for name in brought[1]]
    with tempfile.TemporaryDirectory() as folder:
        must(python, "-m", "wheel", "unpack", "-d", folder, wheel)
        (information,) = Path(folder).glob("*/*.dist-info")
        (information / "licenses/LIBRARIES").write_text(f"\n{'=' * 80}\n".join(texts))
        metadata = information / "METADATA"
        text = metadata.read_text()
        said = f"{OURS.strip()} AND {brought[0]}\nLicense-File: LIBRARIES\n"
        metadata.write_text(text.replace(OURS, said, 1))
        wheel.unlink()
        must(python, "-m", "wheel", "pack", "-d", wheel.parent, information.parent)


def audit(python: Path) -> None:
    """Moves the wheels to DIST, each with the tag of PLATFORM."""
    tools = {"PATH": f"{python.parent}:{environment()['PATH']}"}
    for wheel in sorted(RAW.glob("*.whl")):
        say_licences(python, wheel)
        if wheel.name.endswith("-any.whl"):
            shutil.copy(wheel, DIST)
            continue
        platform = GRPC_PLATFORM if "_grpc-" in wheel.name else PLATFORM
        repair = ["auditwheel", "repair", "--plat", platform, "-z", "9", "-w"]
        must(python, "-m", *repair, DIST, wheel, env=tools)
    for wheel in DIST.glob("*-abi3-*.whl"):
        must(python, "-m", "abi3audit", "--strict", "--report", wheel, env=tools)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", nargs="+", default=[], metavar="COMMAND")
    arguments = parser.parse_args()
    start = time.monotonic()
    try:
        versions = interpreters(arguments.python)
        for folder in (RAW, DIST):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        LOG.write_text("")
        toolchain = sysroot.prepare()
        pythons = {v: build_environment(v, command) for v, command in versions.items()}
        for number, (version, python) in enumerate(pythons.items()):
            print(f"building for Python {version[0]}.{version[1]} ...", flush=True)
            build(version, python, toolchain, whole=number == 0)
        audit(next(iter(pythons.values())))
    except (WheelsError, sysroot.SysrootError) as error:
        print(f"tools/wheels: {error}", file=sys.stderr)
        return 1
    for wheel in sorted(DIST.iterdir()):
        print(f"{wheel.stat().st_size / 1e6:5.2f} MB  {wheel.name}")
    if not any(version >= STABLE for version in versions):
        print("no wheel for Python 3.12 and later, as none is here: --python names one")
    print(f"in {DIST.relative_to(ROOT)}, {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
