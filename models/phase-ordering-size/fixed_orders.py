# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The best fixed order of groups on the training set: what the policy has to beat.

    python models/phase-ordering-size/fixed_orders.py

A beam search that lengthens orders group by group, and random orders, all on the same sample of
training files by true size; the best few are measured again on more files. Writes
best-fixed-order.json.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from corpus import FIXED_ORDER, File, interleaved, load, load_actions
from experience import Sequence, Tree
from search import Lookahead, build_tool
from tqdm import tqdm

FAILED = 0.5  # log size of an order that crashes or runs too long


def measure(files: list[File], orders: list[Sequence], jobs: int) -> dict[Sequence, float]:
    """The mean log size over -Oz of each order."""

    def one(file: File) -> list[float]:
        tree = Tree(file.program, file.name, file.oz_text)
        with Lookahead(file) as ahead:
            ahead.run(orders, tree)
        states = [tree.states.get(order) for order in orders]
        return [
            FAILED
            if state is None or state.size is None
            else math.log(max(state.size, 1) / file.oz_text)
            for state in states
        ]

    with ThreadPoolExecutor(jobs) as pool:
        columns = list(tqdm(pool.map(one, files), total=len(files), unit="file", leave=False))
    return {
        order: sum(column[k] for column in columns) / len(files) for k, order in enumerate(orders)
    }


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", type=int, default=16, help="training files of the search")
    parser.add_argument("--final-files", type=int, default=80, help="for the best orders")
    parser.add_argument("--high", type=int, default=2500, help="skip larger files (-Oz bytes)")
    parser.add_argument("--beam", type=int, default=3)
    parser.add_argument("--length", type=int, default=8)
    parser.add_argument("--random", type=int, default=100, help="random orders")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    build_tool()
    actions = load_actions()
    generator = random.Random(options.seed)
    files = interleaved(load("training"), options.seed + 11, 200, options.high)
    sample, more = files[: options.files], files[: options.final_files]
    known: dict[Sequence, float] = {}
    beam: list[Sequence] = [()]
    groups = list(range(actions.stop))
    begin = time.monotonic()
    for length in range(options.length):
        orders = [(*s, a) for s in beam for a in groups if not s or a != s[-1]]
        known.update(measure(sample, orders, options.jobs))
        beam = sorted(orders, key=lambda order: known[order])[: options.beam]
        if length == 0:  # groups that help nowhere on their own stay out of later positions
            groups = sorted(groups, key=lambda a: known[(a,)])[: max(24, len(groups) // 2)]
        best = min(known, key=lambda order: (known[order], len(order)))
        print(
            f"{len(known)} orders, {time.monotonic() - begin:.0f} s, best "
            f"{math.exp(known[best]):.4f}: {actions.spell(best)}",
            flush=True,
        )
    shuffled = [
        tuple(generator.choices(range(actions.stop), k=generator.randint(4, 10)))
        for _ in range(options.random)
    ]
    known.update(measure(sample, shuffled, options.jobs))
    finalists = sorted(known, key=lambda order: known[order])[:12]
    final = measure(more, finalists, options.jobs)
    best = min(final, key=lambda order: (final[order], len(order)))
    random_mean = math.exp(sum(known[order] for order in shuffled) / max(1, len(shuffled)))
    result = {
        "order": list(best),
        "names": [actions.names[a] for a in best],
        "orders_tried": len(known),
        "training_files": len(sample),
        "training_over_oz": round(math.exp(known[best]), 4),
        "final_files": len(more),
        "final_over_oz": round(math.exp(final[best]), 4),
        "random_orders": len(shuffled),
        "random_over_oz": round(random_mean, 4),
        "seed": options.seed,
    }
    FIXED_ORDER.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
