# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Train a policy with the compilers as servers: long-lived opt processes that this one drives.

    python models/phase-ordering-size/train_driven.py --workers 4 --at "unix:/tmp/w{}"

Policy gradient (REINFORCE with a baseline for each file) on the reward of the plugin's environment:
the part of a module's code that the chosen groups remove. Every worker is stock opt with the plugin
and keeps its process for as many modules as it is given. The same seed gives the same episodes and
the same policy, with any number of workers, whichever of them die in between.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bridge import plugin_path
from corpus import WORK, File, interleaved, load
from network import Policy
from numpy.typing import NDArray
from tqdm import tqdm

from mlbridge import Driver, Workers

FEATURES = 120
ROUND = 16  # episodes with one state of the policy
RATE = 1e-3
ENTROPY = 0.01


@dataclass(frozen=True)
class Task:
    """One episode: a module, and the policy of its round."""

    number: int
    module: str
    policy: Policy


@dataclass
class Played:
    """What was seen, done and gained."""

    task: Task
    inputs: NDArray[np.float32]
    masks: NDArray[np.float32]
    actions: list[int]
    reward: float


def opt(module: Path, at: str, max_steps: int) -> subprocess.Popen[bytes]:
    """A worker: stock opt that waits to be driven."""
    command = ["opt-22", "-load-pass-plugin", str(plugin_path()), "-passes=phase-ordering"]
    command += [f"-phase-ordering-serve={at}", f"-phase-ordering-max-steps={max_steps}"]
    return subprocess.Popen([*command, "-disable-output", str(module)], stdin=subprocess.DEVNULL)


def play(driver: Driver, task: Task, generator: random.Random) -> Played:
    """One episode with sampled actions."""
    observation = driver.reset(task.module)
    inputs, masks, actions, total = [], [], [], 0.0
    while not driver.done:
        mask, history = observation["action_mask"], observation["history"]
        with torch.no_grad():
            row = task.policy.encode(
                torch.from_numpy(observation["features"]),
                torch.from_numpy(history),
                torch.from_numpy(observation["step"]),
            )
            votes = task.policy.log_probabilities(row).double().numpy()
        weights = np.exp(votes - votes.max()) * (mask > 0.5)
        [action] = generator.choices(range(len(weights)), list(weights))
        inputs.append(row.numpy())
        masks.append(mask)
        actions.append(action)
        observation, reward, _ = driver.step(action)
        total += reward
    return Played(task, np.array(inputs), np.array(masks), actions, total)


class Learner:
    """The policy and what it has learnt from."""

    def __init__(self, choices: int, seed: int) -> None:
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        self.policy = Policy(FEATURES, choices, members=1, dropout=0.0).eval()
        self._optimizer = torch.optim.Adam(self.policy.parameters(), lr=RATE)
        self._usual: dict[str, float] = {}

    def learn(self, round_: list[Played]) -> None:
        """One step towards what was better than usual for its module."""
        losses = []
        for played in round_:
            usual = self._usual.setdefault(played.task.module, played.reward)
            self._usual[played.task.module] = 0.7 * usual + 0.3 * played.reward
            votes = self.policy.log_probabilities(torch.from_numpy(played.inputs))
            allowed = torch.log_softmax(
                votes.masked_fill(torch.from_numpy(played.masks) < 0.5, -1e9), dim=-1
            )
            chosen = allowed.gather(1, torch.tensor(played.actions)[:, None]).sum()
            entropy = -(allowed.exp() * allowed.clamp(min=-50)).sum(1).mean()
            losses.append(-(played.reward - usual) * chosen - ENTROPY * entropy)
        self._optimizer.zero_grad()
        torch.stack(losses).mean().backward()  # type: ignore[no-untyped-call,unused-ignore]
        self._optimizer.step()


