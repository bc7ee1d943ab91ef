# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the run time of loops that were distributed.

    run.py [--model URIS] [--rounds N] [--flags FLAGS] [--programs NAME...]

Compares -O3 and a model, the shipped one if none is named, with plain -O3, and with LLVM's own
distribution. The kernels are those of the plugin's tests, and others in this folder. Programs take
turns; a kernel's time is the least of all rounds, which other work on the machine disturbs least.
Functions begin at multiples of 64 bytes, so that none is faster only for where it is. A kernel
whose code is that of plain -O3 counts as 1, shown as "same". Real programs run their own tests, and
those whose code differs are timed. Writes build/experiments/loop-distribution.json.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from result_tables import Rows, section

from mlbridge import files
from programs.catalog import ROOT

REPORT = ROOT / "build/experiments/loop-distribution.json"

KERNELS = {
    "tests": ROOT / "compilers/llvm/loop-distribution/test/inputs/kernels.c",
    "programs": Path(__file__).with_name("kernels.c"),
}
FLAGS = ("-w", "-fwrapv", "-fno-math-errno", "-falign-functions=64")
REPEATS = "40"
#: The largest geometric mean, and the largest ratio of one kernel.
LIMIT, WORST = 1.0, 1.02


def mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def code(source: Path, flags: list[str]) -> dict[str, str]:
    """The assembly of each function."""
    command = ["clang-22", *FLAGS, *flags, "-S", str(source), "-o", "-"]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return dict(re.findall(r"^(\w+):.*\n((?:.*\n)*?)\.Lfunc_end", made, re.MULTILINE))


def compare(names: list[str], ways: dict[str, list[str]], *more: str) -> dict[str, Any]:
    """Real programs, whose outputs must not differ."""
    path = REPORT.with_name("loop-distribution-programs.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    way = f"model={shlex.join(ways['model'])}"
    command = [sys.executable, "-m", "experiments.compare", *names, "--level", "O3", *more]
    subprocess.run([*command, "--way", way, "-o", str(path)], cwd=ROOT, check=True)
    found: dict[str, Any] = json.loads(path.read_text())
    path.unlink()
    path.with_suffix(".md").unlink()
    return found


def programs(names: list[str], ways: dict[str, list[str]]) -> dict[str, Any]:
    """How many of their files are another code, and what these programs take then."""
    found = compare(names, ways)
    model = found["over_o3"]["model"]
    others = [
        name
        for name, made in found["programs"].items()
        if made["model"]["bytes"] != made["-O3"]["bytes"]
    ]
    made = {
        "programs": list(found["programs"]),
        "files": model["smaller"] + model["equal"] + model["larger"],
        "same_code": model["same_file"],
        "time": None,
    }
    if others:
        made["time"] = compare(others, ways, "--runs", "9")["over_o3"]["model"].get("run")
    return made


def times(source: Path, ways: dict[str, list[str]], rounds: int) -> dict[str, dict[str, float]]:
    """Nanoseconds of each way and kernel."""
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
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--model", help="the shipped one, if none is named")
    options.add_argument("--rounds", type=int, default=40)
    options.add_argument("--flags", default="-O3", help="of all, such as '-O3 -march=native'")
    options.add_argument("--programs", nargs="*", default=["demo"], help="or sets of them")
    arguments = options.parse_args()
    model = arguments.model or f"native:{files.shipped_agents('loop-distribution')}"
    plugin = files.plugin("loop-distribution")
    words = [f"-fpass-plugin={plugin}", "-mllvm", f"-loop-distribution-model={model}"]
    words += ["-mllvm", "-loop-distribution-on-failure=fail"]
    usual = arguments.flags.split()
    ways = {
        "stock": usual,
        "llvm": [*usual, "-mllvm", "-enable-loop-distribute"],
        "model": [*usual, *(part for word in words for part in ("-Xclang", word))],
    }
    holds, found = True, dict[str, Any]()
    parts: list[str | Rows] = []
    totals: list[dict[str, Any]] = []
    for name, source in KERNELS.items():
        least = times(source, ways, arguments.rounds)
        assembly = {way: code(source, flags) for way, flags in ways.items()}
        rows: list[dict[str, Any]] = []
        for kernel, time in least["stock"].items():
            rows.append({"kernel": kernel, "stock_ns": round(time)})
            function = kernel.partition(":")[0]
            for way in ("llvm", "model"):
                same = assembly[way][function] == assembly["stock"][function]
                rows[-1][way] = "same" if same else round(least[way][kernel] / time, 3)
        summary = {}
        for way in ("llvm", "model"):
            ratios = [1.0 if row[way] == "same" else float(row[way]) for row in rows]
            summary[way] = {
                "kernels": len(rows),
                "divided": sum(row[way] != "same" for row in rows),
                "mean": round(mean(ratios), 3),
                "worst": max(ratios),
                "slower": sum(ratio > WORST for ratio in ratios),
            }
            totals.append({"kernels of": name, "way": way, **summary[way]})
        holds &= summary["model"]["mean"] <= LIMIT and not summary["model"]["slower"]
        found[name] = {"summary": summary, "kernels": rows}
        parts.append(rows)
    if arguments.programs:
        found["real"] = programs(arguments.programs, ways)
        parts.append(f"Real programs: {found['real']}")
    report = {"flags": usual, "model": model, **found, "is_within": holds}
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=1) + "\n")
    text = section(
        REPORT,
        "Loops that are distributed (`experiments/loop-distribution/run.py`)",
        f"Run time beside `{shlex.join(usual)}`, by LLVM's own distribution and by the model;"
        " `same` is a kernel whose code does not change. The least time of all rounds counts.",
        totals,
        *parts,
    )
    print(text)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
