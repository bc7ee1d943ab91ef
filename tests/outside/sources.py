# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fetches the tests of others from Debian's packages, without root, into build/outside/.

Nothing of them is committed. What is there is not fetched again.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FETCHED = ROOT / "build" / "outside"
SECONDS = 900


def _run(*command: str | Path, cwd: Path) -> None:
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=SECONDS,
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()[-500:]}")


def _unpack(archive: Path, members: tuple[str, ...], tree: Path) -> None:
    """Takes these folders out of an archive whose one top folder has some name."""
    tree.mkdir(parents=True)
    chosen = [f"*/{member}" for member in members]
    _run("tar", "--no-same-owner", "--strip-components=1", "--wildcards", "-xf", archive, *chosen,
         cwd=tree)  # fmt: skip


def gcc_tests() -> Path:
    """GCC 12's gcc/testsuite, from the package gcc-12-source."""
    tree = FETCHED / "gcc-12"
    if not tree.is_dir():
        FETCHED.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FETCHED) as temporary:
            folder = Path(temporary)
            # The folder is the user's own, so apt needn't change to another user for it.
            _run("apt-get", "-o", "APT::Sandbox::User=", "download", "gcc-12-source", cwd=folder)
            _run("dpkg-deb", "-x", next(folder.glob("*.deb")), "unpacked", cwd=folder)
            archive = next(folder.glob("unpacked/usr/src/gcc-12/gcc-*.tar.*"))
            _unpack(archive, ("gcc/testsuite",), folder / "tree")
            shutil.move(folder / "tree", tree)
    return tree / "gcc" / "testsuite"


def llvm_tests() -> Path:
    """A tree with LLVM's llvm/test and mlir/test, from Debian's source package of LLVM 22, or of
    LLVM 19 where the mirror lacks the former's archive: most of its tests are the same, and what
    LLVM 22 no longer reads, its own tools refuse as well."""
    tree = FETCHED / "llvm"
    if not tree.is_dir():
        from mlbridge.corpus.packages import Apt
        from mlbridge.errors import Error

        FETCHED.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FETCHED) as temporary:
            folder = Path(temporary)
            apt = Apt(ROOT / "build" / "programs" / "apt")
            try:
                apt.download("llvm-toolchain-22", folder)
            except Error as error:
                print(f"{error}\ntaking LLVM 19's tests", file=sys.stderr)
                apt.download("llvm-toolchain-19", folder)
            archive = max(folder.glob("*.orig.tar.*"), key=lambda p: p.stat().st_size)
            _unpack(archive, ("llvm/test", "mlir/test"), folder / "tree")
            shutil.move(folder / "tree", tree)
    return tree
