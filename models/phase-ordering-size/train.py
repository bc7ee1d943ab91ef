# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Train the policy over the bridge: stock clang asks it over a unix socket, several at once.

    python models/phase-ordering-size/train.py --minutes 30

Starts from a demonstration of the best fixed order (fixed_orders.py). Each round compiles some
training files with the policy's own choices, and again with a deviation in one step after which the
policy goes on; the change of the object's size is what it learns from. The validation set tells
which round's policy is kept. Nothing here sees the held-out programs.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import geometric_mean
from typing import Any, cast

import numpy as np
import torch
from bridge import Bridge, Chooser, Episode
from corpus import FIXED_ORDER, WORK, File, interleaved, load, load_actions
from network import Member, Policy
from numpy.typing import NDArray
from torch import Tensor

CHECKPOINT = "checkpoint.pt"
FEATURES = 120
TRIED_FIRST = 12  # most deviations are among the policy's next choices
CLONE_EPOCHS = 60
EPOCHS = 20  # of fitting after each round
GROUP_COST = 0.001  # in log size: what a group must gain to be worth its compile time
LARGEST = 0.06  # gains and losses beyond this count as this much
OWN_SHARE = 0.5  # how sure the demonstrated policy is of its own action
NOISE = 0.15  # of the inputs, in standard deviations, while fitting
BATCH = 128


def score(episode: Episode, stop: int) -> float:
    """Log size over -Oz plus the cost of the groups; less is better."""
    groups = sum(action != stop for action in episode.actions)
    return math.log(episode.ratio) + GROUP_COST * groups


@dataclass
class Memory:
    """States with the action to keep to, and states with a deviation and what it gained or lost."""

    policy: Policy
    margin: float = 0.002  # a deviation takes over if it gains more than this on average
    kept_inputs: list[NDArray[np.float32]] = field(default_factory=list)
    kept_actions: list[int] = field(default_factory=list)
    inputs: list[NDArray[np.float32]] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    changes: list[float] = field(default_factory=list)

    def _encode(self, episode: Episode, step: int) -> NDArray[np.float32]:
        history = np.bincount(episode.actions[:step], minlength=self.policy.choices)
        return self.policy.encode(
            torch.from_numpy(episode.observations[step]),
            torch.from_numpy(history.astype(np.float32)),
            torch.tensor([step]),
        ).numpy()

    def keep_to(self, episode: Episode) -> None:
        """Remember a demonstration."""
        for step, action in enumerate(episode.actions):
            self.kept_inputs.append(self._encode(episode, step))
            self.kept_actions.append(action)

    def compare(self, own: Episode, deviating: Episode) -> float | None:
        """Remember the first step in which two episodes of a file differ, and what it changed."""
        steps = range(min(len(own.actions), len(deviating.actions)))
        step = next((k for k in steps if own.actions[k] != deviating.actions[k]), None)
        if step is None:
            return None
        stop = self.policy.choices - 1
        change = score(deviating, stop) - score(own, stop)
        self.inputs.append(self._encode(deviating, step))
        self.actions.append(deviating.actions[step])
        self.changes.append(max(-LARGEST, min(LARGEST, change)))
        return change

    def normalise(self) -> None:
        """Set the policy's input scaling from the demonstrations."""
        inputs = torch.from_numpy(np.array(self.kept_inputs))
        for module in self.policy.members:
            member = cast(Member, module)
            member.mean.copy_(inputs.mean(0))
            member.deviation.copy_(inputs.std(0).clamp(min=0.1))

    def fit(self, *, seed: int, epochs: int, rate: float = 1e-3) -> None:
        """Fit each member: imitate what is kept to, prefer what gained more than the margin.

        Minimises the cross-entropy with a soft copy of the demonstrated action plus the expected
        change of size over the margin; where a deviation gains more than that on average, its
        probability passes that of the demonstrated action.
        """
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        kept = torch.from_numpy(np.array(self.kept_inputs))
        target = torch.full((len(kept), self.policy.choices), (1 - OWN_SHARE) / self.policy.choices)
        target[torch.arange(len(kept)), torch.tensor(self.kept_actions)] += OWN_SHARE
        for module in self.policy.members:
            self._fit_member(cast(Member, module), kept, target, epochs, rate)

    def _fit_member(
        self, member: Member, kept: Tensor, target: Tensor, epochs: int, rate: float
    ) -> None:
        tried = torch.from_numpy(np.array(self.inputs)) if self.inputs else None
        actions = torch.tensor(self.actions)
        changes = torch.tensor(self.changes, dtype=torch.float32)
        optimizer = torch.optim.AdamW(member.parameters(), lr=rate, weight_decay=0.02)
        member.train()
        for _ in range(epochs):
            order = torch.randperm(len(kept))
            for start in range(0, len(kept), BATCH):
                rows = order[start : start + BATCH]
                noisy = kept[rows] + NOISE * member.deviation * torch.randn_like(kept[rows])
                votes = torch.log_softmax(member(noisy), 1)
                loss = -(target[rows] * votes).sum(1).mean()
                if tried is not None:
                    some = torch.randint(len(tried), (BATCH,))
                    probability = torch.softmax(member(tried[some]), 1)
                    chosen = probability.gather(1, actions[some, None]).squeeze(1)
                    # Deviations are spread over the actions, so each stands for a few.
                    loss = loss + (chosen * changes[some]).mean() / self.margin * 8
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call,unused-ignore]
                optimizer.step()
        member.eval()


