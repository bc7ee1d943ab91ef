# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures queries in process through the C interface beside C++; writes build/bench/c-api.json.

    run.py [--rounds N] [--processes N] [--build FOLDER]

A query copies its floats into the input, evaluates and reads the one answer. Figures are medians
over the rounds, in which C++ and C take turns, of several processes: where the memory of one lies
can matter more than the interface.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCH), str(BENCH / "in-process")]

from networks import perceptron  # noqa: E402
from shared import REPORTS, parser, report, show  # noqa: E402

LIMIT = 1.05
QUERIES = 100


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=101)
    options.add_argument("--processes", type=int, default=21)
    arguments = options.parse_args()
    client = arguments.build / "bench/c-api-client"
    REPORTS.mkdir(parents=True, exist_ok=True)
    queries = {}
    for widths in ((50000, 1), (16, 8, 2)):
        name = "-".join(map(str, widths))
        model = REPORTS / f"c-api-{name}.onnx"
        model.write_bytes(perceptron(*widths).SerializeToString())
        command = [client, f"native:{model}", str(arguments.rounds)]
        rounds: list[tuple[float, ...]] = []
        for _ in range(arguments.processes):
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
            rounds += [tuple(map(float, line.split())) for line in done.stdout.splitlines()]
        cxx = statistics.median(r[0] for r in rounds) / QUERIES / 1000
        c = statistics.median(r[1] for r in rounds) / QUERIES / 1000
        queries[name] = {
            "cxx_us": round(cxx, 4),
            "c_us": round(c, 4),
            "ratio": round(c / cxx, 4),
            "extra_ns": round(1000 * (c - cxx), 1),
        }
    show([{"query": name, **row} for name, row in queries.items()])
    holds = queries["50000-1"]["ratio"] <= LIMIT
    report("c-api", {"queries": queries, "limit": LIMIT, "large_is_within": holds})
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
