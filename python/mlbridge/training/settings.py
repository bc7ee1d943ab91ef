# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The settings of a training, and the interface of trainers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ..errors import InvalidArgument
from .arguments import ACTIVATIONS
from .optimizations import TRAINED

LIGHT = "maskable-ppo"
IMITATION = "imitation"
ALGORITHMS = ("ppo", "appo", "dqn", "a2c", LIGHT, IMITATION)
MOST = 2**31 - 1


@dataclass(frozen=True)
class Settings:
    """A training. `options` are those of the environment, `settings` the algorithm's."""

    environment: str
    algorithm: str = "ppo"
    steps: int = 20_000
    workers: int = 0
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises InvalidArgument for settings that no training has."""

        def expect(name: str, value: Any, is_valid: bool, expected: str) -> None:
            if not is_valid:
                raise InvalidArgument(f"{name} is {value!r}; expected {expected}")

        def is_number(value: Any, least: int) -> bool:
            return type(value) is int and least <= value <= MOST

        for name, least in (("steps", 1), ("workers", 0), ("seed", 0)):
            value = getattr(self, name)
            expect(name, value, is_number(value, least), f"a number from {least} to {MOST}")
        for name in ("options", "settings"):
            value = getattr(self, name)
            expect(name, value, isinstance(value, Mapping), "an object")
        uri, algorithm = self.environment, self.algorithm
        expect("environment", uri, isinstance(uri, str), "phase-ordering or a URI")
        known = ("ppo",) if uri in TRAINED else ALGORITHMS
        expect("algorithm", algorithm, algorithm in known, f"one of {', '.join(known)}")
        widths = self.settings.get("hiddens", [])
        are_widths = isinstance(widths, list | tuple) and all(is_number(w, 1) for w in widths)
        expect("hiddens", widths, are_widths, "a list of numbers, such as [64,64]")
        activation = self.settings.get("activation", "relu")
        expect("activation", activation, activation in ACTIVATIONS, " or ".join(ACTIVATIONS))


class Trainer(Protocol):
    """A library's algorithm on an environment.

    A module of this package has a class Trainer(settings, address), where `address` is that of a
    Ray cluster, and a function configured(settings), which raises for settings that it doesn't
    take, and starts nothing.
    """

    def iterate(self) -> tuple[int, Mapping[str, float]]:
        """Trains for an iteration; the steps so far, and the totals of the episodes that ended."""

    def save(self, folder: Path) -> None:
        """Writes a checkpoint."""

    def load(self, folder: Path) -> None:
        """Goes on from a checkpoint."""

    def export(self, path: Path, metadata: Mapping[str, str]) -> tuple[Path, list[str]]:
        """Writes ONNX files into the folder; their path, and lines of Markdown for the card."""

    def close(self) -> None:
        """Ends the compilers."""
