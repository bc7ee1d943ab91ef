# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Train the policy over the bridge: stock clang asks it over a unix socket, several at once.

    python models/phase-ordering-size/train.py --minutes 30 [--resume]

Starts from what search.py found (all of experience-*.jsonl.gz in the work folder). Each round
compiles some training files with the policy's own choices and again with a deviation in one or two
steps, measures the objects, and fits the policy to all that is known by now. The validation set
tells which round's policy is kept. Nothing here sees the held-out programs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bridge import Bridge, Chooser, Episode, geometric_mean
from corpus import WORK, File, interleaved, load, load_actions
from experience import Tree, gather, line
from learning import fit, refine
from network import Policy
from numpy.typing import NDArray
from tqdm import tqdm

CHECKPOINT = "checkpoint.pt"
TRIED_FIRST = 8  # a deviation is one of the policy's first choices


def chooser(policy: Policy) -> Chooser:
    """The policy's own choice; an episode may deviate from it now and then."""

    def choose(
        episode: Episode,
        features: NDArray[np.float32],
        mask: NDArray[np.float32],
        history: NDArray[np.float32],
        step: int,
    ) -> int:
        votes = policy.preferences(features, mask, history, step)
        generator = random.Random(f"{episode.seed} {step}")
        if generator.random() >= episode.deviate:
            return int(votes.argmax())
        first = np.argsort(-votes)[:TRIED_FIRST]
        weights = np.exp((votes[first] - votes[first[0]]) / 2)
        return int(generator.choices([int(a) for a in first], [float(w) for w in weights])[0])

    return choose


def learn_from(episode: Episode, trees: dict[str, Tree], stop: int) -> Tree:
    """The tree of one episode, also merged into `trees`."""
    file = episode.file
    tree = Tree(file.program, file.name, file.oz_text)
    taken = tuple(a for a in episode.actions if a != stop)
    for step, observation in enumerate(episode.observations):
        tree.add(taken[:step], observation)
    tree.add(taken, size=episode.size)
    trees.setdefault(file.name, Tree(file.program, file.name, file.oz_text)).merge(tree)
    return tree


@dataclass
class Trainer:
    """One run: what it knows, the policy, the curve."""

    options: argparse.Namespace
    bridge: Bridge
    policy: Policy
    trees: dict[str, Tree]
    training: list[File]
    validation: list[File]
    curve: list[dict[str, Any]]
    best: float = 9.0
    episodes: int = 0

    def validate(self) -> float:
        """Geometric mean over the validation files; keeps the policy if it is the best yet."""
        done = self.bridge.run([Episode(file) for file in self.validation], chooser(self.policy))
        ratios = [e.ratio if e.size is not None else 2.0 for e in done]
        mean = geometric_mean(ratios)
        if mean < self.best:
            self.best = mean
            self.save(CHECKPOINT)
        return mean

    def round(self, number: int, out: gzip.GzipFile) -> dict[str, Any]:
        """Compile a few files in a few ways, then fit."""
        start = number * self.options.files
        files = [self.training[(start + k) % len(self.training)] for k in range(self.options.files)]
        episodes = [
            Episode(file, seed=number * 1000 + way, deviate=0.0 if way == 0 else 0.3)
            for file in files
            for way in range(self.options.ways)
        ]
        own: list[float] = []
        failed = 0
        for episode in self.bridge.run(episodes, chooser(self.policy)):
            self.episodes += 1
            if episode.size is None:
                failed += 1
                tqdm.write(f"failed: {episode.file.name} {episode.actions}: {episode.error}")
                continue
            tree = learn_from(episode, self.trees, self.policy.choices - 1)
            out.write(line(tree).encode())
            if episode.deviate == 0.0:
                own.append(episode.ratio)
        out.flush()
        refine(self.policy, self.trees.values(), seed=number, epochs=self.options.epochs)
        return {"training": geometric_mean(own), "failed": failed}

    def save(self, name: str) -> None:
        """Write the policy and the run's state."""
        content = {
            "shape": self.policy.shape,
            "state": self.policy.state_dict(),
            "curve": self.curve,
            "episodes": self.episodes,
            "best": self.best,
            "seed": self.options.seed,
        }
        temporary = WORK / (name + ".tmp")
        torch.save(content, temporary)
        temporary.replace(WORK / name)


