# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""All benchmarks, each figure beside its floor; writes build/bench/*.json.

run.py [round-trip] [phase-ordering] …: all, if none is named
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

SCENARIOS = sorted(path.parent.name for path in HERE.glob("*/run.py"))


def main() -> int:
    """Run what was asked for; the worst exit status."""
    wanted = sys.argv[1:] or SCENARIOS
    if unknown := [name for name in wanted if name not in SCENARIOS]:
        print(f"unknown benchmark {unknown[0]!r}; there are {', '.join(SCENARIOS)}")
        return 2
    worst = 0
    for name in wanted:
        print(f"== {name}", flush=True)
        command = [sys.executable, str(HERE / name / "run.py")]
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        worst = max(worst, abs(code))
    return worst


if __name__ == "__main__":
    sys.exit(main())
