# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measure the same few dozen good orders on many training files, by true size.

    python models/phase-ordering-size/portfolio.py --minutes 15

portfolio.json lists beginnings and endings (and some whole orders) that search.py found good on one
file or another; each beginning is measured with each ending. As every file knows the same
alternatives, a policy that weighs them learns what pays on average and what only now and then. What
was found goes to experience-*.jsonl.gz in the work folder.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from corpus import HERE, WORK, File, interleaved, load
from experience import Sequence, Tree, line
from search import Lookahead, build_tool
from tqdm import tqdm

PORTFOLIO = HERE / "portfolio.json"


def orders_of(path: Path = PORTFOLIO) -> list[Sequence]:
    """Every beginning alone and with every ending, and the whole orders."""
    listed = json.loads(path.read_text())
    starts = [tuple(start) for start in listed["starts"]]
    tails = [tuple(tail) for tail in listed["tails"]]
    orders = {(), *starts, *(tuple(order) for order in listed["orders"])}
    orders |= {start + tail for start in starts for tail in tails if start[-1] != tail[0]}
    return sorted(orders)


def measure(file: File, orders: list[Sequence]) -> Tree:
    """All orders on one file; states on the way are observed but not measured."""
    tree = Tree(file.program, file.name, file.oz_text)
    with Lookahead(file) as ahead:
        ahead.run(orders, tree, observe={o[:k] for o in orders for k in range(len(o))})
    return tree


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--low", type=int, default=120, help="skip smaller files (-Oz bytes)")
    parser.add_argument("--high", type=int, default=5000, help="skip larger files")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    WORK.mkdir(parents=True, exist_ok=True)
    build_tool()
    orders = orders_of()
    files = interleaved(load("training"), options.seed, options.low, options.high)
    end = time.monotonic() + 60 * options.minutes
    target = WORK / f"experience-portfolio-{int(time.time())}.jsonl.gz"

    def one(file: File) -> Tree | None:
        return measure(file, orders) if time.monotonic() < end else None

    done = 0
    with ThreadPoolExecutor(options.jobs) as pool, gzip.open(target, "wt") as out:
        for tree in tqdm(pool.map(one, files), total=len(files), unit="file"):
            if tree is not None:
                done += 1
                out.write(line(tree))
                out.flush()
    print(f"{len(orders)} orders on {done} files: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
