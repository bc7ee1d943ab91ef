# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An evolution strategy for the weights of a policy that decides in register allocation.

It compiles modules of the training programs (`python3 -m programs.corpus training`) at -O2, and
compares with LLVM what their spills, reloads and copies cost. It prints the weights whenever they
are better than before.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np

from mlbridge.spills import spill_costs

CORPUS = Path(__file__).resolve().parents[2] / "build" / "programs" / "corpus"
#: Seconds for one module; bytes of a module.
LIMIT, LARGEST = 60, 600_000
Weights = dict[str, float]


@dataclass(frozen=True)
class Policy:
    plugin: str
    #: The beginning of the plugin's options.
    option: str
    #: What weights can be given to.
    names: Sequence[str]
    #: Writes networks with these weights into a folder: the URI.
    save: Callable[[Weights, Path], str]


@dataclass(frozen=True)
class Measured:
    """A module, or the functions of it that are compiled with each policy."""

    program: str
    #: None if there are no such functions.
    module: Path | None
    #: The cost with LLVM of these functions, and of the module's others.
    cost: float
    others: float = 0


#: What is compiled with each policy of a module, whose functions cost this with LLVM; None if the
#: module can't be compiled in time. The second number is for files of its own.
Selection = Callable[[Path], "tuple[Path | None, float, float] | None"]


def llc(
    policy: Policy, module: Path, model: str | None, effort: int = 0
) -> dict[str, float] | None:
    """What spills cost in each function, with LLVM if there is no model; None if the module can't
    be compiled in time."""
    from mlbridge import files

    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record.yaml"
        command = ["llc-22", "-O2", "-relocation-model=pic", "-filetype=null", str(module)]
        command += [f"-pass-remarks-output={record}", "-pass-remarks-filter=regalloc", "-o", "-"]
        if model is not None:
            own = {"model": model, "on-failure": "fail", "effort": effort}
            command += ["-load", files.plugin(policy.plugin)]
            command += [f"-{policy.option}-{name}={value}" for name, value in own.items()]
        try:
            done = subprocess.run(command, capture_output=True, timeout=LIMIT, check=False)
        except subprocess.TimeoutExpired:
            return None
        return None if done.returncode else spill_costs(record)


def sample(folder: Path, select: Selection, most: int) -> list[Measured]:
    """Modules of the training programs as the middle end at -O2 leaves them, at most so many of a
    program."""
    from tqdm import tqdm

    from mlbridge import corpus

    training = corpus.open(CORPUS).part("training")
    of_program: Counter[str] = Counter()
    found: list[Measured] = []
    for stored in tqdm(training, unit="module", file=sys.stderr):
        if of_program[stored.program] == most:
            continue
        source, module = folder / "source.bc", folder / f"{stored.hash}.bc"
        source.write_bytes(training.read(stored))
        subprocess.run(["opt-22", "-passes=default<O2>", source, "-o", module], check=True)
        if module.stat().st_size > LARGEST or (selected := select(module)) is None:
            continue
        of_program[stored.program] += 1
        found.append(Measured(stored.program, *selected))
    return found


def ratios(
    policy: Policy, modules: list[Measured], weights: Weights, effort: int, folder: Path
) -> dict[str, float]:
    """The cost of each program over that with LLVM; one is added to both, so that there is a
    ratio."""
    uri = policy.save(weights, folder)

    def cost(measured: Measured) -> float:
        if measured.module is None:
            return measured.others
        costs = llc(policy, measured.module, uri, effort)
        found = 2 * measured.cost if costs is None else sum(costs.values())
        return measured.others + found

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        costs = list(pool.map(cost, modules))
    mine: defaultdict[str, float] = defaultdict(float)
    usual: defaultdict[str, float] = defaultdict(float)
    for module, spent in zip(modules, costs, strict=True):
        mine[module.program] += spent
        usual[module.program] += module.cost + module.others
    return {program: (mine[program] + 1) / (usual[program] + 1) for program in usual}


def value(found: Mapping[str, float]) -> float:
    """The mean logarithm, where no program counts for more than a gain of a third, and half of what
    it loses above 5 % counts once more."""
    logs = [math.log(ratio) for ratio in found.values()]
    return sum(max(x, -0.4) + 0.5 * max(0.0, x - 0.05) for x in logs) / len(logs)


def search(
    policy: Policy,
    modules: list[Measured],
    start: Weights,
    minutes: float,
    effort: int,
    folder: Path,
) -> None:
    """A (1+1) evolution strategy: some weights are changed at random, or removed, there or the
    opposite way; steps grow when that helps."""
    rng = np.random.default_rng(0)
    names = policy.names
    best = np.array([start.get(name, 0.0) for name in names])

    def tried(weights: Any) -> float:
        stated = {n: round(float(w), 3) for n, w in zip(names, weights, strict=True) if w}
        found = ratios(policy, modules, stated, effort, folder)
        loss = value(found)
        worst = max(found, key=found.__getitem__)
        note = f"{geometric_mean(found.values()):.4f}, at most {found[worst]:.3f} ({worst})"
        print(f"{loss:+.5f}: {note} {json.dumps(stated) if loss < lowest else ''}", flush=True)
        return loss

    lowest = math.inf
    lowest = tried(best)
    until, step = time.monotonic() + 60 * minutes, 0.6
    while time.monotonic() < until:
        chosen = rng.random(len(names)) < 0.15
        change = chosen * (-best if rng.random() < 0.25 else step * rng.standard_normal(len(names)))
        if not change.any():
            continue
        better = False
        for sign in (1, -1):
            if (loss := tried(best + sign * change)) < lowest:
                best, lowest, better = best + sign * change, loss, True
                break
        step = min(1.5, max(0.08, step * (1.25 if better else 0.93)))


def arguments(description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("what", choices=["make", "search"])
    parser.add_argument("--minutes", type=float, default=60, help="of the search")
    parser.add_argument("--effort", type=int, default=0, help="with which policies are compared")
    parser.add_argument("--modules", type=int, default=20, help="at most, of a program")
    return parser.parse_args()
