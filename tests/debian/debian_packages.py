# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the Debian packages of the last commit in a minimal Debian, without network, and tries
them in another one: tests/debian/debian_packages.py OUT [--release bookworm|trixie]

Needs root, for chroot. OUT gets the packages, logs and what lintian says.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import bare_machine

TREE, PACKAGES, INSIDE = bare_machine.TREE, "/packages", "tests/debian/inside.sh"
# The build needs no network, so it has none. What Debian 12 lacks is fetched before.
BUILD = """set -eux
apt-get -q update
apt-get -qy install --no-install-recommends lintian python3-venv util-linux
profile=
if ! apt-cache show nanobind-dev >/dev/null 2>&1; then
  profile=--build-profiles=pkg.mlbridge.nanobind
  python3 -m venv /nanobind
  /nanobind/bin/pip install --quiet $(sed -n 's/^nanobind /nanobind/p' tools/requirements/build.txt)
  export nanobind_DIR=$(/nanobind/bin/python -m nanobind --cmake_dir)
fi
apt-get -qy build-dep --no-install-recommends $profile ./
unshare --net make deb
lintian --fail-on error --show-overrides build/deb/mlbridge_*.changes | tee build/deb/lintian.log
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--release", choices=bare_machine.RELEASES, default="bookworm")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("debian_packages.py: needs root, for chroot and mounts", file=sys.stderr)
        return 1
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    out = options.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    bare_machine.HOME = out
    minimal = bare_machine.Root(out / "minimal", options.release, None)
    trial = bare_machine.Root(out / "trial", options.release, None)
    try:
        minimal.make()
        minimal.clone()
        subprocess.run(["cp", "-a", minimal.folder, trial.folder], check=True)
        trial.binds = minimal.binds
        if minimal.run(out / "build.log", BUILD) != 0:
            return 1
        made = minimal.folder / TREE.lstrip("/") / "build/deb"
        for file in made.glob("*.*"):
            shutil.copy(file, out)
        inside = trial.folder / PACKAGES.lstrip("/")
        inside.mkdir()
        for file in out.glob("*.deb"):
            shutil.copy(file, inside)
        return trial.run(
            out / "trial.log", f"DEBIAN_FRONTEND=noninteractive sh {INSIDE} {TREE} {PACKAGES}"
        )
    finally:
        minimal.delete()
        trial.delete()


if __name__ == "__main__":
    sys.exit(main())
