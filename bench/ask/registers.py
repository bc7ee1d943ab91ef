# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What it costs to ask the agents of the register allocator, and the whole compilation.

Files of the validation corpus, as the middle end at -O2 leaves them, are compiled by stock llc (the
floor), and by llc whose registers the networks of models/register-allocation allocate, which answer
in process and in a server. Medians are of the sums over all files. By llc's -time-passes the time
of the plugin's pass is divided into asking, what agents are shown, and the rest.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from agents import RUNNERS, answering
from rows import Row, row
from shared import ROOT, sample

import mlbridge.files

NETWORKS = ROOT / "models" / "register-allocation"
LLC = ["llc-22", "-O2", "-relocation-model=pic", "-filetype=obj"]
#: The most of a whole compilation to stock llc's.
WHOLE = 1.5
PARTS = {
    "asking": "Waiting for agents",
    "shown": "What agents are shown",
    "pass": "Register allocation by models",
    "greedy": r"Greedy Register Allocator(?: #\d+)?",  # there are two passes of it
}


def times(text: str) -> dict[str, float]:
    """Wall seconds of the parts, by what -time-passes says."""
    return {
        part: sum(
            float(found[1])
            for found in re.finditer(rf"([\d.]+) \([^)]*\)\s+{name}$", text, re.MULTILINE)
        )
        for part, name in PARTS.items()
    }


def compiled(module: Path, folder: Path, *options: str) -> dict[str, float]:
    report = folder / "times"
    command = [*LLC, str(module), "-o", str(folder / "made.o"), *options]
    began = time.perf_counter()
    subprocess.run([*command, "-time-passes", f"-info-output-file={report}"], check=True)
    whole = time.perf_counter() - began
    found = times(report.read_text())
    report.unlink()
    return {"whole": whole, **found}


def prepared(paths: list[Path], folder: Path) -> list[Path]:
    made = [folder / f"{path.stem}.bc" for path in paths]
    for source, target in zip(paths, made, strict=True):
        subprocess.run(["opt-22", "-passes=default<O2>", source, "-o", target], check=True)
    return made


def questions(modules: list[Path], plugin: str, folder: Path) -> int:
    log = folder / "log"
    log.mkdir()
    for module in modules:
        model = f"native:{NETWORKS}/{{agent}}.onnx?record={log}"
        asked = ["-load", plugin, f"-register-allocation-model={model}"]
        subprocess.run([*LLC, module, "-o", folder / "made.o", *asked], check=True)
    recordings = map(mlbridge.Recording, log.glob("*.mlbrec"))
    return sum(len(e.actions) for recording in recordings for e in recording.episodes())


def measured(compilations: list[Row], options: argparse.Namespace) -> list[Row]:
    """A row of the questions for each runner; adds one of the compilation to `compilations`."""
    plugin = mlbridge.files.plugin("register-allocation")
    sums: defaultdict[str, list[dict[str, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="mlbridge-bench-") as name:
        folder = Path(name)
        files = prepared(sample(options.files, largest=options.largest), folder)
        asked = questions(files, plugin, folder)
        for at in range(options.rounds):
            for runner in ["stock", *RUNNERS][:: 1 if at % 2 else -1]:
                own = folder / f"{runner}-{at}"
                own.mkdir()
                if runner == "stock":
                    all_ = [compiled(file, folder) for file in files]
                else:
                    with answering(runner, NETWORKS, own) as uri:
                        line = ["-load", plugin, f"-register-allocation-model={uri}"]
                        line.append("-register-allocation-on-failure=fail")
                        all_ = [compiled(file, folder, *line) for file in files]
                sums[runner].append({part: sum(one[part] for one in all_) for part in all_[0]})

    def median(runner: str, part: str) -> float:
        return statistics.median(parts[part] for parts in sums[runner])

    native_us = 1e6 * median("native", "asking") / asked
    rows = []
    for runner in sums:
        whole, asking, shown = (median(runner, part) for part in ("whole", "asking", "shown"))
        ratio = round(whole / median("stock", "whole"), 3)
        is_limited = runner == "native"
        compilations.append(
            {
                "client": "llc",
                "runner": runner,
                "questions": asked if asking else 0,
                "asking, ms": round(1000 * asking, 1),
                "shown, ms": round(1000 * shown, 1),
                "rest of pass, ms": round(1000 * (median(runner, "pass") - asking - shown), 1),
                "greedy, ms": round(1000 * median(runner, "greedy"), 1),
                "compile, ms": round(1000 * whole, 1),
                "ratio": ratio,
                "limit": f"≤ {WHOLE}" if is_limited else None,
                "holds": ratio <= WHOLE if is_limited else None,
            }
        )
        if asking:
            us = 1e6 * asking / asked
            model = NETWORKS.name
            rows.append(row("llc", model, runner, us, "native:", native_us))
    return rows
