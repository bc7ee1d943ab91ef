# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps a second of environments over stock opt, beside the passes alone and a gym that starts opt
for each step.

    run.py [--modules N] [--rounds N] [--build FOLDER]

All ways play the same actions on the same modules, which are of the validation programs. The floor
is one opt that copies the module, runs the groups and generates code after each, as the environment
does for its reward; `passes` generates none. Writes build/bench/gym.json.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from shared import parser, report

from mlbridge import files
from mlbridge.gym import PhaseOrdering
from programs.corpus import extracted

STEPS = 12
WORKERS = (1, 2, 4)
PLACES = {
    "unix": "unix:{folder}/e",
    "shm": "shm:{folder}/e",
    "pipe": "pipe:{folder}/e",
    "pipe, json": "pipe:{folder}/e?serdes=json",
    "grpc": "grpc:localhost:{port}",
}
PORT = 23711  # and as many more as there are environments


def actions(choices: int) -> list[int]:
    """None twice in a row, none of them stop."""
    generator, chosen = random.Random(1), [0]
    while len(chosen) < STEPS:
        if (action := generator.randrange(choices - 1)) != chosen[-1]:
            chosen.append(action)
    return chosen


def played(env: PhaseOrdering, module: Path, sequence: list[int]) -> int:
    """An episode; its steps."""
    env.reset(options={"unit": str(module), "seed": 0})
    for action in sequence:
        env.step(action)
    return len(sequence)


def in_turns(env: PhaseOrdering, modules: list[Path], sequence: list[int]) -> float:
    """Steps a second of one environment, once it is warm."""
    for module in modules:
        played(env, module, sequence)
    start = time.perf_counter()
    steps = sum(played(env, module, sequence) for module in modules)
    return steps / (time.perf_counter() - start)


def one(place: str, modules: list[Path], sequence: list[int]) -> float:
    """An environment over a transport."""
    with tempfile.TemporaryDirectory(prefix="mlbridge-bench-") as folder:
        env = PhaseOrdering(modules, max_steps=STEPS)
        env._session._worker.address = place.format(folder=folder, port=PORT)
        with closing(env):
            return in_turns(env, modules, sequence)


def several(count: int, place: str, modules: list[Path], sequence: list[int]) -> float:
    """So many at once, a thread of this process for each."""
    with tempfile.TemporaryDirectory(prefix="mlbridge-bench-") as folder, ExitStack() as stack:
        envs = []
        for number in range(count):
            env = stack.enter_context(closing(PhaseOrdering(modules, max_steps=STEPS)))
            address = place.format(folder=folder, port=PORT + number)
            env._session._worker.address = address.replace("/e", f"/e{number}")
            envs.append(env)
        with ThreadPoolExecutor(count) as pool:
            return sum(pool.map(lambda env: in_turns(env, modules, sequence), envs))


def alone(build: Path, modules: list[Path], sequence: list[int], *options: str) -> float:
    """The passes in one opt for each module, without environment or driver."""
    plugin = build / "lib/mlbridge/bare-phase-ordering.so"
    steps, nanoseconds, episodes = 0, 0.0, 3
    for module in modules:
        command = ["opt-22", "-load-pass-plugin", str(plugin), "-passes=default<Oz>"]
        command += [f"-bare-phase-ordering={','.join(map(str, sequence))}", "-disable-output"]
        command += [f"-bare-phase-ordering-episodes={episodes}", *options, str(module)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        nanoseconds += float(done.stdout)
        steps += episodes * len(sequence)
    return steps / (nanoseconds / 1e9)


def a_process_each(modules: list[Path], sequence: list[int], groups: list[str]) -> float:
    """Starts opt and llc for each step, on files."""
    start, steps = time.perf_counter(), 0
    with tempfile.TemporaryDirectory(prefix="mlbridge-bench-") as folder:
        for module in modules[:3]:
            before = module
            for action in sequence:
                after = Path(folder) / f"{steps}.bc"
                run = ["opt-22", f"-passes={groups[action]}", str(before), "-o", str(after)]
                subprocess.run(run, check=True)
                generate = ["llc-22", "-filetype=obj", "-relocation-model=pic", str(after)]
                subprocess.run([*generate, "-o", f"{folder}/out.o"], check=True)
                before = after
                steps += 1
    return steps / (time.perf_counter() - start)


def main() -> int:
    """Measure, write, print."""
    arguments = parser(__doc__)
    arguments.add_argument("--modules", type=int, default=12)
    arguments.add_argument("--rounds", type=int, default=5)
    options = arguments.parse_args()
    listed = sorted(extracted("validation"), key=lambda pair: (pair[0].bytes, pair[0].name))
    modules = [path for _, path in random.Random(1).sample(listed, options.modules)]
    groups = json.loads(Path(files.action_list("phase-ordering")).read_text())["actions"]
    sequence = actions(len(groups) + 1)
    ways: dict[str, Callable[[], float]] = {
        "floor: passes and code, one opt": lambda: alone(
            options.build, modules, sequence, "-bare-phase-ordering-code-size"
        ),
        "passes alone, one opt": lambda: alone(options.build, modules, sequence),
        "opt and llc for each step": lambda: a_process_each(
            modules, sequence, [group["passes"] for group in groups]
        ),
    }
    for name, place in PLACES.items():
        ways[f"environment, {name}"] = partial(one, place, modules, sequence)
    for count in WORKERS:
        for name in ("grpc", "pipe"):
            ways[f"{count} workers, {name}"] = partial(
                several, count, PLACES[name], modules, sequence
            )
    rates: dict[str, list[float]] = {name: [] for name in ways}
    with tqdm(total=options.rounds * len(ways), desc="gym", unit="turn") as bar:
        for _ in range(options.rounds):
            for name, measure in ways.items():
                rates[name].append(measure())
                bar.update()
    floor = rates["floor: passes and code, one opt"]
    rows: list[dict[str, Any]] = [
        {
            "way": name,
            "steps_per_second": round(statistics.median(found), 1),
            "over_floor": round(
                statistics.median(a / b for a, b in zip(found, floor, strict=True)), 3
            ),
            "seconds_for_500_steps": round(500 / statistics.median(found), 2),
            "seconds_an_episode": round(STEPS / statistics.median(found), 3),
        }
        for name, found in rates.items()
    ]
    report(
        "gym",
        rows,
        "Steps of an environment",
        "The same actions on the same modules of the validation programs. Each step runs a group of"
        " passes on a module and generates code for the reward; the floor does both in one opt"
        " without environment or driver. Medians of rounds; a ratio is that of the rates in one"
        " round.",
        rows,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
