# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the run time of loops that were distributed; writes build/bench/loop-distribution.json.

    run.py [--model URIS] [--rounds N] [--flags FLAGS] [--plugin FILE]

Compares -O3 and a model, the shipped one if none is named, with plain -O3, and with LLVM's own
distribution. The kernels are those of the plugin's tests, and others in this folder. Programs take
turns; a kernel's time is the least of all rounds, which other work on the machine disturbs least.
Functions begin at multiples of 64 bytes, so that none is faster only for where it is.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from shared import ROOT, parser, report, show

from mlbridge import files

KERNELS = {
    "tests": ROOT / "compilers/llvm/loop-distribution/test/inputs/kernels.c",
    "programs": Path(__file__).with_name("kernels.c"),
}
FLAGS = ("-w", "-fwrapv", "-fno-math-errno", "-falign-functions=64")
REPEATS = "40"
#: Of the geometric mean, and of one kernel.
LIMIT, WORST = 1.0, 1.02


def mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def times(source: Path, ways: dict[str, list[str]], rounds: int) -> dict[str, dict[str, float]]:
    """Of each way and kernel, nanoseconds."""
    least: dict[str, dict[str, float]] = {way: {} for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        for way, flags in ways.items():
            command = ["clang-22", *FLAGS, *flags, str(source), "-o", f"{folder}/{way}", "-lm"]
            subprocess.run(command, check=True)
        results = {
            subprocess.run([f"{folder}/{way}"], capture_output=True, check=True).stdout
            for way in ways
        }
        if len(results) > 1:
            raise RuntimeError(f"{source}: the programs compute different results")
        for _ in range(rounds):
            for way, found in least.items():
                done = subprocess.run(
                    [f"{folder}/{way}", REPEATS], capture_output=True, text=True, check=True
                )
                for name, spent in map(str.split, done.stdout.splitlines()):
                    found[name] = min(found.get(name, math.inf), float(spent))
    return least


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--model", help="the shipped one, if none is named")
    options.add_argument("--rounds", type=int, default=40)
    options.add_argument("--flags", default="-O3", help="of all, such as '-O3 -march=native'")
    options.add_argument("--plugin", default=files.plugin("loop-distribution"))
    arguments = options.parse_args()
    model = arguments.model or f"native:{files.shipped_agents('loop-distribution')}"
    words = [f"-fpass-plugin={arguments.plugin}", "-mllvm", f"-loop-distribution-model={model}"]
    words += ["-mllvm", "-loop-distribution-on-failure=fail"]
    usual = arguments.flags.split()
    ways = {
        "stock": usual,
        "llvm": [*usual, "-mllvm", "-enable-loop-distribute"],
        "model": [*usual, *(part for word in words for part in ("-Xclang", word))],
    }
    holds, found = True, {}
    for name, source in KERNELS.items():
        least = times(source, ways, arguments.rounds)
        rows = [
            {
                "kernel": kernel,
                "stock_ns": round(time),
                **{way: round(least[way][kernel] / time, 3) for way in ("llvm", "model")},
            }
            for kernel, time in least["stock"].items()
        ]
        show(rows)
        summary = {}
        for way in ("llvm", "model"):
            ratios = [float(str(row[way])) for row in rows]
            summary[way] = {
                "mean": round(mean(ratios), 3),
                "worst": max(ratios),
                "slower": sum(ratio > WORST for ratio in ratios),
            }
            print(f"{name}, {way}: {summary[way]}")
        holds &= summary["model"]["mean"] <= LIMIT and not summary["model"]["slower"]
        found[name] = {"summary": summary, "kernels": rows}
    report("loop-distribution", {"flags": usual, "model": model, **found, "is_within": holds})
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
