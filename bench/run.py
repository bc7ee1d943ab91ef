# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""All benchmarks, each figure beside its floor; writes build/bench/*.json.

run.py [round-trip] [phase-ordering] [batching] [in-process] [c-api] [footprint] [episodes]
       [attacks]

All, if none is named.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

SCENARIOS = {
    "round-trip": [str(HERE / "round-trip/run.py")],
    "phase-ordering": [str(HERE / "phase-ordering/run.py")],
    "batching": [str(HERE / "batching/run.py")],
    "in-process": [str(HERE / "in-process/run.py")],
    "c-api": [str(HERE / "c-api/run.py")],
    "footprint": [str(HERE / "footprint/run.py")],
    "episodes": [str(HERE / "episodes/run.py")],
    "attacks": [str(HERE / "attacks/run.py")],
}


def main() -> int:
    """Run what was asked for; the worst exit status."""
    wanted = sys.argv[1:] or list(SCENARIOS)
    if unknown := [name for name in wanted if name not in SCENARIOS]:
        print(f"unknown benchmark {unknown[0]!r}; there are {', '.join(SCENARIOS)}")
        return 2
    worst = 0
    for name in wanted:
        print(f"== {name}", flush=True)
        command = [sys.executable, *SCENARIOS[name]]
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        worst = max(worst, abs(code))
    return worst


if __name__ == "__main__":
    sys.exit(main())
