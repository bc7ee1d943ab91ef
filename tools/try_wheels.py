# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Installs the wheels of build/wheels/dist in minimal Debians, as users do.

    tools/try_wheels.py [--cache DIR] [--release bookworm trixie] [--training]

In each, a user without rights installs and uses the library where there is no compiler; then the
superuser adds clang, and the user follows docs/installing.md up to a first compilation that a model
advises, for which he waits two minutes at most; then every plugin compiles something by stock
compilers of Debian's, also where something is wrong; the paths of docs/ are followed from empty
folders; and all is removed again. --training follows the one that needs PyTorch, too. The roots are
those of tools/bare-machine, and need root. Results: build/wheels/tried.json, logs in
build/bare-machine.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import bare_machine
from common import BUILD, ROOT

DIST = BUILD / "wheels/dist"
LIBRARY_BUILD = "cmake/wheels-3.11"  # which has the library of C++ and C, too
PATIENCE = 120  # seconds
APT = "apt-get -q -o Acquire::Retries=3 install -y --no-install-recommends"
PREPARED = f"""set -ex
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
{APT} python3-venv ca-certificates
useradd --create-home user
if command -v cc clang-22; then exit 1; fi
"""
LIBRARY = """set -ex
python3 --version
python3 -m venv ~/tools
export PATH=~/tools/bin:$PATH
pip install --find-links=/wheels ml-compiler-bridge==VERSION
mlbridge --version
python - <<'END'
import mlbridge
from mlbridge import files
model = mlbridge.Model.open("native:" + files.shipped_model("inliner-size"))
signature = model.model_signature
print("asked", len(signature.inputs), "inputs")
END
mlbridge doctor > doctor.txt && exit 1
cat doctor.txt
grep -q 'MISSING  clang-22' doctor.txt
grep -qF 'pip install "ml-compiler-bridge[clang22]"' doctor.txt
mlbridge flags phase-ordering 2> said.txt && exit 1
grep -qF 'pip install "ml-compiler-bridge[clang22]"' said.txt
"""
COMPILER = f"""set -ex
{APT} clang-22 llvm-22 lld-22
"""
# What docs/installing.md says, on a machine to which the wheels have been copied.
PAGE = """set -ex
mkdir -p page/build
cd page
export PS4='$(date +%s) + '
PAGE_BLOCK
[ -z "$(find build/tools -iname '*ml*bridge*')" ]
"""
PLUGINS = """set -ex
export PATH=~/tools/bin:$PATH
pip install --find-links=/wheels "ml-compiler-bridge[clang22,onnx]==VERSION"
echo 'int square(int x) { int y = x; return y * y; }' > square.c
clang-22 $(mlbridge flags phase-ordering) -Oz -Rpass=phase-ordering -c square.c 2> said.txt
cat said.txt
grep -q Rpass=phase-ordering said.txt
"""
COMPILERS = f"""set -ex
{APT} clang-19 llvm-19 mlir-22-tools gcc-12 g++-12 cmake make g++ pkg-config llvm-22-dev binutils
"""
REST = """set -ex
export PATH=~/tools/bin:$PATH
mlbridge doctor
mlbridge flags phase-ordering --llvm 19 2> said.txt && exit 1
grep -qF 'pip install "ml-compiler-bridge[clang19]"' said.txt
pip install --find-links=/wheels "ml-compiler-bridge[clang19,mlir22,gcc12,grpc,compat]==VERSION"
mlbridge doctor > doctor.txt
cat doctor.txt
# The wheel's plugin of GCC is for Debian 12's.
without=
if [ "$(gcc-12 -dumpfullversion)" != 12.2.0 ]; then
  without=--without-gcc
  grep -A2 '^broken   plugin gcc-settings' doctor.txt | grep -F ./python/distributions/gcc12
  sed -i '/^broken   plugin gcc-settings/d' doctor.txt
fi
if grep -i -e '^missing' -e '^absent' -e '^broken' doctor.txt; then exit 1; fi
pip check
/pages/tests/install/every-plugin.sh $without
"""
NUMPY = """set -ex
~/tools/bin/pip download --quiet --dest others numpy
"""
# Where there is no network, as docs/installing.md says, in a folder with a blank.
OFFLINE = """set -ex
mkdir 'a place'
python3 -m venv 'a place/tools'
export PATH="$PWD/a place/tools/bin:$PATH"
pip install --no-index --find-links=/wheels --find-links=others 'ml-compiler-bridge[clang22]'
mlbridge doctor
mlbridge wrapper phase-ordering -o cc-small
./cc-small -Oz -Rpass=phase-ordering -c square.c 2> said.txt
grep -q Rpass=phase-ordering said.txt
"""
PATHS = """set -ex
export PATH=~/tools/bin:$PATH
pip install onnx
python /pages/tests/docs/page.py --prefix /opt/mlbridge /pages/docs/paths/smaller-programs.md \\
  /pages/docs/paths/shipping.md /pages/docs/first-plugin.md
"""
TRAINING = """set -ex
export PATH=~/tools/bin:$PATH
pip install --find-links=/wheels "ml-compiler-bridge[train]==VERSION"
python /pages/tests/docs/page.py /pages/docs/paths/training.md
"""
REMOVED = """set -ex
export PATH=~/tools/bin:$PATH
pip uninstall -y $(pip list --format=freeze | grep -i bridge | cut -d= -f1)
find ~/tools ~/.cache ~/.config ~/.local -iname '*ml*bridge*' > left.txt 2> /dev/null || true
cat left.txt
[ ! -s left.txt ]
"""


