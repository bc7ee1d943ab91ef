# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures a model asked in a query of SQLite beside the same loop in C, and writes
build/bench/sqlite.json.

    run.py [--rows N] [--rounds N] [--build FOLDER]

The query is `SELECT sum(mlbridge(URI, x, y)) FROM t`; the loop steps through `SELECT x, y FROM t`
and asks through the C interface. A loop over arrays, without SQLite, is the cost of asking alone.
Figures are medians over rounds, in which they take turns.
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

LIMIT = 1.3


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=9)
    arguments = options.parse_args()
    bench = arguments.build / "bench"
    REPORTS.mkdir(parents=True, exist_ok=True)
    models = {}
    for widths in ((2, 1), (2, 16, 1), (2, 64, 64, 1)):
        name = "-".join(map(str, widths))
        model = REPORTS / f"sqlite-{name}.onnx"
        model.write_bytes(perceptron(*widths).SerializeToString())
        command = [bench / "sqlite-client", bench / "sqlite/mlbridge.so", f"native:{model}"]
        command += [str(arguments.rows), str(arguments.rounds)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=3600)
        rounds = [tuple(map(float, line.split())) for line in done.stdout.splitlines()]
        query, loop, arrays = (statistics.median(column) for column in zip(*rounds, strict=True))
        models[name] = {
            "query_ns": round(query / arguments.rows, 1),
            "loop_ns": round(loop / arguments.rows, 1),
            "arrays_ns": round(arrays / arguments.rows, 1),
            "ratio": round(statistics.median(row[0] / row[1] for row in rounds), 3),
        }
    show([{"model": name, **row} for name, row in models.items()])
    holds = all(row["ratio"] <= LIMIT for row in models.values())
    report("sqlite", {"rows": arguments.rows, "models": models, "limit": LIMIT, "is_within": holds})
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
