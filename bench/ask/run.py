# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures what a question costs each kind of client, beside a floor; writes build/bench/ask.json.

    run.py [--only CLIENT]... [--rounds N] [--files N] [--largest] [--build FOLDER]

The C interface and a query of SQLite ask in process, beside the same loop in C++, and in C with the
rows of the table or of arrays. GCC, MLIR, Polly and SQLite ask by each runner, beside a bare
program (waits.py). The register allocator of llc asks agents, beside stock llc (registers.py).
Figures are medians over rounds, in which client and floor take turns.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCH), str(BENCH / "in-process"), str(BENCH.parent / "tests" / "shared")]

import registers  # noqa: E402
import waits  # noqa: E402
from networks import perceptron  # noqa: E402
from rows import Row, row  # noqa: E402
from shared import REPORTS, parser, report  # noqa: E402

#: How many questions a round of C and of SQLite asks.
QUERIES, TABLE = 100, 1_000_000
#: Rounds of a process in C, of which there are many: where the memory of one lies can matter more
#: than the interface.
ROUNDS_IN_C = 101


def timed(
    client: str,
    floors: Sequence[str],
    commands: Callable[[str], Sequence[list[str]]],
    questions: int,
    limits: Mapping[tuple[int, ...], float | None],
) -> list[Row]:
    """Rows of a client whose programs, given a URI, print a line for each round: the nanoseconds
    that the client took, and each floor. `limits` has the networks, with the largest ratio to the
    first floor."""
    rows = []
    for widths, limit in limits.items():
        name = "-".join(map(str, widths))
        model = REPORTS / f"ask-{name}.onnx"
        model.write_bytes(perceptron(*widths).SerializeToString())
        lines: list[str] = []
        for command in commands(f"native:{model}"):
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=3600)
            lines += done.stdout.splitlines()
        columns = zip(*(map(float, line.split()) for line in lines), strict=True)
        us, *others = (statistics.median(column) / questions / 1000 for column in columns)
        for floor, floor_us in zip(floors, others, strict=True):
            most = limit if floor == floors[0] else None
            rows.append(row(client, name, "native", us, floor, floor_us, most=most))
    return rows


def in_c(options: argparse.Namespace) -> list[Row]:
    command = [str(options.build / "bench/ask-c-client")]
    return timed(
        "C",
        ["C++"],
        lambda uri: [[*command, uri, str(ROUNDS_IN_C)]] * (4 * options.rounds + 1),
        QUERIES,
        {(50000, 1): 1.05, (16, 8, 2): None},
    )


def by_query(options: argparse.Namespace) -> list[Row]:
    bench = options.build / "bench"
    command = [str(bench / "ask-sqlite-client"), str(bench / "sqlite/mlbridge.so")]
    return timed(
        "SQLite, one query",
        ["C over the table", "C over arrays"],
        lambda uri: [[*command, uri, str(TABLE), str(2 * options.rounds - 1)]],
        TABLE,
        {(2, 1): 1.3, (2, 16, 1): 1.3, (2, 64, 64, 1): 1.3},
    )


def main() -> int:
    """Measure, write, print; 1 if a limit does not hold."""
    compilations: list[Row] = []
    clients: dict[str, Callable[[argparse.Namespace], list[Row]]] = {
        "C": in_c,
        "SQLite, one query": by_query,
        **{name: partial(waits.measured, name) for name in waits.CLIENTS},
        "register allocation": partial(registers.measured, compilations),
    }
    options = parser(__doc__)
    options.add_argument("--only", action="append", choices=list(clients), metavar="CLIENT")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--files", type=int, default=8, help="of the register allocator")
    options.add_argument("--largest", action="store_true", help="instead of a sample of files")
    arguments = options.parse_args()
    REPORTS.mkdir(parents=True, exist_ok=True)
    rows = [found for name in arguments.only or clients for found in clients[name](arguments)]
    across: dict[str, dict[str, Any]] = {}
    for found in rows:
        if found["client"] in waits.CLIENTS:
            line = across.setdefault(found["client"], {"client": found["client"]})
            line[f"`{found['runner']}:`"] = f"{found['µs']:.2f} ({found['floor µs']:.2f})"
    report(
        "ask-partial" if arguments.only else "ask",
        {"questions": rows, "compilations": compilations},
        "The cost of a question",
        "Microseconds of a question, beside the floor of the client. The first table has"
        " compilers and SQLite, and in parentheses the same question from a bare program: the wait"
        " for the reply. The last one has llc, whose registers agents allocate, on"
        f" {arguments.files} files of the validation programs.",
        list(across.values()),
        rows,
        compilations,
    )
    broken = [found for found in (*rows, *compilations) if found.get("holds") is False]
    for found in broken:
        print(f"{found['client']}, {found['runner']}: {found['ratio']}, limit {found['limit']}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