class Killer:
    """Kills each worker once, in the middle of an episode."""

    def __init__(self, workers: Workers[Task, Played]) -> None:
        self._workers = workers
        self._left = set(range(len(workers.processes)))
        self._lock = threading.Lock()

    def play(self, driver: Driver, task: Task, generator: random.Random) -> Played:
        """Begins the episode with a step that may be the worker's last."""
        with self._lock:
            running = {p.pid: n for n, p in enumerate(self._workers.processes) if p is not None}
            due = [
                pid for pid, number in running.items() if number in self._left
                and driver.uri.split("?")[0] == self._workers.addresses[number]
            ]  # fmt: skip
            self._left -= {running[pid] for pid in due}
        if due:
            driver.reset(task.module)
            driver.step(0)
            os.kill(due[0], signal.SIGKILL)
        return play(driver, task, generator)


def plot(curve: list[dict[str, Any]], target: Path) -> None:
    """The learning curve as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), dpi=100)
    axes.plot([r["episodes"] for r in curve], [r["reward"] for r in curve], "o-")
    axes.set_xlabel("episodes")
    axes.set_ylabel("part of the code removed (mean of the round)")
    figure.tight_layout()
    figure.savefig(target)
    plt.close(figure)


def train(
    files: list[File],
    at: str,
    *,
    workers: int,
    episodes: int,
    seed: int = 0,
    max_steps: int = 8,
    kill: bool = False,
) -> dict[str, Any]:
    """Play and learn. What was done, with the curve and a digest of every action taken."""
    curve: list[dict[str, Any]] = []
    actions: list[list[int]] = []
    with Workers[Task, Played](
        at,
        lambda _, address: opt(files[0].bitcode, address, max_steps),
        count=workers,
        deadline=120,
        seed=seed,
    ) as pool:
        killer = Killer(pool)
        learner: Learner | None = None
        with tqdm(total=episodes, unit="episode") as bar:
            while len(actions) < episodes:
                if learner is None:
                    learner = Learner(pool.signature().inputs[1].shape[0], seed)
                first = len(actions)
                tasks = [
                    Task(n, str(files[n % len(files)].bitcode), learner.policy)
                    for n in range(first, min(first + ROUND, episodes))
                ]
                done = []
                for played in pool.map(killer.play if kill else play, tasks):
                    assert played.task.number == len(actions)
                    actions.append(played.actions)
                    done.append(played)
                    bar.update()
                learner.learn(done)
                mean = float(np.mean([played.reward for played in done]))
                curve.append({"episodes": len(actions), "reward": round(mean, 5)})
                bar.set_postfix_str(f"code removed {mean:.3f}, restarts {pool.statistics.restarts}")
        statistics = pool.statistics
    return {
        "episodes": len(actions),
        "counted": statistics.episodes,
        "begun": statistics.begun,
        "faults": statistics.faults,
        "restarts": statistics.restarts,
        "workers": workers,
        "curve": curve,
        "actions": actions,
    }


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument(
        "--at", default="", help='addresses: "unix:/tmp/w{}", "grpc:localhost:{5000}"'
    )
    parser.add_argument("--files", type=int, default=40, help="training files")
    parser.add_argument("--high", type=int, default=8000, help="up to so many -Oz bytes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-steps", type=int, default=8)
    parser.add_argument(
        "--kill", action="store_true", help="kill each worker once in mid-episode, as a trial"
    )
    options = parser.parse_args(arguments)
    files = interleaved(load("training"), options.seed, 120, options.high)[: options.files]
    WORK.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="phase-ordering-") as folder:
        result = train(
            files,
            options.at or f"unix:{folder}/opt-{{}}.sock",
            workers=options.workers,
            episodes=options.episodes,
            seed=options.seed,
            max_steps=options.max_steps,
            kill=options.kill,
        )
    del result["actions"]
    (WORK / "driven.json").write_text(json.dumps(result, indent=1) + "\n")
    plot(result["curve"], WORK / "driven.png")
    first, last = result["curve"][0]["reward"], result["curve"][-1]["reward"]
    print(
        f"{result['episodes']} episodes on {result['workers']} workers, {result['faults']} faults, "
        f"{result['restarts']} restarts; code removed {first:.3f} at first, {last:.3f} at last"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
