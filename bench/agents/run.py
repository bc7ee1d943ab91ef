# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures what it costs to ask the agents of the register allocator, and the whole compilation.

    run.py [--rounds N] [--files N] [--largest]

Files of the validation corpus, or with --largest its largest, as the middle end at -O2 leaves them,
are compiled by stock llc (the floor), and by llc whose registers the networks of
models/register-allocation allocate, which answer in process and in a server. In turns; reported are
medians of the sums over all files. By llc's -time-passes the time of the plugin's pass is divided
into asking, what agents are shown, and the rest; writes build/bench/agents.json.
"""

from __future__ import annotations

import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from shared import ROOT, parser, report, show

sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "tests" / "shared"))

from agents import RUNNERS, answering

import mlbridge.files
from programs.corpus import extracted

NETWORKS = ROOT / "models" / "register-allocation"
LLC = ["llc-22", "-O2", "-relocation-model=pic", "-filetype=obj"]
#: Of asking over gRPC to asking in process; of a whole compilation with native: to stock llc's.
ASKING, WHOLE = 22, 1.5
PARTS = {
    "asking": "Waiting for agents",
    "shown": "What agents are shown",
    "pass": "Register allocation by models",
    "greedy": r"Greedy Register Allocator(?: #\d+)?",  # there are two passes of it
}


def times(said: str) -> dict[str, float]:
    """Wall seconds of the parts, by what -time-passes says."""
    return {
        part: sum(
            float(found[1])
            for found in re.finditer(rf"([\d.]+) \([^)]*\)\s+{name}$", said, re.MULTILINE)
        )
        for part, name in PARTS.items()
    }


def compiled(module: Path, folder: Path, *options: str) -> dict[str, float]:
    said = folder / "times"
    command = [*LLC, str(module), "-o", str(folder / "made.o"), *options]
    began = time.perf_counter()
    subprocess.run([*command, "-time-passes", f"-info-output-file={said}"], check=True)
    whole = time.perf_counter() - began
    found = times(said.read_text())
    said.unlink()
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
    return sum(len(e.actions) for its in recordings for e in its.episodes())


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--files", type=int, default=8)
    options.add_argument("--largest", action="store_true", help="instead of a sample")
    arguments = options.parse_args()
    modules = sorted(extracted("validation"), key=lambda pair: (-pair[0].bytes, pair[0].name))
    paths = [path for _, path in modules]
    count = arguments.files
    chosen = paths[:count] if arguments.largest else random.Random(1).sample(paths, count)
    plugin = mlbridge.files.plugin("register-allocation")
    sums: defaultdict[str, list[dict[str, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="mlbridge-bench-") as name:
        folder = Path(name)
        files = prepared(chosen, folder)
        asked = questions(files, plugin, folder)
        for at in range(arguments.rounds):
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
        return statistics.median(its[part] for its in sums[runner])

    stock, remote = median("stock", "whole"), median("grpc", "asking")
    rows = []
    for runner in sums:
        whole, pass_ = median(runner, "whole"), median(runner, "pass")
        asking, shown = median(runner, "asking"), median(runner, "shown")
        rows.append(
            {
                "runner": runner,
                "questions": asked if pass_ else 0,
                "asking, ms": round(1000 * asking, 1),
                "µs each": round(1e6 * asking / asked, 1),
                "grpc's over it": round(remote / asking, 1) if asking else "",
                "shown, ms": round(1000 * shown, 1),
                "rest of pass, ms": round(1000 * (pass_ - asking - shown), 1) if pass_ else "",
                "greedy, ms": round(1000 * median(runner, "greedy"), 1),
                "compile, ms": round(1000 * whole, 1),
                "over stock": round(whole / stock, 3),
            }
        )
    show(rows)
    report("agents", rows)
    native = next(row for row in rows if row["runner"] == "native")
    problems = []
    if remote < ASKING * median("native", "asking"):
        problems.append(f"asking over grpc takes less than {ASKING} times as long as native")
    if float(str(native["over stock"])) > WHOLE:
        problems.append(f"compiling with native takes more than {WHOLE} times as long as stock")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