def load_policy(path: Path) -> tuple[Policy, dict[str, Any]]:
    """A policy and what was saved with it."""
    content: dict[str, Any] = torch.load(path, weights_only=True)
    policy = Policy(**content["shape"])
    policy.load_state_dict(content["state"])
    return policy.eval(), content


def plot(curve: list[dict[str, Any]], target: Path) -> None:
    """The learning curve as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), dpi=100)
    rounds = [row for row in curve if "training" in row]
    checked = [row for row in curve if "validation" in row]
    axes.plot([r["episodes"] for r in rounds], [r["training"] for r in rounds], ".", alpha=0.5,
              label="training files of the round")  # fmt: skip
    axes.plot([r["episodes"] for r in checked], [r["validation"] for r in checked], "o-",
              label="validation files")  # fmt: skip
    axes.axhline(1.0, color="gray", linewidth=1, label="clang -Oz")
    axes.set_xlabel("episodes over the bridge")
    axes.set_ylabel("executable bytes / -Oz (geometric mean)")
    axes.legend()
    figure.tight_layout()
    figure.savefig(target)
    plt.close(figure)


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rounds", type=int, default=1 << 30, help="the most rounds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resume", action="store_true", help="go on from the last round")
    parser.add_argument("--jobs", type=int, default=2, help="compilers at once")
    parser.add_argument("--files", type=int, default=20, help="files of a round")
    parser.add_argument("--ways", type=int, default=4, help="episodes of each file in a round")
    parser.add_argument("--epochs", type=int, default=3, help="of fitting after each round")
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--validate-every", type=int, default=4, help="rounds")
    parser.add_argument("--high", type=int, default=30000, help="skip larger files (-Oz bytes)")
    parser.add_argument("--max-steps", type=int, default=12)
    options = parser.parse_args(arguments)
    WORK.mkdir(parents=True, exist_ok=True)
    actions = load_actions()
    training = interleaved(load("training"), options.seed, 120, options.high)
    validation = interleaved(load("validation"), options.seed, 120, options.high)
    trees = gather(sorted(WORK.glob("experience-*.jsonl.gz")))
    state: dict[str, Any] = {}
    if options.resume and (WORK / "last.pt").exists():
        policy, state = load_policy(WORK / "last.pt")
    else:
        if not trees:
            print("train: no experience; run search.py first", file=sys.stderr)
            return 1
        policy = fit(
            trees, actions.stop, seed=options.seed, members=options.members, width=options.width
        )
    begin = time.monotonic()
    target = WORK / f"experience-bridge-{int(time.time())}.jsonl.gz"
    with (
        Bridge(actions, max_steps=options.max_steps, jobs=options.jobs) as bridge,
        gzip.open(target, "wb") as out,
        tqdm(total=options.minutes, unit="min", bar_format="{l_bar}{bar}|{postfix}") as bar,
    ):
        trainer = Trainer(
            options, bridge, policy, trees, training, validation, state.get("curve", []),
            state.get("best", 9.0), state.get("episodes", 0)
        )  # fmt: skip
        number = len([row for row in trainer.curve if "training" in row])
        last = number + options.rounds
        if not trainer.curve:
            trainer.curve.append({"episodes": 0, "validation": trainer.validate()})
        while number < last and time.monotonic() - begin < 60 * options.minutes:
            row = trainer.round(number, out)
            number += 1
            row["episodes"] = trainer.episodes
            row["minutes"] = round((time.monotonic() - begin) / 60, 2)
            trainer.curve.append(row)
            if number % options.validate_every == 0:
                row["validation"] = trainer.validate()
            trainer.save("last.pt")
            (WORK / "curve.json").write_text(json.dumps(trainer.curve, indent=1) + "\n")
            bar.n = min(row["minutes"], options.minutes)
            bar.set_postfix_str(f"round {number} {row} best validation {trainer.best:.4f}")
        trainer.save("last.pt")
        plot(trainer.curve, WORK / "curve.png")
    print(f"best validation {trainer.best:.4f} after {trainer.episodes} episodes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