class Failed(Exception):
    """A step did; the message says which."""


def page_block() -> str:
    """The commands of docs/installing.md for those who have the wheels."""
    text = (ROOT / "docs/installing.md").read_text()
    (block,) = re.findall(r"^```sh [^\n]*\n(export WHEELS=.*?)^```", text, re.MULTILINE | re.DOTALL)
    return re.sub(r"export WHEELS=.*", "export WHEELS=/wheels", block, count=1)


def install_library() -> Path:
    """The library of C++ and C as the paths need it."""
    folder = DIST.parent / "library"
    shutil.rmtree(folder, ignore_errors=True)
    for component in ("development", "runtime"):
        words = ["--component", component, "--prefix", str(folder)]
        command = ["cmake", "--install", str(BUILD / LIBRARY_BUILD), *words]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return folder


def as_user(script: str) -> str:
    """What runs a script as a user without rights, in his folder."""
    words = ["setpriv", "--reuid=user", "--regid=user", "--clear-groups", "--"]
    words += ["env", "-u", "XDG_CACHE_HOME", "HOME=/home/user", "sh", "-c", f"cd ~\n{script}"]
    return shlex.join(words)


def try_out(release: str, version: str, cache: Path | None, training: bool) -> dict[str, float]:
    """The seconds of each step."""
    root = bare_machine.Root(bare_machine.HOME / f"root-{release}", release, cache)
    root.delete()  # of a run that was killed
    seconds: dict[str, float] = {}
    steps = [
        ("prepared", PREPARED),
        ("library", as_user(LIBRARY)),
        ("compiler", COMPILER),
        ("page", as_user(PAGE.replace("PAGE_BLOCK", page_block()))),
        ("plugins", as_user(PLUGINS)),
        ("compilers", COMPILERS),
        ("rest", as_user(REST)),
        ("numpy", as_user(NUMPY)),
        ("offline", f"unshare --net {as_user(OFFLINE)}"),
        ("paths", as_user(PATHS)),
        *([("training", as_user(TRAINING))] if training else []),
        ("removed", as_user(REMOVED)),
    ]
    try:
        root.make()
        root.binds += [str(DIST), "/wheels", "ro"]
        root.binds += [str(install_library()), "/opt/mlbridge", "ro"]
        for folder in ("docs", "tests/docs", "tests/install"):
            root.binds += [str(ROOT / folder), f"/pages/{folder}", "ro"]
        for name, script in steps:
            start = time.monotonic()
            log = bare_machine.HOME / f"wheels-{release}-{name}.log"
            if root.run(log, script.replace("VERSION", version)):
                raise Failed(f"{release}: {name} failed; the log is {log}")
            seconds[name] = round(time.monotonic() - start, 1)
    finally:
        root.delete()
    for name in ("page", "plugins"):
        if seconds[name] > PATIENCE:
            raise Failed(f"{release}: the first compilation took {seconds[name]:.0f} s ({name})")
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, help="keeps what apt and pip download")
    parser.add_argument("--release", nargs="+", default=bare_machine.RELEASES)
    parser.add_argument("--training", action="store_true", help="follows that path, too")
    arguments = parser.parse_args()
    named = [re.match(r"ml_compiler_bridge-([^-]+)-", file.name) for file in DIST.glob("*.whl")]
    versions = {match[1] for match in named if match}
    try:
        if os.geteuid():
            raise Failed("needs root, for chroot")
        if len(versions) != 1:
            raise Failed(f"no wheels in {DIST}: make wheels")
        bare_machine.HOME.mkdir(parents=True, exist_ok=True)
        cache = arguments.cache and arguments.cache.absolute()
        (version,) = versions
        tried = {
            release: try_out(release, version, cache, arguments.training)
            for release in arguments.release
        }
    except (Failed, bare_machine.BareMachineError) as error:
        print(f"try_wheels: {error}", file=sys.stderr)
        return 1
    (DIST.parent / "tried.json").write_text(json.dumps(tried, indent=1) + "\n")
    print(json.dumps(tried, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
