# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The best fixed order of groups on the training set: what the policy has to beat.

    python models/phase-ordering-size/fixed_orders.py --minutes 10

The orders of seed-orders.json, random orders, then an evolution of the best so far (change, insert,
remove, swap groups). Stock clang compiles 25 training files with each, and more while an order may
be the best; the best few are compared on validation files as well. Writes best-fixed-order.json.
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

from bridge import MAX_STEPS, Bridge, Episode
from corpus import FIXED_ORDER, HERE, ActionList, File, interleaved, load, load_actions
from tqdm import tqdm

Sequence = tuple[int, ...]
FAILED = 0.5  # log size of an order that crashes or runs too long
BLOCK = 25  # files
FILES = 100  # of the training set
LEAST = 500  # orders, however long it takes
LOW, HIGH = 400, 12000  # the -Oz bytes of a file
RANDOM = 100  # orders to begin with
KEPT = 8  # best orders that are changed, or compared on validation files
BATCH = 24
MARGINS = (0.004, 0.0025, 0.0015)  # how much worse than the best so far, after so many blocks


class Measurer:
    """Measures orders by true size, on few files unless an order may be the best."""

    def __init__(self, files: list[File], bridge: Bridge, stop: int) -> None:
        self.files = files
        self.measured = 0  # compilations
        self._blocks = [files[first : first + BLOCK] for first in range(0, len(files), BLOCK)]
        self._bridge = bridge
        self._stop = stop
        self.known: dict[Sequence, list[list[float]]] = {}  # log sizes of each block

    def mean(self, order: Sequence, blocks: int | None = None) -> float:
        """The mean log size over -Oz, of all files it was measured with or of the first blocks."""
        values = [value for block in self.known[order][:blocks] for value in block]
        return sum(values) / len(values)

    def finished(self) -> list[Sequence]:
        """The orders that were measured with all files, best first."""
        whole = [o for o, blocks in self.known.items() if len(blocks) == len(self._blocks)]
        return sorted(whole, key=lambda order: (self.mean(order), len(order)))

    def measure(self, orders: list[Sequence]) -> None:
        """Each with the first block of files, and with a further one while it may be the best."""
        for order in orders:
            self.known[order] = []
        for number, block in enumerate(self._blocks):
            if number and (whole := self.finished()):
                limit = self.mean(whole[0], number) + MARGINS[min(number, len(MARGINS)) - 1]
                orders = [order for order in orders if self.mean(order) <= limit]
            sizes: dict[Sequence, list[float]] = {order: [] for order in orders}
            asked = [Episode(f, forced=(*order, self._stop)) for order in orders for f in block]
            for episode in self._bridge.run(asked):
                log_size = FAILED if episode.size is None else math.log(episode.ratio)
                sizes[episode.forced[:-1]].append(log_size)
            self.measured += len(asked)
            for order, found in sizes.items():
                self.known[order].append(found)


def valid(order: Sequence) -> bool:
    """Short enough, and no group follows itself."""
    return 0 < len(order) <= MAX_STEPS and all(a != b for a, b in pairwise(order))


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
    files = interleaved(load("training"), options.seed + 11, LOW, HIGH)
    measurer = Measurer(files[:FILES], bridge, actions.stop)
    shuffled: list[Sequence] = []
    while len(shuffled) < RANDOM:
        order = tuple(generator.choices(range(actions.stop), k=generator.randint(4, 10)))
        if valid(order) and order not in shuffled:
            shuffled.append(order)
    begin = time.monotonic()
    found_good = json.loads((HERE / "seed-orders.json").read_text())["orders"]
    measurer.measure([order for order in map(tuple, found_good) if order not in shuffled])
    measurer.measure(shuffled)
    random_mean = math.exp(sum(measurer.mean(o, 1) for o in shuffled) / len(shuffled))
    with tqdm(total=LEAST, unit="order") as bar:
        while time.monotonic() - begin < 60 * options.minutes or len(measurer.known) < LEAST:
            parents = measurer.finished()[:KEPT]
            batch: set[Sequence] = set()
            while len(batch) < BATCH:
                order = mutate(generator.choice(parents), actions.stop, generator)
                if valid(order) and order not in measurer.known:
                    batch.add(order)
            measurer.measure(sorted(batch))
            best = measurer.finished()[0]
            bar.n = len(measurer.known)
            bar.set_postfix_str(f"best {math.exp(measurer.mean(best)):.4f}: {best}")
    finalists = measurer.finished()[:KEPT]
    others = interleaved(load("validation"), options.seed, LOW, HIGH)
    check = Measurer(others[:BLOCK], bridge, actions.stop)
    check.measure(finalists)
    best = min(finalists, key=lambda order: measurer.mean(order) + check.mean(order))
    return {
        "order": list(best),
        "names": [actions.names[a] for a in best],
        "orders_tried": len(measurer.known),
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
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    actions = load_actions()
    with Bridge(actions, jobs=options.jobs) as bridge:
        result = best_order(options, actions, bridge)
    FIXED_ORDER.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
