# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The best fixed order of groups on the training set: what the policy has to beat.

    python models/phase-ordering-size/fixed_orders.py --minutes 10

The orders of seed-orders.json, random orders, then an evolution of the best so far (change, insert,
remove, swap groups). Stock clang compiles 25 training files with each, and more while an order may
be the best; the best few are compared on validation files as well. Writes best-fixed-order.json,
and orders.json with all of them to the work folder.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from itertools import pairwise
from typing import Any

from bridge import Bridge, Episode
from corpus import FIXED_ORDER, HERE, WORK, ActionList, File, interleaved, load, load_actions
from tqdm import tqdm

Sequence = tuple[int, ...]
FAILED = 0.5  # log size of an order that crashes or runs too long
BLOCK = 25  # files
MARGINS = (0.004, 0.0025, 0.0015)  # how much worse than the best so far, after so many blocks


def seed_orders() -> list[Sequence]:
    """Orders that were found good on one file or another."""
    listed = json.loads((HERE / "seed-orders.json").read_text())
    return [tuple(order) for order in listed["orders"]]


class Measurer:
    """Measures orders by true size, on few files unless an order may be the best."""

    def __init__(self, files: list[File], bridge: Bridge, stop: int) -> None:
        self.files = files
        self.measured = 0  # compilations
        self._blocks = [files[first : first + BLOCK] for first in range(0, len(files), BLOCK)]
        self._bridge = bridge
        self._stop = stop
        self._known: dict[Sequence, list[list[float]]] = {}

    def __len__(self) -> int:
        """How many orders were measured."""
        return len(self._known)

    def __contains__(self, order: Sequence) -> bool:
        """Whether it was measured."""
        return order in self._known

    def mean(self, order: Sequence, blocks: int | None = None) -> float:
        """The mean log size over -Oz, of all files it was measured with or of the first blocks."""
        values = [value for block in self._known[order][:blocks] for value in block]
        return sum(values) / len(values)

    def finished(self) -> list[Sequence]:
        """The orders that were measured with all files, best first."""
        whole = [o for o, blocks in self._known.items() if len(blocks) == len(self._blocks)]
        return sorted(whole, key=lambda order: (self.mean(order), len(order)))

    def measure(self, orders: list[Sequence]) -> None:
        """Each with the first block of files, and with a further one while it may be the best."""
        for order in orders:
            self._known[order] = []
        for number, block in enumerate(self._blocks):
            if number and (whole := self.finished()):
                limit = self.mean(whole[0], number) + MARGINS[min(number, len(MARGINS)) - 1]
                orders = [order for order in orders if self.mean(order) <= limit]
            sizes: dict[Sequence, list[float]] = {order: [] for order in orders}
            asked = [Episode(f, forced=(*order, self._stop)) for order in orders for f in block]
            for episode in self._bridge.run(asked):
                log_size = FAILED if episode.size is None else math.log(max(episode.ratio, 1e-3))
                sizes[episode.forced[:-1]].append(log_size)
            self.measured += len(asked)
            for order, found in sizes.items():
                self._known[order].append(found)

    def table(self) -> list[dict[str, Any]]:
        """All orders, for a file."""
        return [
            {"order": order, "files": sum(map(len, blocks)), "mean": round(self.mean(order), 6)}
            for order, blocks in self._known.items()
        ]


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


def best_order(options: argparse.Namespace, actions: ActionList, bridge: Bridge) -> dict[str, Any]:
    """The best order found, and how it was found."""
    generator = random.Random(options.seed)
    files = interleaved(load("training"), options.seed + 11, options.low, options.high)
    measurer = Measurer(files[: options.files], bridge, actions.stop)
    shuffled: list[Sequence] = []
    while len(shuffled) < options.random:
        order = tuple(generator.choices(range(actions.stop), k=generator.randint(4, 10)))
        if valid(order, options.length) and order not in shuffled:
            shuffled.append(order)
    begin = time.monotonic()
    measurer.measure([order for order in seed_orders() if order not in shuffled])
    measurer.measure(shuffled)
    random_mean = math.exp(sum(measurer.mean(o, 1) for o in shuffled) / len(shuffled))
    with tqdm(total=options.least, unit="order") as bar:
        while time.monotonic() - begin < 60 * options.minutes or len(measurer) < options.least:
            parents = measurer.finished()[: options.keep]
            batch: set[Sequence] = set()
            while len(batch) < options.batch:
                order = mutate(generator.choice(parents), actions.stop, generator)
                if valid(order, options.length) and order not in measurer:
                    batch.add(order)
            measurer.measure(sorted(batch))
            best = measurer.finished()[0]
            bar.n = len(measurer)
            bar.set_postfix_str(f"best {math.exp(measurer.mean(best)):.4f}: {best}")
            (WORK / "orders.json").write_text(json.dumps(measurer.table()) + "\n")
    finalists = measurer.finished()[: options.finalists]
    others = interleaved(load("validation"), options.seed, options.low, options.high)
    check = Measurer(others[:BLOCK], bridge, actions.stop)
    check.measure(finalists)
    best = min(finalists, key=lambda order: measurer.mean(order) + check.mean(order))
    return {
        "order": list(best),
        "names": [actions.names[a] for a in best],
        "orders_tried": len(measurer),
        "compilations": measurer.measured,
        "training_files": len(measurer.files),
        "training_over_oz": round(math.exp(measurer.mean(best)), 4),
        "validation_files": len(check.files),
        "validation_over_oz": round(math.exp(check.mean(best)), 4),
        "random_orders": len(shuffled),
        "random_over_oz": round(random_mean, 4),
        "seed": options.seed,
        "minutes": round((time.monotonic() - begin) / 60, 1),
    }


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", type=int, default=100, help="training files")
    parser.add_argument("--least", type=int, default=500, help="orders, however long it takes")
    parser.add_argument("--low", type=int, default=400, help="skip smaller files (-Oz bytes)")
    parser.add_argument("--high", type=int, default=12000, help="skip larger files")
    parser.add_argument("--length", type=int, default=12)
    parser.add_argument("--random", type=int, default=100, help="random orders to begin with")
    parser.add_argument("--keep", type=int, default=8, help="best orders that are changed")
    parser.add_argument("--finalists", type=int, default=8, help="orders compared on validation")
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    WORK.mkdir(parents=True, exist_ok=True)
    actions = load_actions()
    with Bridge(actions, max_steps=options.length, jobs=options.jobs) as bridge:
        result = best_order(options, actions, bridge)
    FIXED_ORDER.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
