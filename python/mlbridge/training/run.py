# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A training from its settings to the ONNX file."""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ..errors import Error, InvalidArgument, InvalidModel, NotFound
from ..files import extra
from ..reading import read_json
from .arguments import ACTIVATIONS, named, one_line
from .folder import Folder, Row, plot, replace
from .optimizations import OPTIMIZATIONS

LIGHT = "maskable-ppo"
IMITATION = "imitation"
ALGORITHMS = ("ppo", "appo", "dqn", "a2c", LIGHT, IMITATION)
MOST = 2**31 - 1


@dataclass(frozen=True)
class Settings:
    """What a training is. `options` are those of the environment, `settings` the algorithm's."""

    environment: str
    algorithm: str = "ppo"
    steps: int = 20_000
    workers: int = 0
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises InvalidArgument for what no training has."""

        def expect(name: str, value: Any, is_it: bool, what: str) -> None:
            if not is_it:
                raise InvalidArgument(f"{name} is {value!r}; expected {what}")

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
        known = ("ppo",) if uri in OPTIMIZATIONS else ALGORITHMS
        expect("algorithm", algorithm, algorithm in known, f"one of {', '.join(known)}")
        widths = self.settings.get("hiddens", [])
        are_widths = isinstance(widths, list | tuple) and all(is_number(w, 1) for w in widths)
        expect("hiddens", widths, are_widths, "a list of numbers, such as [64,64]")
        activation = self.settings.get("activation", "relu")
        expect("activation", activation, activation in ACTIVATIONS, " or ".join(ACTIVATIONS))


class Trainer(Protocol):
    """sb3.Trainer, rllib.Trainer or imitation.Trainer."""

    example: Any

    def iterate(self) -> tuple[int, Mapping[str, float]]: ...
    def save(self, folder: Path) -> None: ...
    def load(self, folder: Path) -> None: ...
    def network(self) -> Any: ...
    def close(self) -> None: ...


def trainer(settings: Settings, address: str) -> Any:
    """Starts it. NotFound says what to install, InvalidArgument what it does not take."""
    common: dict[str, Any] = {
        "workers": settings.workers,
        "seed": settings.seed,
        "settings": settings.settings,
    }
    if settings.algorithm not in (LIGHT, IMITATION):
        common["address"] = address
        if settings.environment not in OPTIMIZATIONS:
            common["algorithm"] = settings.algorithm
    with named(f"{settings.algorithm} on {settings.environment}"):
        made: Any = _module(settings).Trainer(settings.environment, settings.options, **common)
    return made


def check(settings: Settings) -> None:
    """InvalidArgument for settings that the algorithm does not have; starts nothing."""
    module, given = _module(settings), settings.settings
    with named(settings.algorithm):
        if settings.algorithm in (LIGHT, IMITATION) or settings.environment in OPTIMIZATIONS:
            module.configured(given)
        else:
            module.configured(settings.algorithm, given)


def _module(settings: Settings) -> Any:
    name = {LIGHT: "sb3", IMITATION: "imitation"}.get(settings.algorithm, "rllib")
    if settings.environment in OPTIMIZATIONS:
        name = "multi_agent"
    try:
        return importlib.import_module(f".{name}", __package__)
    except ImportError as error:
        raise NotFound(f"training needs {extra('train')} ({error})") from None


def row_of(iteration: int, steps: int, totals: Mapping[str, float], seconds: float) -> Row:
    """A line of progress."""
    episodes, sizes = int(totals.get("episodes", 0)), totals.get("sizes", 0)
    row: Row = {"iteration": iteration, "steps": steps, "episodes": episodes}
    row["faults"] = int(totals.get("faults", 0))
    row["reward"] = totals["rewards"] / episodes if episodes else None
    if sizes:
        row["over_oz"] = math.exp(totals["log_over_oz"] / sizes)
    if "agreement" in totals:
        row["agreement"] = totals["agreement"]
    return row | {"seconds": round(seconds, 2)}


def train(
    settings: Settings,
    path: Path,
    *,
    resume: bool = False,
    address: str = "",
    shown: Callable[[Row], None] = lambda row: None,
    warned: Callable[[str], None] = lambda text: None,
) -> Path:
    """Trains in the folder `path` until `settings.steps` are made; the ONNX file.

    `shown` is called with each iteration's row, `warned` if the modules are not what -Oz compiles.
    Errors: Busy if another training has the folder,
    InvalidArgument, NotFound if a package is missing, and those of the environment.
    """
    folder = Folder(path)
    with folder.locked():
        stated = {
            "environment": settings.environment,
            "algorithm": settings.algorithm,
            "workers": settings.workers,
            "seed": settings.seed,
            "options": dict(settings.options),
            "settings": dict(settings.settings),
        }
        rows = folder.begin(stated, resume)
        of = trainer(settings, address)
        try:
            checkpoint = folder.checkpoint()
            if checkpoint is not None:
                _load(of, checkpoint)
            folder.keep(stated)
            said, figures = _compared(settings, path)
            if said:
                warned(said)
            before = rows[-1]["seconds"] if rows else 0.0
            start = time.monotonic()
            with _events(path) as write:
                while not rows or rows[-1]["steps"] < settings.steps:
                    steps, totals = of.iterate()
                    seconds = before + time.monotonic() - start
                    rows.append(row_of(len(rows) + 1, steps, totals, seconds))
                    folder.save(rows[-1], of.save)
                    write(rows[-1])
                    shown(rows[-1])
            title = f"{settings.environment}, {settings.algorithm}"
            plot(rows, path / "curve.png", title, figures)
            return _exported(settings, of, rows, path, said, figures)
        finally:
            of.close()


def _compared(settings: Settings, path: Path) -> tuple[str, dict[str, dict[str, float]]]:
    """What is to be known of the modules, and the figures of -Oz and of random choices, which are
    kept in the folder."""
    from . import baselines

    said = baselines.warning(settings.environment, settings.options)
    place = path / baselines.FILE
    try:
        return said, {name: dict(of) for name, of in dict(read_json(place)).items()}
    except (Error, TypeError, ValueError, AttributeError):
        figures = baselines.measured(settings.environment, settings.options, settings.seed)
    replace(place, json.dumps(figures, indent=1) + "\n")
    return said, figures


def _load(of: Trainer, checkpoint: Path) -> None:
    try:
        of.load(checkpoint)
    except Error:
        raise
    except Exception as error:  # libraries raise what they like for a damaged file
        raise InvalidModel(f"{checkpoint}: cannot be read: {one_line(error)}") from error


@contextlib.contextmanager
def _events(path: Path) -> Iterator[Callable[[Row], None]]:
    """Writes TensorBoard's events, if it is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        yield lambda row: None
        return
    with SummaryWriter(str(path / "tensorboard")) as writer:

        def write(row: Row) -> None:
            for key, value in row.items():
                if value is not None:
                    writer.add_scalar(key, value, row["steps"])

        yield write


