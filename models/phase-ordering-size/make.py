# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From the corpus to the candidates that ship, and to the figures of their card.

    models/phase-ordering-size/make.py [--record SET]

Measures the pool of this folder on modules of the training programs, chooses, and checks the choice
on the validation programs. Takes up to an hour and a half, and goes on where it was stopped.
--record also compiles the programs of a set. Everything goes into build/candidates/: the list, the
tables, what was measured. The same programs, compiler and seed give the same numbers.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from common import BUILD, PYTHON, ROOT, environment

FOLDER = BUILD / "candidates"
MODEL = ROOT / "models" / "phase-ordering-size"
CORPUS = BUILD / "programs" / "corpus"
#: How many modules of each program are measured.
MODULES = {"training": "10", "validation": "100"}
#: How many candidates at the head of the list continue the stock pipeline, so that low efforts are
#: cheap.
CONTINUING = "2"


def tell(log: Path, *command: str | Path) -> None:
    """Runs it; what it prints is shown and kept."""
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True, check=False
    )
    print(done.stdout, flush=True)
    log.write_text(done.stdout)
    if done.returncode:
        raise SystemExit(f"candidates: {' '.join(map(str, command))} ended with {done.returncode}")


def measure(part: str, listed: Path, *options: str | Path) -> None:
    """Has `mlbridge candidates` measure a list on the modules of a part."""
    tell(
        FOLDER / f"{part}.txt",
        *(PYTHON, "-m", "mlbridge", "candidates", listed, CORPUS, "--part", part),
        *("--modules", MODULES[part], "--sizes", FOLDER / f"{part}.jsonl", *options),
    )


def choose() -> None:
    chosen = FOLDER / "candidates.json"
    best = ("--choose", "10", "--continuing", CONTINUING)
    measure("training", MODEL / "pool.json", *best, "-o", chosen)
    measure("validation", chosen)
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
    choose()
    if options.record:
        compare: list[str | Path] = [PYTHON, "-m", "experiments.compare", options.record]
        where = FOLDER / options.record
        tell(
            where.with_suffix(".txt"),
            *(*compare, "--effort", "1", "3", "10", "--linked", "-o", where.with_suffix(".json")),
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