def chooser(policy: Policy) -> Chooser:
    """The policy's own choice; an episode may deviate from it in one step."""

    @torch.no_grad()
    def choose(episode: Episode, observation: Mapping[str, Any]) -> int:
        seen = {name: torch.from_numpy(np.array(value)) for name, value in observation.items()}
        votes = policy.preferences(**seen).numpy()
        if len(episode.actions) != episode.deviate:
            return int(votes.argmax())
        generator = random.Random(f"{episode.seed} {episode.file.name}")
        ranked = [int(a) for a in np.argsort(-votes) if observation["action_mask"][a] > 0.5][1:]
        return generator.choice(ranked[:TRIED_FIRST] if generator.random() < 0.6 else ranked)

    return choose


def shortened(order: tuple[int, ...], generator: random.Random) -> tuple[int, ...]:
    """The order without one to three groups; none follows itself."""
    left_out = set(generator.sample(range(len(order)), min(len(order), generator.randint(1, 3))))
    kept = [action for place, action in enumerate(order) if place not in left_out]
    return tuple(a for place, a in enumerate(kept) if place == 0 or a != kept[place - 1])


@dataclass
class Trainer:
    """One run: what it knows, the policy, the curve."""

    options: argparse.Namespace
    bridge: Bridge
    policy: Policy
    memory: Memory
    training: list[File]
    validation: list[File]
    curve: list[dict[str, Any]] = field(default_factory=list)
    best_row: dict[str, float] = field(default_factory=lambda: {"score": math.inf})
    episodes: int = 0

    def validate(self) -> dict[str, float]:
        """Over the validation files; keeps the policy if size and groups are the best yet."""
        stop = self.policy.choices - 1
        asked = [Episode(file) for file in self.validation]
        done = list(self.bridge.run(asked, chooser(self.policy)))
        ratios = [e.ratio if e.size is not None else 2.0 for e in done]
        scores = [score(e, stop) if e.size is not None else 1.0 for e in done]
        found = {
            "validation": geometric_mean(ratios),
            "score": float(np.exp(np.mean(scores))),
            "groups": float(np.mean([len([a for a in e.actions if a != stop]) for e in done])),
            "orders": len({tuple(e.actions) for e in done}),
        }
        if found["score"] < self.best_row["score"]:
            self.best_row = found
            self.save()
        return found

    def demonstrate(self, order: tuple[int, ...]) -> float:
        """Compile training files with a fixed order, and learn to do the same.

        Each also with a few groups left out, so that the policy knows how to go on after it has
        left one out itself.
        """
        stop = self.policy.choices - 1
        files = self.training[: self.options.demonstrations]
        generator = random.Random(self.options.seed)
        shown = [Episode(file, forced=(*order, stop)) for file in files]
        shown += [Episode(file, forced=(*shortened(order, generator), stop)) for file in files]
        ratios: list[float] = []
        for episode in self.bridge.run(shown):
            self.episodes += 1
            if episode.size is not None:
                self.memory.keep_to(episode)
                if episode.forced == (*order, stop):
                    ratios.append(episode.ratio)
        self.memory.normalise()
        self.memory.fit(seed=self.options.seed, epochs=CLONE_EPOCHS)
        return geometric_mean(ratios)

    def _successful(self, episodes: list[Episode]) -> Iterator[Episode]:
        """With the policy's own choices."""
        for episode in self.bridge.run(episodes, chooser(self.policy)):
            if episode.size is None:
                print(f"failed: {episode.file.name} {episode.actions}: {episode.error}")
            else:
                yield episode

    def round(self, number: int) -> dict[str, Any]:
        """Compile a few files in a few ways, then fit."""
        start = number * self.options.files
        files = [self.training[(start + k) % len(self.training)] for k in range(self.options.files)]
        own = {e.file.name: e for e in self._successful([Episode(file) for file in files])}
        generator = random.Random(f"{self.options.seed} {number}")
        deviating = [
            Episode(
                base.file,
                seed=number * 100 + way,
                deviate=generator.randrange(len(base.actions)),
            )
            for base in own.values()
            for way in range(self.options.ways)
        ]
        better = 0
        for episode in self._successful(deviating):
            change = self.memory.compare(own[episode.file.name], episode)
            better += change is not None and change < -0.001
        self.episodes += len(files) + len(deviating)
        self.memory.fit(seed=number, epochs=EPOCHS)
        mean = geometric_mean([episode.ratio for episode in own.values()])
        return {"training": mean, "deviations": len(deviating), "better": better}

    def save(self) -> None:
        """Write the policy, and how it came about."""
        content = {
            "shape": self.policy.shape,
            "state": self.policy.state_dict(),
            "episodes": self.episodes,
            "best_row": self.best_row,
            "seed": self.options.seed,
        }
        temporary = WORK / (CHECKPOINT + ".tmp")
        torch.save(content, temporary)
        temporary.replace(WORK / CHECKPOINT)


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
    parser.add_argument("--jobs", type=int, default=2, help="compilers at once")
    parser.add_argument("--demonstrations", type=int, default=150, help="training files")
    parser.add_argument("--files", type=int, default=40, help="files of a round")
    parser.add_argument("--ways", type=int, default=5, help="deviations for each file in a round")
    parser.add_argument("--margin", type=float, default=0.002, help="mean gain, in log size")
    parser.add_argument("--validate-every", type=int, default=4, help="rounds")
    parser.add_argument(
        "--high", type=int, default=30000, help="train with files up to so many -Oz bytes"
    )
    options = parser.parse_args(arguments)
    WORK.mkdir(parents=True, exist_ok=True)
    actions = load_actions()
    training = interleaved(load("training"), options.seed, 120, options.high)
    validation = interleaved(load("validation"), options.seed, 120)
    order = tuple(json.loads(FIXED_ORDER.read_text())["order"])
    begin = time.monotonic()
    with Bridge(actions, jobs=options.jobs) as bridge:
        torch.manual_seed(options.seed)
        policy = Policy(FEATURES, actions.stop + 1)
        memory = Memory(policy, options.margin)
        trainer = Trainer(options, bridge, policy, memory, training, validation)
        shown = trainer.demonstrate(order)
        row = {"episodes": trainer.episodes, "demonstration": shown, **trainer.validate()}
        trainer.curve.append(row)
        print(f"demonstration: {row}")
        number = 0
        while number < options.rounds and time.monotonic() - begin < 60 * options.minutes:
            row = trainer.round(number)
            number += 1
            row["episodes"] = trainer.episodes
            row["minutes"] = round((time.monotonic() - begin) / 60, 2)
            trainer.curve.append(row)
            if number % options.validate_every == 0:
                row.update(trainer.validate())
            (WORK / "curve.json").write_text(json.dumps(trainer.curve, indent=1) + "\n")
            print(f"round {number}: {row}", flush=True)
        plot(trainer.curve, WORK / "curve.png")
    print(f"best score {trainer.best_row['score']:.4f} after {trainer.episodes} episodes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
