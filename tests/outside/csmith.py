# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random programs by Csmith (Yang et al., PLDI 2011), compiled by the stock compiler and with each
optimization, and run.

    csmith.py [--first SEED] [--count N] [--report FILE]

Seed N is always the same program, compiled in the same way. What is wrong is reduced.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from compare import UNFIT, Verdict, again, clean, compare
from reduce import quoted, reduce
from tally import BAD, Tally, save
from tqdm import tqdm
from ways import Configuration, ways

SUITE = "csmith"
#: Options of the compiler, of which a program takes some.
OPTIONS = ("-fPIC", "-g", "-fno-strict-aliasing", "-fwrapv", "-fstack-protector-strong",
           "-fno-omit-frame-pointer", "-mcmodel=large", "-fno-plt", "-ffunction-sections",
           "-march=x86-64-v3", "-fno-unroll-loops", "-fno-inline-functions")  # fmt: skip
#: Options of Csmith, of which a program takes some; by default they are large and slow.
KINDS = ("--float", "--no-packed-struct", "--no-bitfields", "--no-volatiles", "--no-jumps",
         "--inline-function", "--no-unions", "--no-pointers", "--builtins")  # fmt: skip
LARGEST = 120_000  # bytes of a program
REDUCING = 600.0  # seconds
REDUCED = 5  # no more than that many


def generate(seed: int, target: Path) -> None:
    """Writes the program of this seed."""
    drawn = random.Random(f"kind {seed}")
    kinds = [kind for kind in KINDS if drawn.random() < 0.2]
    sizes = ["--max-funcs", str(drawn.randint(1, 6)), "--max-block-size", str(drawn.randint(2, 4))]
    for more in range(100):  # another of the same kind, if it is too large
        number = str(seed * 100 + more)
        command = ["csmith", "--seed", number, *sizes, *kinds, "--output", str(target)]
        # It leaves a file in the current folder.
        done = subprocess.run(
            command, cwd=target.parent, capture_output=True, timeout=60, check=False
        )
        if done.returncode == 0 and target.stat().st_size <= LARGEST:
            return
    raise RuntimeError(f"Csmith makes no program of seed {seed}: {done.stderr!r}")


def chosen(seed: int, only: Sequence[str] = ()) -> tuple[Configuration, str, list[str]]:
    """How the program of this seed is compiled."""
    drawn = random.Random(f"way {seed}")
    all_ways = ways(seed % 100, only=only)
    way = all_ways[seed % len(all_ways)]
    return way, drawn.choice(way.levels), [o for o in OPTIONS if drawn.random() < 0.12]


def check(seed: int, folder: Path, only: Sequence[str]) -> Verdict:
    source = folder / "program.c"
    generate(seed, source)
    way, level, options = chosen(seed, only)
    verdict = compare(way, level, source, options, folder)
    # Some programs never end, which clang may take for granted that they do.
    if verdict.kind == "wrong" and not clean(source, folder):
        return Verdict(UNFIT, "it doesn't end, or its behaviour is undefined")
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--only", nargs="+", metavar="OPTIMIZATION[/WAY]", default=[])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--report", type=Path, help="file of the counts")
    arguments = parser.parse_args()
    if not shutil.which("csmith"):
        sys.exit("csmith is missing: apt-get install csmith libcsmith-dev (make setup does)")
    tallies: dict[str, Tally] = {}
    unfit = reduced = 0
    seeds = range(arguments.first, arguments.first + arguments.count)
    if not ways(0, only=arguments.only):
        parser.error(f"--only {' '.join(arguments.only)}: no optimization has these names")
    for way in ways(0, only=arguments.only):
        tallies.setdefault(way.optimization, Tally(SUITE, way.optimization))

    def one(seed: int) -> tuple[int, Verdict]:
        with tempfile.TemporaryDirectory() as temporary:
            return seed, check(seed, Path(temporary), arguments.only)

    with ThreadPoolExecutor(arguments.jobs) as workers:
        for seed, verdict in tqdm(
            workers.map(one, seeds), total=len(seeds), unit="program", disable=None
        ):
            way, level, options = chosen(seed, arguments.only)
            tally = tallies[way.optimization]
            if verdict.kind == UNFIT:
                unfit += 1
                continue
            tally.programs += 1
            if verdict.kind in ("changed", *BAD):
                tally.changed += 1
            if verdict.kind == "refused":
                tally.refused += 1
            if verdict.kind not in BAD:
                continue
            with tempfile.TemporaryDirectory() as temporary:
                source = Path(temporary) / "program.c"
                generate(seed, source)
                command = again(way, seed % 100, level, options)
                folder = tally.bad(verdict.kind, f"{way.name}-{seed}", command, source)
                print(verdict.why, flush=True)
                if reduced < REDUCED:
                    reduced += 1
                    test = quoted(command, f"--expect={verdict.kind}")
                    small = reduce(source, test, folder, REDUCING, arguments.jobs)
                    print(f"reduced: {command.format(small)}", flush=True)
    print(
        f"{unfit} of {len(seeds)} programs weren't counted: they take too long, or aren't compiled"
    )
    return 0 if save([t for t in tallies.values() if t.programs], arguments.report) else 1


if __name__ == "__main__":
    sys.exit(main())
