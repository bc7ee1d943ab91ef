# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A simulation of `mlbridge candidates --ray` on up to 100 nodes, from what is measured on one.

    python -m experiments.nodes LIST CORPUS [--modules N] [--ray ADDRESS] [--out FILE]

Measured: the processor's seconds of each trial, the bytes that are sent for it, and, on the cluster
at ADDRESS, the seconds that the machine with the command spends for each trial (with trials that do
nothing). Simulated: nodes of four cores that take trials as mlbridge.cluster gives them out, one
after another, through one network card of a gigabit; durations are drawn from the measured ones.
Nodes are lost at random, and what ran there runs again. Nobody has had 100 nodes.
"""

from __future__ import annotations

import argparse
import heapq
import json
import pickle
import random
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from result_tables import section, table

from mlbridge import candidates, corpus
from mlbridge.trials import Options, Trial, evaluate

ROOT = Path(__file__).resolve().parents[1]
CORES = 4
CARD = 125e6  # bytes in a second
NOTICED = 10.0  # seconds until a lost node is missed
DISPATCH = 2e-3  # seconds for each trial, if no cluster is there to measure it
NODES = (1, 2, 5, 10, 20, 50, 100)


def simulated(
    trials: Sequence[tuple[float, int]],
    nodes: int,
    *,
    dispatch: float,
    count: int,
    hours: float = 0.0,
    seed: int = 0,
) -> tuple[float, int]:
    """The seconds for `count` trials, drawn from (seconds, bytes), on nodes of four cores, and how
    many ran again. A node is lost after `hours` in the mean, if these aren't 0, and comes back when
    it is missed."""
    rng = random.Random(seed)
    drawn = [rng.choice(trials) for _ in range(count)]
    ends = [rng.expovariate(1 / (3600 * hours)) if hours else float("inf") for _ in range(nodes)]
    free = [(0.0, node) for node in range(nodes) for _ in range(CORES)]
    heapq.heapify(free)
    sender = last = 0.0
    again = 0
    waiting = list(reversed(drawn))
    while waiting:
        seconds, size = waiting.pop()
        ready, node = heapq.heappop(free)
        sender = max(sender, ready) + dispatch + size / CARD
        if sender + seconds > ends[node]:  # it is lost before it has answered
            missed = max(ends[node], sender) + NOTICED
            if sender > ends[node] + NOTICED:  # and was back before it was asked
                ends[node] = sender + rng.expovariate(1 / (3600 * hours))
                missed = sender
            again += 1
            waiting.append((seconds, size))
            heapq.heappush(free, (missed, node))
            if missed > ends[node]:
                ends[node] = missed + rng.expovariate(1 / (3600 * hours))
            continue
        last = max(last, sender + seconds)
        heapq.heappush(free, (sender + seconds, node))
    return last, again


def measured(listed: Path, place: str, modules: int) -> list[tuple[float, int]]:
    """The seconds of a processor and the bytes of each trial, one after another on this machine,
    which may be busy with something else too."""
    source = corpus.open(place)
    wanted = candidates.read(listed)
    contents = [
        (module.hash, pickle.dumps((module.program, module.source, wanted, source.read(module))))
        for module in candidates.sample(source, modules)
    ]
    found = []
    for key, content in contents:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        [result] = evaluate(candidates.measured_of, [Trial(key, content)], Options(jobs=1))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
        if not result.error:
            found.append((seconds, len(content)))
    return found


def nothing(trial: Trial) -> None:
    """Evaluates a trial that is only sent."""


def spent(address: str, size: int, count: int = 200) -> float:
    """The seconds for each of many trials of this size that do nothing."""
    trials = [Trial(str(number), bytes(size)) for number in range(count + 20)]
    results = evaluate(nothing, trials, Options(cluster=address), ordered=False)
    start = 0.0
    for number, _ in enumerate(results):
        if number == 19:  # the first wait for processes of Ray's to start
            start = time.perf_counter()
    return (time.perf_counter() - start) / count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("list", type=Path)
    parser.add_argument("corpus")
    parser.add_argument("--modules", type=int, default=8, help="of each program")
    parser.add_argument("--ray", metavar="ADDRESS", help="to measure what each trial costs there")
    parser.add_argument("--trials", type=int, default=20_000, help="that are simulated")
    parser.add_argument("--out", type=Path, default=ROOT / "build/experiments/nodes.json")
    options = parser.parse_args()
    base = measured(options.list, options.corpus, options.modules)
    mean = sum(seconds for seconds, _ in base) / len(base)
    size = sum(size for _, size in base) / len(base)
    dispatch = spent(options.ray, int(size)) if options.ray else DISPATCH
    rows: list[dict[str, Any]] = []
    for nodes in NODES:
        seconds, _ = simulated(base, nodes, dispatch=dispatch, count=options.trials)
        losing, again = simulated(
            base, nodes, dispatch=dispatch, count=options.trials, hours=nodes / 10
        )
        rate = options.trials / seconds
        rows.append({
            "nodes": nodes,
            "trials_a_second": rate,
            "of_the_ideal": rate * mean / (CORES * nodes),
            "ten_losses_an_hour": options.trials / losing,
            "ran_again": again,
        })  # fmt: skip
    report = {"trials": base, "dispatch": dispatch, "simulated": rows}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n")
    how = "measured" if options.ray else "assumed"
    text = (
        f"A **simulation**, from {len(base)} measured trials: {1 / mean:.2f} a second on a core,"
        f" {size / 1024:.1f} KiB sent for each; {1000 * dispatch:.2f} ms of the machine with the"
        f" command for each ({how}). Nodes have {CORES} cores."
    )
    section(options.out, "Candidates on several machines", text, rows)
    print(text, table(rows), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
