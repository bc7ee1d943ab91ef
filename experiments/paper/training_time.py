# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How long the environment takes for 500 steps of a training of phase ordering, by runner.

    python3 -m experiments.paper.training_time [--set NAME] [--steps N] [--modules N] [-o FILE]

Figure 5 a of the paper. Every way runs the same groups of passes on the same modules of the
validation programs, in episodes of 45 steps, and rewards each step by the bytes of its code.
`a process each` starts opt and llc for each step, as the published training began. `rewards at the
end` generates code when an episode ends; `left before the end` generates none, as its episodes have
one step more, which isn't taken. `passes alone` is the floor: one opt that runs the groups. What a
trainer does between two steps isn't in it; it is the same for all.
FILE gets the steps a second of each, and how the seconds add up.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from tqdm import tqdm

from experiments.paper.command import keep, parser_of
from mlbridge import files
from mlbridge.gym import PhaseOrdering
from programs.catalog import ROOT
from programs.corpus import extracted

EPISODE = 45
PLACES = {
    "grpc": "grpc:localhost:23731",
    "pipe, json": "pipe:{folder}/e?serdes=json",
    "pipe, bitstream": "pipe:{folder}/e",
    "unix": "unix:{folder}/e",
    "shm": "shm:{folder}/e",
}
BARE = ROOT / "build/cmake/bench/lib/mlbridge/bare-phase-ordering.so"
#: Points of a curve.
POINTS = 50


def chosen(groups: int) -> list[int]:
    """The groups of an episode, none twice in a row."""
    generator, sequence = random.Random(1), [0]
    while len(sequence) < EPISODE:
        if (action := generator.randrange(groups)) != sequence[-1]:
            sequence.append(action)
    return sequence


Steps = Iterator[object]


def environment(
    place: str, rewards: str, modules: list[Path], sequence: list[int], most: int = EPISODE
) -> Steps:
    with tempfile.TemporaryDirectory(prefix="mlbridge-training-") as folder:
        env = PhaseOrdering(modules, max_steps=most, rewards=rewards)
        env._session._worker.address = place.format(folder=folder)
        with closing(env):
            # Warm, as a training is: it has seen its modules before.
            for module in modules:
                env.reset(options={"unit": str(module), "seed": 0})
            while True:
                for module in modules:
                    env.reset(options={"unit": str(module), "seed": 0})
                    for action in sequence:
                        yield env.step(action)


def a_process_each(modules: list[Path], sequence: list[int], groups: list[str]) -> Steps:
    with tempfile.TemporaryDirectory(prefix="mlbridge-training-") as folder:
        while True:
            for module in modules:
                before = module
                for number, action in enumerate(sequence):
                    after = Path(folder) / f"{number % 2}.bc"
                    run = ["opt-22", f"-passes={groups[action]}", str(before), "-o", str(after)]
                    subprocess.run(run, check=True)
                    generate = ["llc-22", "-filetype=obj", "-relocation-model=pic", str(after)]
                    yield subprocess.run([*generate, "-o", f"{folder}/out.o"], check=True)
                    before = after


def passes_alone(modules: list[Path], sequence: list[int]) -> float:
    """Steps a second of the passes in one opt for each module."""
    steps, nanoseconds = 0, 0.0
    for module in modules:
        command = ["opt-22", "-load-pass-plugin", str(BARE), "-passes=default<Oz>"]
        command += [f"-bare-phase-ordering={','.join(map(str, sequence))}", "-disable-output"]
        command += ["-bare-phase-ordering-episodes=3", str(module)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        nanoseconds += float(done.stdout)
        steps += 3 * len(sequence)
    return steps / (nanoseconds / 1e9)


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = parser_of(__doc__, "validation")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--modules", type=int, default=11)
    options = parser.parse_args(arguments)
    listed = sorted(extracted(options.set), key=lambda pair: (pair[0].bytes, pair[0].name))
    modules = [path for _, path in random.Random(1).sample(listed, options.modules)]
    described = json.loads(Path(files.action_list("phase-ordering")).read_text())["actions"]
    groups = [group["passes"] for group in described]
    sequence = chosen(len(groups))
    ways: dict[str, Callable[[], Steps]] = {
        "a process each": partial(a_process_each, modules, sequence, groups)
    }
    for name, place in PLACES.items():
        ways[name] = partial(environment, place, "each", modules, sequence)
    last = partial(environment, PLACES["unix"], "last", modules, sequence)
    ways["unix, rewards at the end"] = last
    ways["unix, left before the end"] = partial(last, EPISODE + 1)
    curves: dict[str, list[tuple[int, float]]] = {}
    every = max(1, options.steps // POINTS)
    with tqdm(total=options.steps * len(ways), desc="training time", unit="step") as bar:
        for name, way in ways.items():
            bar.set_postfix_str(name)
            steps, curve = way(), [(0, 0.0)]
            if not name.startswith("a process"):
                next(steps)  # the compiler has started
            began = time.perf_counter()
            for number in range(1, options.steps + 1):
                next(steps)
                if number % every == 0 or number == options.steps:
                    curve.append((number, round(time.perf_counter() - began, 3)))
                bar.update()
            curves[name] = curve
            del steps
    rates = {name: round(curve[-1][0] / curve[-1][1], 2) for name, curve in curves.items()}
    rates["passes alone"] = round(passes_alone(modules, sequence), 2)
    for name, rate in rates.items():
        print(f"{name}: {rate} steps a second")
    keep({"steps": options.steps, "rates": rates, "curves": curves}, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
