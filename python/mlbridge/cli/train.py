# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge train`: a training with the compiler as the environment."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import Error
from ..optimizations import OPTIMIZATIONS
from ..reading import read_json
from .arguments import Parser, assignment, number_from_one
from .common import DONE, CommandError, Interrupted, UsageError

TRAINED = [name for name, one in OPTIMIZATIONS.items() if one.trained]
PATHS = ("actions", "cache", "corpus", "vocabulary")  # options of environments that are files


def add_arguments(parser: Parser) -> None:
    """The options of `mlbridge train`."""
    parser.describe(
        """\
Trains a policy in the folder DIR: settings.json, progress.jsonl, checkpoints, TensorBoard's events,
curve.png, report.html, README.md and in the end policy.onnx, which every runner takes. ENV is
`phase-ordering`, which starts stock opt-22, `register-allocation` or `loop-distribution`, which
have a network for each agent, or the URI of an environment with one agent. After a kill, --resume
loses at most the iteration that was running. Needs what pip install '.[train]' installs in
MLBridge's source tree.""",
        """\
example:
  mlbridge train phase-ordering --corpus modules/ --algorithm maskable-ppo -o policy/
  mlbridge train phase-ordering --corpus modules/ --algorithm dqn --set lr=0.001 -o policy/
  mlbridge train --config models/poset-rl/double-dqn.json --corpus modules/ -o policy/""",
    )
    add_training_arguments(parser)
    parser.option(
        "--workers N", "processes with a compiler each, besides this one (default: 0)", type=int
    )


def add_training_arguments(parser: Parser) -> None:
    """The options that `mlbridge train` and `mlbridge tune` have."""
    parser.add_argument(
        "environment",
        metavar="ENV",
        nargs="?",
        help=f"{', '.join(TRAINED)}, or a URI (also in FILE)",
    )
    parser.option(
        "--config FILE",
        "defaults for all that follows, as JSON: the settings.json of a training, or one of "
        "models/poset-rl; its paths start at its folder",
    )
    parser.option("-o DIR", "the folder of the training", dest="output", required=True)
    parser.option(
        "--corpus CORPUS ...",
        "a corpus (--option part=training: a part of it), modules, or a folder of them; may be "
        "repeated for modules",
    )
    parser.option(
        "--observation",
        "of phase-ordering: counts of its instructions (default), or its embedding by LLVM's "
        "IR2Vec, flow-aware or symbolic",
        choices=["counts", "ir2vec", "ir2vec-symbolic"],
    )
    parser.option("--vocabulary FILE", "of `mlbridge vocabulary`, instead of the shipped one")
    parser.option(
        "--algorithm",
        "maskable-ppo is Stable-Baselines3's, imitation learns from a teacher (--set teacher=FILE: "
        "a recording), and neither needs Ray; the others are RLlib's, where a2c is ppo with its "
        "settings (default: ppo)",
        choices=["ppo", "appo", "dqn", "a2c", "maskable-ppo", "imitation"],
    )
    parser.option("--steps N", "of the environment, in all (default: 20000)", type=number_from_one)
    parser.option("--seed N", "the same numbers again, without workers (default: 0)", type=int)
    parser.option("--resume", "go on with the training in DIR")
    parser.option("--ray ADDRESS", "a Ray cluster that is running (default: started here)")
    parser.option(
        "--option NAME=VALUE ...",
        "of the environment, such as max_steps=20; may be repeated",
        type=value,
    )
    parser.option(
        "--set NAME=VALUE ...", "of the algorithm, such as lr=0.001; may be repeated", type=value
    )


def value(text: str) -> tuple[str, Any]:
    """NAME=VALUE, where VALUE is JSON, or else text."""
    name, given = assignment("NAME=VALUE", text)
    try:
        return name, json.loads(given)
    except (ValueError, RecursionError):
        return name, given


def configured(file: str) -> dict[str, Any]:
    """The settings in a file. Options that name files beside it become their paths."""
    try:
        settings = read_json(file)
        known = {"environment", "algorithm", "steps", "workers", "seed", "options", "settings"}
        if not isinstance(settings, dict) or settings.keys() - known:
            raise ValueError(f"expected an object with {', '.join(sorted(known))}")
        for name in ("options", "settings"):
            if not isinstance(given := settings.setdefault(name, {}), dict):
                raise ValueError(f"{name} is {given!r}; expected an object")
    except Error as error:
        raise UsageError(str(error)) from None
    except ValueError as error:
        raise UsageError(f"{file}: {error}") from None
    options = settings["options"]
    for name, given in options.items():
        beside = Path(file).parent / str(given)
        if isinstance(given, str) and name in PATHS and beside.exists():
            options[name] = os.path.abspath(beside)
    return settings


def settings_of(options: argparse.Namespace) -> Any:
    """The settings: those of the file, unless an option says otherwise."""
    asked = configured(options.config) if options.config else {"options": {}, "settings": {}}
    for name in ("environment", "algorithm", "steps", "workers", "seed"):
        if (given := getattr(options, name, None)) is not None:
            asked[name] = given
    if "environment" not in asked:
        raise UsageError("the environment is missing: phase-ordering, a URI, or --config FILE")
    asked["options"] |= dict(options.option)
    asked["settings"] |= dict(options.set)
    if options.corpus:
        places = [os.path.abspath(p) if os.path.exists(p) else p for p in options.corpus]
        asked["options"]["corpus"] = places[0] if len(places) == 1 else places
    elif asked["environment"] in TRAINED and "corpus" not in asked["options"]:
        needs = asked["environment"]
        raise UsageError(f"{needs} needs --corpus: modules, or a folder of them")
    if options.observation:
        asked["options"]["observation"] = options.observation
    if options.vocabulary:
        asked["options"]["vocabulary"] = os.path.abspath(options.vocabulary)
    from ..training.settings import Settings

    try:
        return Settings(**asked)
    except Error as error:
        raise UsageError(str(error)) from None


@contextmanager
def one_line(output: str) -> Iterator[None]:
    """Turns the errors of a training in a folder into those of a command."""
    try:
        yield
    except Error as error:
        raise CommandError(str(error)) from None
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; --resume goes on with {output}") from None
    except OSError as error:
        raise CommandError(f"{error.filename or output}: {error.strerror or error}") from None


def run(options: argparse.Namespace) -> int:
    """Train, with a line for each iteration."""
    settings = settings_of(options)
    from ..training.run import train

    def shown(row: dict[str, Any]) -> None:
        parts = [f"{key} {number:.4g}" for key, number in row.items() if number is not None]
        print(", ".join(parts), flush=True)

    def warned(text: str) -> None:
        print(f"mlbridge train: {text}", file=sys.stderr, flush=True)

    with one_line(options.output):
        file = train(
            settings,
            Path(options.output),
            resume=options.resume,
            address=options.ray or "",
            shown=shown,
            warned=warned,
        )
    page(options.output, warned)
    print(file)
    return DONE


def page(output: str, warned: Callable[[str], None]) -> None:
    """Writes what `mlbridge report` says of a training or search beside it."""
    from .. import report

    place = os.path.join(output, "report.html")
    try:
        report.write(place, report.read([output]), report.labels([output])[0])
    except (Error, OSError) as error:
        warned(f"no {place}: {error}")
