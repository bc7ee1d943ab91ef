# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the Python packages, with components and compiler plugin, into build/wheels, and installs
them into build/venv.

Does nothing if no source has changed since the last time.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

from common import BUILD, PYTHON, ROOT, run_logged

STAMP = BUILD / ".package-stamp"
LOG = BUILD / "package.log"
WHEELS = BUILD / "wheels"
INPUTS = ("CMakeLists.txt", "pyproject.toml", "README.md", "LICENSE")
FOLDERS = ("cmake", "include", "proto", "src", "compilers", "python", "models")
LIBRARIES = (
    "llvm-22-dev",
    "llvm-19-dev",
    "libmlir-22-dev",
    "gcc-12-plugin-dev",
    "libsimdjson-dev",
    "libprotobuf-dev",
    "libprotoc-dev",
    "libgrpc++-dev",
)
SKIPPED = (".pyc", ".md", "_test.cpp", "_test.py")


def fingerprint() -> str:
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
        ["dpkg-query", "-W", "-f=${Version}", *LIBRARIES],
        capture_output=True,
        check=False,
    )
    digest.update(llvm.stdout)
    return digest.hexdigest()


def main() -> int:
    wanted = fingerprint()
    # Looked at from outside the tree, in a way that starts nothing.
    installed = list(BUILD.glob("venv/lib/python*/site-packages/mlbridge-*.dist-info"))
    if installed and STAMP.is_file() and STAMP.read_text() == wanted:
        return 0
    print("building the Python package (log: build/package.log) ...", flush=True)
    start = time.monotonic()
    STAMP.unlink(missing_ok=True)
    shutil.rmtree(WHEELS, ignore_errors=True)
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "-v"]
    LOG.write_text("")
    code = 0
    # One by one: an older mlbridge had mlbridge-compat's files, and goes before these come.
    for source, name in ((ROOT, "mlbridge"), (ROOT / "python" / "compat", "mlbridge_compat")):
        make: list[str | Path] = [
            *pip,
            "wheel",
            "--no-build-isolation",
            "--no-deps",
            "-w",
            WHEELS,
            source,
        ]
        # By the names that presets call them, so that ccache has their results for these as well.
        code = code or run_logged(LOG, *make, seconds=3600, env={"CC": "cc", "CXX": "c++"})
        install = [*pip, "install", "--no-deps", "--force-reinstall"]
        code = code or run_logged(LOG, *install, *WHEELS.glob(f"{name}-*.whl"), seconds=3600)
    if code != 0:
        lines = LOG.read_text(errors="replace").splitlines()
        print("\n".join(lines[-60:]))
        print(f"building the Python package failed; the whole log is {LOG}")
        return code
    STAMP.write_text(wanted)
    print(f"the Python package is in build/venv ({time.monotonic() - start:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
