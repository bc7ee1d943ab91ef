# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compare the shipped policy with -Oz, the best fixed order and random orders, file by file.

    python models/phase-ordering-size/evaluate.py [--set demo]

Runs policy.onnx in process in stock clang-22; PyTorch isn't needed. The held-out set is "demo".
Prints a table by program and writes evaluation.json with every file to the work folder.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from bridge import Bridge, Episode, asking_flags, compile_with
from corpus import FIXED_ORDER, POLICY, WORK, ActionList, File, load, load_actions
from tqdm import tqdm

from mlbridge.decisions import read_decisions

RANDOM_LENGTH = (4, 10)
COLUMNS = ("policy", "fixed", "random")


def ask_policy(file: File, actions: ActionList) -> dict[str, Any]:
    """Compile one file with the policy in process."""
    with tempfile.TemporaryDirectory(prefix="evaluate-") as folder:
        flags = asking_flags(f"onnx:{POLICY}", "--log", f"{folder}/log")
        size, error = compile_with(file, Path(folder) / "out.o", flags)
        if size is None:
            raise RuntimeError(f"{file.name}: {error}")
        (modules,) = read_decisions(Path(folder) / "log").actions.values() or [[[]]]
    return {
        "program": file.program,
        "version": file.version,
        "source": file.source,
        "oz_text": file.oz_text,
        "policy_text": size,
        "policy": max(size, 1) / file.oz_text,
        "sequence": [actions.names[a] for a in modules[0] if a != actions.stop],
    }


def random_order(generator: random.Random, actions: ActionList) -> tuple[int, ...]:
    """A random order in which no group follows itself."""
    order: list[int] = []
    for _ in range(generator.randint(*RANDOM_LENGTH)):
        order.append(generator.choice([a for a in range(actions.stop) if order[-1:] != [a]]))
    return tuple(order)


def measure_orders(
    files: list[File], orders: list[tuple[int, ...]], actions: ActionList, jobs: int
) -> dict[tuple[str, tuple[int, ...]], float]:
    """Size over -Oz of each file with each order, asked for over a socket."""
    episodes = [Episode(file, forced=(*order, actions.stop)) for file in files for order in orders]
    ratios = {}
    with Bridge(actions, jobs=jobs) as bridge:
        done = bridge.run(episodes)
        for episode in tqdm(done, total=len(episodes), desc="fixed and random", unit="file"):
            if episode.size is None:
                raise RuntimeError(f"{episode.file.name}: {episode.forced}: {episode.error}")
            ratios[episode.file.name, episode.forced[:-1]] = episode.ratio
    return ratios


def table(rows: list[dict[str, Any]]) -> str:
    """By program, as text: geometric means over the files."""
    lines = [f"{'program':20}{'files':>6}{'policy':>9}{'fixed':>9}{'random':>9}{'worst':>9}"]
    by: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by.setdefault(row["program"], []).append(row)
    by["all"] = rows
    for program, group in by.items():
        means = [geometric_mean([row[k] for row in group]) for k in COLUMNS]
        worst = max(row["policy"] for row in group)
        lines.append(
            f"{program:20}{len(group):6}" + "".join(f"{mean:9.4f}" for mean in (*means, worst))
        )
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--set", default="demo", choices=["training", "validation", "demo"])
    parser.add_argument("--random", type=int, default=5, help="random orders for each file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    actions = load_actions()
    files = load(options.set)
    fixed = json.loads(FIXED_ORDER.read_text())
    generator = random.Random(options.seed)
    order = tuple(fixed["order"])
    others = [random_order(generator, actions) for _ in range(options.random)]
    with ThreadPoolExecutor(options.jobs) as pool:
        work = pool.map(lambda file: ask_policy(file, actions), files)
        rows = list(tqdm(work, total=len(files), desc="policy", unit="file"))
    ratios = measure_orders(files, [order, *others], actions, options.jobs)
    for row, file in zip(rows, files, strict=True):
        row["fixed"] = ratios[file.name, order]
        row["random"] = geometric_mean([ratios[file.name, other] for other in others])
    sequences = [tuple(row["sequence"]) for row in rows]
    summary: dict[str, Any] = {
        "set": options.set,
        "files": len(rows),
        **{f"{k}_over_oz": geometric_mean([r[k] for r in rows]) for k in COLUMNS},
        "policy_total_over_oz": sum(r["policy_text"] for r in rows)
        / sum(r["oz_text"] for r in rows),
        "fixed_order": fixed["names"],
        "fixed_orders_tried": fixed["orders_tried"],
        "distinct_sequences": len(set(sequences)),
        "mean_groups": sum(map(len, sequences)) / len(rows),
        "losses": sum(r["policy"] > 1.0 for r in rows),
        "worst": max(r["policy"] for r in rows),
    }
    WORK.mkdir(parents=True, exist_ok=True)
    target = WORK / ("evaluation.json" if options.set == "demo" else f"{options.set}.json")
    target.write_text(json.dumps({**summary, "rows": rows}, indent=1) + "\n")
    print(table(rows))
    print(
        f"\n{summary['distinct_sequences']} distinct orders, {summary['mean_groups']:.1f} groups "
        f"on average; all bytes {summary['policy_total_over_oz']:.4f} x -Oz; larger than -Oz: "
        f"{summary['losses']} of {len(rows)} files, worst {summary['worst']:.3f}; {target}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
