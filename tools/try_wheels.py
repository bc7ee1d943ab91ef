# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Installs the wheels of build/wheels/dist in minimal Debians, as users do.

    tools/try_wheels.py [--cache DIR] [--release bookworm trixie]

In each, the library is installed and used where there is no compiler; then clang, its plugins and a
first compilation that a model advises, for which a user waits two minutes at most; then the rest,
and all is removed again. The roots are those of tools/bare-machine, and need root. Results:
build/wheels/tried.json, logs in build/bare-machine.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from pathlib import Path

import bare_machine
from common import BUILD

DIST = BUILD / "wheels/dist"
PATIENCE = 120  # seconds
APT = "apt-get -q -o Acquire::Retries=3 install -y --no-install-recommends"
LIBRARY = f"""set -ex
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
{APT} python3-venv ca-certificates
python3 --version
if command -v cc clang-22; then exit 1; fi
python3 -m venv /opt/tools
export PATH=/opt/tools/bin:$PATH
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
{APT} clang-22 llvm-22
"""
PLUGINS = """set -ex
export PATH=/opt/tools/bin:$PATH
pip install --find-links=/wheels "ml-compiler-bridge[clang22,onnx]==VERSION"
echo 'int square(int x) { int y = x; return y * y; }' > square.c
clang-22 $(mlbridge flags phase-ordering) -Oz -Rpass=phase-ordering -c square.c 2> said.txt
cat said.txt
grep -q Rpass=phase-ordering said.txt
"""
REST = """set -ex
export PATH=/opt/tools/bin:$PATH
mlbridge doctor
pip install --find-links=/wheels "ml-compiler-bridge[clang19,mlir22,gcc12,grpc,compat]==VERSION"
mlbridge doctor > doctor.txt
cat doctor.txt
grep -q 'ok       transport grpc' doctor.txt
grep -q 'ok       serdes protobuf' doctor.txt
grep -q 'ok       serdes json' doctor.txt
pip check
pip uninstall -y $(pip list --format=freeze | grep -i bridge | cut -d= -f1)
find /opt/tools -iname '*ml*bridge*' > left.txt
cat left.txt
[ ! -s left.txt ]
"""


class Failed(Exception):
    """A step did; the message says which."""


def try_out(release: str, version: str, cache: Path | None) -> dict[str, float]:
    """The seconds of each step."""
    root = bare_machine.Root(bare_machine.HOME / f"root-{release}", release, cache)
    root.delete()  # of a run that was killed
    seconds: dict[str, float] = {}
    try:
        root.make()
        root.binds += [str(DIST), "/wheels", "ro"]
        for name, script in (
            *(("library", LIBRARY), ("compiler", COMPILER), ("plugins", PLUGINS)),
            ("rest", REST),
        ):
            start = time.monotonic()
            log = bare_machine.HOME / f"wheels-{release}-{name}.log"
            if root.run(log, script.replace("VERSION", version)):
                raise Failed(f"{release}: {name} failed; the log is {log}")
            seconds[name] = round(time.monotonic() - start, 1)
    finally:
        root.delete()
    if seconds["plugins"] > PATIENCE:
        raise Failed(f"{release}: the first compilation took {seconds['plugins']:.0f} s")
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, help="keeps what apt and pip download")
    parser.add_argument("--release", nargs="+", default=bare_machine.RELEASES)
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
        tried = {release: try_out(release, version, cache) for release in arguments.release}
    except (Failed, bare_machine.BareMachineError) as error:
        print(f"try_wheels: {error}", file=sys.stderr)
        return 1
    (DIST.parent / "tried.json").write_text(json.dumps(tried, indent=1) + "\n")
    print(json.dumps(tried, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
