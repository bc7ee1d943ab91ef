# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each operator alone: native: beside ONNX Runtime; writes build/bench/operators.json.

    run.py [--rounds N] [--build FOLDER] [--case PART]... [--size N]...

One process asks both in turns, on one core: native: through the library, ONNX Runtime through its C
API alone, everything bound beforehand. A ratio is native's median over ONNX Runtime's. With --case
only operators are measured that have one of these parts in "OPERATOR variant type".
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cases import SIZES, Case, Maker
from tqdm import tqdm

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from shared import parser, report  # noqa: E402

LISTED = 40
Row = dict[str, Any]


def measured(
    cases: list[Case], client: Path, library: Path, rounds: int
) -> tuple[list[Row], list[Row]]:
    """The times of each case, and the cases that one of the two can't run."""
    rows: list[Row] = []
    left_out: list[Row] = []
    core = str(max(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory(prefix="mlbridge-bench-") as folder:
        process = subprocess.Popen(
            ["taskset", "-c", core, client, library, str(rounds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin
        assert process.stdout
        model, data = Path(folder, "model.onnx"), Path(folder, "inputs")
        for case in tqdm(cases, desc="operators", unit="case"):
            row: Row = {"family": case.family, "case": case.name, "size": case.size}
            try:
                model.write_bytes(case.model().SerializeToString())
            except Exception as error:  # of shape inference, which has many
                left_out.append(row | {"why": f"onnx: {error}"})
                continue
            data.write_bytes(case.data())
            process.stdin.write(f"{model} {data}\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            if not answer:
                raise RuntimeError(f"{case.name}: the client ended with {process.wait()}")
            if answer.startswith("-"):
                left_out.append(row | {"why": answer[2:].strip()})
                continue
            native, runtime = (float(word) / 1e3 for word in answer.split())
            rows.append(
                row
                | {
                    "native_us": round(native, 4),
                    "onnxruntime_us": round(runtime, 4),
                    "ratio": round(native / runtime, 3),
                }
            )
        process.stdin.close()
        process.wait()
    return rows, left_out


def mean(ratios: Iterable[float]) -> float:
    """Geometric."""
    logarithms = [math.log(ratio) for ratio in ratios]
    return round(math.exp(math.fsum(logarithms) / len(logarithms)), 3)


def families(rows: list[Row]) -> list[Row]:
    grouped = defaultdict(list)
    for row in rows:
        grouped[row["family"]].append(row)
    found: list[Row] = []
    for family, members in sorted(grouped.items()):
        worst = max(members, key=lambda row: row["ratio"])
        found.append(
            {
                "operator": family,
                "cases": len(members),
                "mean": mean(row["ratio"] for row in members),
                "worst": worst["ratio"],
                "at": f"{worst['case']}, {worst['size']}",
                "slower": sum(row["ratio"] > 1 for row in members),
            }
        )
    return found


def main() -> int:
    """Measure, write, print."""
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--case", action="append", default=[], help="part of a case's name")
    arguments.add_argument("--size", action="append", type=int, choices=SIZES)
    options = arguments.parse_args()
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    [library] = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")
    cases = [
        case
        for size in options.size or SIZES
        for case in Maker(size).all()
        if not options.case or any(part in case.name for part in options.case)
    ]
    client = options.build / "bench/operators-client"
    rows, left_out = measured(cases, client, library, options.rounds)
    by_family = families(rows)
    slower = sorted((row for row in rows if row["ratio"] > 1), key=lambda row: -row["ratio"])
    far = [row for row in slower if row["ratio"] > 1.3]
    overall = mean(row["ratio"] for row in rows)
    sizes = {
        size: mean(r["ratio"] for r in rows if r["size"] == size) for size in options.size or SIZES
    }
    report(
        "operators-partial" if options.case or options.size else "operators",
        {
            "mean": overall,
            "by_size": sizes,
            "families": by_family,
            "slower": len(slower),
            "above_1.3": len(far),
            "cases": rows,
            "left_out": left_out,
        },
        "Single operators",
        "One thread, medians of turns. A ratio is the time of an evaluation by `native:`, through"
        " the library, over that of a session of ONNX Runtime with everything bound beforehand;"
        f" means are geometric. Tensors have {', '.join(map(str, SIZES))} elements.",
        f"{len(rows)} cases, geometric mean {overall}; {len(slower)} are above 1.0, {len(far)}"
        f" above 1.3. By size: {', '.join(f'{size}: {ratio}' for size, ratio in sizes.items())}."
        f" {len(left_out)} cases are run by only one of the two.",
        by_family,
        "The slowest cases:" if slower else "",
        [
            {"case": row["case"]}
            | {k: row[k] for k in ("size", "native_us", "onnxruntime_us", "ratio")}
            for row in slower[:LISTED]
        ],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
