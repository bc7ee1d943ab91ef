# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds and runs the benchmarks of bench/*/run.py; results are JSON files in build/bench/."""

from __future__ import annotations

import subprocess
import sys

from cmake_build import build
from common import BUILD, PYTHON, ROOT, environment


def main() -> int:
    (BUILD / "bench").mkdir(parents=True, exist_ok=True)
    if code := build("bench", []):
        return code
    worst = 0
    for script in sorted((ROOT / "bench").glob("*/run.py")):
        print(f"== {script.parent.name}", flush=True)
        command = [str(PYTHON), str(script), *sys.argv[1:]]
        code = subprocess.run(command, cwd=ROOT, env=environment(), check=False).returncode
        worst = max(worst, abs(code))
    return worst


if __name__ == "__main__":
    sys.exit(main())
