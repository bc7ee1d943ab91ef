# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The policy of models/polly-tiling.

    tools/polly_policy.py build      programs of the training kernels in build/polly/training
    tools/polly_policy.py measure    their times
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import training_nests
from common import BUILD
from tile_times import BENCH, USUAL, Kernel, build_all, measure, usual_ways

TRAINING, UNSEEN = BUILD / "polly" / "training", BUILD / "polly" / "unseen"


def training(count: int) -> list[Kernel]:
    return [
        Kernel(f"{seed} ({training_nests.family(seed)})", training_nests.kernel(seed),
               TRAINING / str(seed))
        for seed in range(count)
    ]  # fmt: skip


def unseen() -> list[Kernel]:
    return [
        Kernel(path.stem, path.read_text().replace("../kernel.h", "kernel.h"), UNSEEN / path.stem)
        for path in sorted((BENCH / "kernels").glob("*.c"))
    ]


def main() -> int:
    from mlbridge import files

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=["build", "measure", "fit", "evaluate"])
    parser.add_argument("--unseen", action="store_true", help="those of bench/polly instead")
    parser.add_argument("--kernels", type=int, default=264)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--milliseconds", type=int, default=12, help="of a program in a round")
    parser.add_argument("--seconds", type=float, default=1e9, help="to measure at most; go on later")
    parser.add_argument("--plugin", default=files.plugin("polly-tiling"))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    kernels = unseen() if options.unseen else training(options.kernels)
    if options.what == "build":
        build_all(kernels, usual_ways(options.plugin), USUAL, options.jobs)
    if options.what == "measure":
        made = [kernel for kernel in kernels if kernel.made["ways"]]
        done = measure(made, options.rounds, options.milliseconds, options.seconds)
        print("measured" if done else "not done yet")
    return 0


if __name__ == "__main__":
    sys.exit(main())
