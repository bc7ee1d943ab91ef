# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A training from its settings to the ONNX file."""

from __future__ import annotations

import contextlib
import importlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import Error, InvalidModel, NotFound
from ..files import extra
from ..outputs import replace_whole
from ..reading import read_json
from .arguments import named, one_line
from .folder import Folder, Row, plot, write_json
from .optimizations import TRAINED
from .settings import IMITATION, LIGHT, Settings, Trainer


def trainer(settings: Settings, address: str) -> Trainer:
    """Starts a trainer. Raises NotFound, which says what to install, and InvalidArgument for
    settings that it doesn't take."""
    with named(f"{settings.algorithm} on {settings.environment}"):
        started: Trainer = _module(settings).Trainer(settings, address)
    return started


def check(settings: Settings) -> None:
    """Raises InvalidArgument for settings that the algorithm does not have; starts nothing."""
    module = _module(settings)
    with named(settings.algorithm):
        module.configured(settings)


def _module(settings: Settings) -> Any:
    name = {LIGHT: "sb3", IMITATION: "imitation"}.get(settings.algorithm, "rllib")
    if settings.environment in TRAINED:
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
    Errors: Busy if another training has the folder, InvalidArgument, NotFound if a package is
    missing, and those of the environment.
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
        learner = trainer(settings, address)
        try:
            checkpoint = folder.checkpoint()
            if checkpoint is not None:
                _load(learner, checkpoint)
            folder.keep(stated)
            warning, figures = _compared(settings, path)
            if warning:
                warned(warning)
            before = rows[-1]["seconds"] if rows else 0.0
            start = time.monotonic()
            with _events(path) as write:
                while not rows or rows[-1]["steps"] < settings.steps:
                    steps, totals = learner.iterate()
                    seconds = before + time.monotonic() - start
                    rows.append(row_of(len(rows) + 1, steps, totals, seconds))
                    folder.save(rows[-1], learner.save)
                    write(rows[-1])
                    shown(rows[-1])
            title = f"{settings.environment}, {settings.algorithm}"
            plot(rows, path / "curve.png", title, figures)
            made_by = f"{settings.algorithm}, seed {settings.seed}, {rows[-1]['steps']} steps"
            from .baselines import card_lines

            file, lines = learner.export(path, {"mlbridge.training": made_by})
            note = [f"**Note:** {warning}.", ""] if warning else []
            lines = [*note, *lines, *card_lines(figures, rows[-1])]
            replace_whole(path / "README.md", card(settings, rows, lines).encode())
            return file
        finally:
            learner.close()


def _compared(settings: Settings, path: Path) -> tuple[str, dict[str, dict[str, float]]]:
    """A warning about the modules, and the figures of -Oz and of random choices, which are kept in
    the folder."""
    from . import baselines  # which needs Gymnasium

    warning = baselines.warning(settings.environment, settings.options)
    place = path / baselines.FILE
    try:
        kept = {name: dict(figures) for name, figures in dict(read_json(place)).items()}
        return warning, kept
    except (Error, TypeError, ValueError, AttributeError):
        figures = baselines.measured(settings.environment, settings.options, settings.seed)
    write_json(place, figures)
    return warning, figures


def _load(learner: Trainer, checkpoint: Path) -> None:
    try:
        learner.load(checkpoint)
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


def card(settings: Settings, rows: list[Row], more: Sequence[str] = ()) -> str:
    """The description of a policy, as Markdown."""
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
