# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the asking loop of environments costs for each step; writes build/bench/episodes.json.

    run.py [--build FOLDER]

1000 episodes of 200 steps in process, with one, two and four agents. The floor is a loop written by
hand that evaluates the same agents and does the same work, measured in turns. The overhead is the
difference.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from shared import parser, report

GOAL_US = 0.2


def main() -> int:
    """Measure; 1 if the goal is missed."""
    build = parser(__doc__).parse_args().build
    core = min(os.sched_getaffinity(0))
    command = ["taskset", "-c", str(core), str(build / "bench" / "episodes-client")]
    rows = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    for row in rows:
        row["overhead_us"] = round((row["step_ns"] - row["floor_ns"]) / 1000, 4)
        row["goal_us"] = GOAL_US
        row["holds"] = row["overhead_us"] <= GOAL_US
    report(
        "episodes",
        rows,
        "Episodes in process",
        f"{rows[0]['episodes']} episodes of {rows[0]['steps']} steps: the library's loop compared"
        " with a hand-written loop that evaluates the same agents for the same pass.",
        [
            {
                "agents": row["agents"],
                "deadline": "with" if row["deadline"] else "without",
                "step ns": row["step_ns"],
                "by hand": row["floor_ns"],
                "overhead µs": row["overhead_us"],
                "goal": GOAL_US,
                "holds": row["holds"],
            }
            for row in rows
        ],
    )
    return 0 if all(row["holds"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
