# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Run time of the kernels: python3 bench.py [--model URIS] [--rounds N] [--flags FLAGS].

Compares -O3 with the plugin, with plain -O3, and with LLVM's own loop distribution. Programs run in
turns; a kernel's time is the least of all rounds, which other work on the machine disturbs least.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import tempfile
from pathlib import Path

import mlbridge.files

KERNELS = Path(__file__).resolve().parent / "test" / "inputs" / "kernels.c"
REPEATS = "100"


def mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="function:heuristic")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--flags", default="-O3", help="of all three, such as '-O3 -march=native'")
    parser.add_argument("--plugin", default=None)
    options = parser.parse_args()
    plugin = options.plugin or mlbridge.files.plugin("loop-distribution")
    said = ["-Xclang", f"-fpass-plugin={plugin}", "-Xclang", "-mllvm", "-Xclang"]
    ways = {
        "stock": [],
        "llvm": ["-mllvm", "-enable-loop-distribute"],
        "model": [*said, f"-loop-distribution-model={options.model}"],
    }
    least: dict[str, dict[str, float]] = {way: {} for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        for way, flags in ways.items():
            common = ["clang-22", "-w", "-fwrapv", *options.flags.split(), str(KERNELS)]
            subprocess.run([*common, *flags, "-o", f"{folder}/{way}"], check=True)
        for _ in range(options.rounds):
            for way, times in least.items():
                run = [f"{folder}/{way}", REPEATS]
                for line in subprocess.run(
                    run, capture_output=True, text=True, check=True
                ).stdout.splitlines():
                    name, spent = line.split()
                    times[name] = min(times.get(name, math.inf), float(spent))
    print(f"{'kernel':22}{'-O3, ns':>10}{'LLVM’s':>8}{'model':>8}")
    for name, time in least["stock"].items():
        other, own = least["llvm"][name] / time, least["model"][name] / time
        print(f"{name:22}{time:10.0f}{other:8.2f}{own:8.2f}")
    for way in ("llvm", "model"):
        ratios = [least[way][name] / time for name, time in least["stock"].items()]
        print(f"{way}: {mean(ratios):.3f} geometric mean, {max(ratios):.2f} at most")


if __name__ == "__main__":
    main()
