# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Seconds of an episode of a training of register allocation, by the number of workers.

    python3 -m experiments.paper.workers [--set NAME] [--workers 1 2 4] [--steps N] [-o FILE]

Figure 5 b of the paper. `mlbridge train register-allocation` trains the four agents by RLlib's PPO
on the processor; each worker is a process with compilers of its own. An episode is the compile of a
function. The first iteration, which imitates, isn't counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tqdm import tqdm

from experiments.paper.command import keep, modules_of, parser_of


def trained(workers: int, modules: Path, folder: Path, steps: int) -> dict[str, Any]:
    """The episodes of a training, and their seconds."""
    command = [sys.executable, "-m", "mlbridge", "train", "register-allocation"]
    command += ["--corpus", str(modules), "--workers", str(workers), "--steps", str(steps)]
    done = subprocess.run(
        [*command, "-o", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"mlbridge train, {workers} workers: {done.stderr[-2000:]}")
    lines = (folder / "progress.jsonl").read_text().splitlines()
    first, *rest = [json.loads(line) for line in lines]
    if not rest:
        raise RuntimeError(f"{workers} workers: {steps} steps are one iteration; take more")
    seconds = rest[-1]["seconds"] - first["seconds"]
    episodes = sum(row["episodes"] for row in rest)
    return {
        "episodes": episodes,
        "steps": rest[-1]["steps"] - first["steps"],
        "seconds": round(seconds, 2),
        "seconds an episode": round(seconds / episodes, 4),
    }


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = parser_of(__doc__, "validation")
    parser.add_argument("--modules", type=int, default=24)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--steps", type=int, default=12000)
    options = parser.parse_args(arguments)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="mlbridge-workers-") as name:
        modules = modules_of(options.set, options.modules, Path(name))
        for workers in tqdm(options.workers, desc="workers"):
            one = trained(workers, modules, Path(name) / f"{workers}", options.steps)
            found[str(workers)] = one
            print(f"{workers} workers: {one}", flush=True)
    keep(found, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
