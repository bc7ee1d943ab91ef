# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From the corpus to the candidates that ship, and to the figures of their card.

    models/phase-ordering-size/make.py [--record SET]

Measures the pool of this folder on modules of the training programs, chooses,
checks the choice on the validation programs, and compares predictors with it, in build/venv-train.
An hour and a half, as it goes on where it was stopped. --record also compiles the programs of a
set. Everything goes into build/candidates/: the lists, the tables, what was measured. The same
programs, compiler and seed give the same numbers.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import train_venv
from common import BUILD, PYTHON, ROOT, environment

FOLDER = BUILD / "candidates"
MODEL = ROOT / "models" / "phase-ordering-size"
CORPUS = BUILD / "programs" / "corpus"
#: Of each objective: how many modules of a program are measured, for training and validation, and
#: how many candidates at the head of the list continue the stock pipeline: low efforts are cheap.
OBJECTIVES = {"size": ("", 10, 100, 2), "speed-size": ("-speed-size", 2, 8, 0)}


def tell(log: Path, *command: str | Path) -> None:
    """Runs it; what it prints is shown and kept."""
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True, check=False
    )
    print(done.stdout, flush=True)
    log.write_text(done.stdout)
    if done.returncode:
        raise SystemExit(f"candidates: {' '.join(map(str, command))} ended with {done.returncode}")


def choose(objective: str) -> None:
    ending, training_modules, validation_modules, continuing = OBJECTIVES[objective]
    chosen = FOLDER / f"candidates{ending}.json"
    command: list[str | Path] = [PYTHON, "-m", "mlbridge", "candidates"]
    command += ["--objective", objective]
    training: list[str | Path] = [MODEL / f"pool{ending}.json", CORPUS, "--part", "training"]
    training += ["--modules", str(training_modules), "--sizes", FOLDER / f"training{ending}.jsonl"]
    best = ["--choose", "10", *(["--continuing", str(continuing)] if continuing else [])]
    tell(FOLDER / f"training{ending}.txt", *command, *training, *best, "-o", chosen)
    tell(
        FOLDER / f"validation{ending}.txt",
        *(*command, chosen, CORPUS, "--part", "validation", "--modules", str(validation_modules)),
        *("--sizes", FOLDER / f"validation{ending}.jsonl"),
    )
    if objective == "size":
        train_venv.prepare()
        tell(
            FOLDER / "prediction.txt",
            *(train_venv.PYTHON, *command[1:], *training, *best, "--predict"),
        )
    same = chosen.read_text() == (MODEL / chosen.name).read_text()
    print(
        f"{chosen} is {'the list that ships' if same else 'another list than the one that ships'}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--record", metavar="SET")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    tell(FOLDER / "corpus.txt", PYTHON, "-m", "programs.corpus", "training", "validation")
    for objective in OBJECTIVES:
        choose(objective)
    if options.record:
        compare: list[str | Path] = [PYTHON, "-m", "programs.compare", options.record]
        where = FOLDER / options.record
        tell(
            where.with_suffix(".txt"),
            *(*compare, "--effort", "1", "3", "10", "--linked", "-o", where.with_suffix(".json")),
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
