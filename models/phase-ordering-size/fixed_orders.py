# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The best fixed order of groups on the training set: what the policy has to beat.

    python models/phase-ordering-size/fixed_orders.py --minutes 10

Random orders, orders that search.py found (seed-orders.json), then an evolution of the best so far
(change, insert, remove, swap groups), all measured by true size on the same training files; the
best few are measured again on more files. Writes best-fixed-order.json, and orders.json with all of
them to the work folder.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from corpus import FIXED_ORDER, HERE, WORK, File, interleaved, load, load_actions
from experience import Sequence, Tree
from search import Lookahead, build_tool

FAILED = 0.5  # log size of an order that crashes or runs too long


def seed_orders() -> list[Sequence]:
    """Orders that search.py found good on one file or another."""
    listed = json.loads((HERE / "seed-orders.json").read_text())
    return [tuple(order) for order in listed["orders"]]


class Measurer:
    """Keeps a look-ahead process for each file, so that equal modules are compiled once."""

    def __init__(self, files: list[File], jobs: int) -> None:
        self.files = files
        self._open = [Lookahead(file) for file in files]
        self._pool = ThreadPoolExecutor(jobs)

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown()
        for ahead in self._open:
            ahead.__exit__()

    def measure(self, orders: list[Sequence]) -> dict[Sequence, float]:
        """The mean log size over -Oz of each order."""

        def one(ahead: Lookahead) -> list[float]:
            tree = Tree(ahead.file.program, ahead.file.name, ahead.file.oz_text)
            ahead.run(orders, tree)
            sizes = [tree.states[o].size if o in tree.states else None for o in orders]
            return [
                FAILED if size is None else math.log(max(size, 1) / ahead.file.oz_text)
                for size in sizes
            ]

        columns = list(self._pool.map(one, self._open))
        return {
            order: sum(column[k] for column in columns) / len(columns)
            for k, order in enumerate(orders)
        }


def valid(order: Sequence, longest: int) -> bool:
    """Short enough, and no group follows itself."""
    return 0 < len(order) <= longest and all(a != b for a, b in pairwise(order))


def mutate(order: Sequence, groups: int, generator: random.Random) -> Sequence:
    """A neighbour: one or two small changes."""
    changed = list(order)
    for _ in range(generator.choice((1, 1, 2))):
        place = generator.randint(0, len(changed))
        kind = generator.random()
        if kind < 0.4:
            changed.insert(place, generator.randrange(groups))
        elif kind < 0.7 and changed:
            changed[place % len(changed)] = generator.randrange(groups)
        elif kind < 0.85 and changed:
            del changed[place % len(changed)]
        elif len(changed) > 1:
            other = generator.randrange(len(changed))
            place %= len(changed)
            changed[place], changed[other] = changed[other], changed[place]
    return tuple(changed)


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", type=int, default=30, help="training files of the search")
    parser.add_argument("--final-files", type=int, default=120, help="for the best orders")
    parser.add_argument("--low", type=int, default=500, help="skip smaller files (-Oz bytes)")
    parser.add_argument("--high", type=int, default=4000, help="skip larger files")
    parser.add_argument("--length", type=int, default=11)
    parser.add_argument("--random", type=int, default=40, help="random orders to begin with")
    parser.add_argument("--keep", type=int, default=6, help="best orders that are changed")
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    build_tool()
    WORK.mkdir(parents=True, exist_ok=True)
    actions = load_actions()
    generator = random.Random(options.seed)
    files = interleaved(load("training"), options.seed + 11, options.low, options.high)
    measurer = Measurer(files[: options.files], options.jobs)
    shuffled: list[Sequence] = []
    while len(shuffled) < options.random:
        order = tuple(generator.choices(range(actions.stop), k=generator.randint(4, 10)))
        if valid(order, options.length):
            shuffled.append(order)
    known = measurer.measure(shuffled)
    random_mean = math.exp(sum(known[order] for order in shuffled) / len(shuffled))
    known.update(measurer.measure(seed_orders()))
    begin = time.monotonic()
    while time.monotonic() - begin < 60 * options.minutes:
        ranked = sorted(known, key=lambda order: (known[order], len(order)))[: options.keep]
        batch: set[Sequence] = set()
        while len(batch) < options.batch:
            order = mutate(generator.choice(ranked), actions.stop, generator)
            if valid(order, options.length) and order not in known:
                batch.add(order)
        known.update(measurer.measure(sorted(batch)))
        best = min(known, key=lambda order: (known[order], len(order)))
        print(
            f"{len(known)} orders, {time.monotonic() - begin:.0f} s, best "
            f"{math.exp(known[best]):.4f}: {best}",
            flush=True,
        )
        text = json.dumps([[list(order), round(value, 6)] for order, value in known.items()])
        (WORK / "orders.json").write_text(text + "\n")
    measurer.close()
    finalists = sorted(known, key=lambda order: known[order])[:12]
    finalists += [order for order in seed_orders() if order not in finalists]
    check = Measurer(files[: options.final_files], options.jobs)
    final = check.measure(finalists)
    check.close()
    best = min(final, key=lambda order: (final[order], len(order)))
    result = {
        "order": list(best),
        "names": [actions.names[a] for a in best],
        "orders_tried": len(known),
        "training_files": len(measurer.files),
        "training_over_oz": round(math.exp(known[best]), 4),
        "final_files": len(check.files),
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
