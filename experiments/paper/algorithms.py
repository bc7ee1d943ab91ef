# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Four algorithms learn the same optimization, with nothing changed in the compiler.

    python3 -m experiments.paper.algorithms [--set NAME] [--trials N] [--steps N] [-o FILE]

Section 5.2.3 of the paper: PPO, APPO, A2C and DQN of RLlib, tuned by Ray Tune, on phase ordering.
Each has so many trials with other learning rates, of so many steps (code is generated at the end of
an episode). FILE gets each algorithm's best trial: bytes over -Oz of the modules it learned from,
as `mlbridge tune` reports it, and the seconds. The agents of register allocation are trained by PPO
alone, so they aren't here.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from experiments.paper.command import keep, modules_of, parser_of

ALGORITHMS = ("ppo", "appo", "a2c", "dqn")


def tuned(algorithm: str, modules: Path, folder: Path, options: argparse.Namespace) -> Any:
    """The report of a search for a learning rate."""
    command = [sys.executable, "-m", "mlbridge", "tune", "phase-ordering", "--corpus", str(modules)]
    command += [
        "--algorithm",
        algorithm,
        "--search",
        "lr=1e-5..1e-3",
        "--steps",
        str(options.steps),
    ]
    command += ["--trials", str(options.trials), "--option", "rewards=last", "-o", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"mlbridge tune, {algorithm}: {done.stderr[-2000:]}")
    return json.loads((folder / "best.json").read_text())


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = parser_of(__doc__, "validation")
    parser.add_argument("--modules", type=int, default=24)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3000)
    options = parser.parse_args(arguments)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="mlbridge-algorithms-") as name:
        modules = modules_of(options.set, options.modules, Path(name))
        for algorithm in tqdm(ALGORITHMS, desc="algorithms"):
            began = time.monotonic()
            best = tuned(algorithm, modules, Path(name) / algorithm, options)
            found[algorithm] = {"seconds": round(time.monotonic() - began), "best": best}
            print(f"{algorithm}: {json.dumps(best)[:200]}", flush=True)
    keep(found, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