def _exported(
    settings: Settings,
    of: Any,
    rows: list[Row],
    path: Path,
    said: str,
    figures: Mapping[str, Mapping[str, float]],
) -> Path:
    from .baselines import card_lines
    from .export import export

    made = f"{settings.algorithm}, seed {settings.seed}, {rows[-1]['steps']} steps"
    metadata = {"mlbridge.training": made}
    if settings.environment in OPTIMIZATIONS:
        more = of.export(path, metadata)
        replace(path / "README.md", card(settings, rows, more))
        return path / "{agent}.onnx"
    env = of.example
    signature = env.unwrapped.layout.signature
    metadata = dict(getattr(env.unwrapped, "model_metadata", {})) | metadata
    file = path / "policy.onnx"
    export(of.network(), signature, env.parts, metadata, file, env.compressed)
    more = [f"**Note:** {said}.", ""] if said else []
    more += card_lines({name: dict(of_one) for name, of_one in figures.items()}, rows[-1])
    replace(path / "README.md", card(settings, rows, more))
    return file


def card(settings: Settings, rows: list[Row], more: Sequence[str] = ()) -> str:
    """What the policy is, as Markdown."""
    last = rows[-1]
    result = (
        f"Mean reward of an episode in the last iteration: {last['reward']:.4f}."
        if last["reward"] is not None
        else "No episode ended in the last iteration."
    )
    if "over_oz" in last:
        result += f" Bytes over -Oz, geometric mean of these episodes: {last['over_oz']:.4f}."
    lines = [
        f"# A policy for {settings.environment}",
        "",
        f"Trained with {settings.algorithm}, seed {settings.seed}: {last['steps']} steps in"
        f" {last['seconds']:.0f} s, {settings.workers} workers.",
        "",
        result + " These figures are of training: they say nothing of programs that it has not"
        " seen (`mlbridge validate`).",
        "",
        *more,
        *([""] if more else []),
        "| setting | value |",
        "|---|---|",
        *(
            f"| {key} | `{value}` |"
            for key, value in {**settings.options, **settings.settings}.items()
        ),
        "",
        "![Learning curve](curve.png)",
        "",
    ]
    return "\n".join(lines)
