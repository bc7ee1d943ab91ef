# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge train`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import Error
from ..reading import read_json
from .common import DONE, CommandError, UsageError, assignment

NEED_CORPUS = ("phase-ordering", "register-allocation", "loop-distribution")
PATHS = ("actions", "cache", "corpus", "vocabulary")  # options of environments that are files


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
    """What is asked for: the options over the file."""
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
    elif asked["environment"] in NEED_CORPUS and "corpus" not in asked["options"]:
        needs = asked["environment"]
        raise UsageError(f"{needs} needs --corpus: modules, or a folder of them")
    if options.observation:
        asked["options"]["observation"] = options.observation
    if options.vocabulary:
        asked["options"]["vocabulary"] = os.path.abspath(options.vocabulary)
    from ..training.run import Settings

    try:
        return Settings(**asked)
    except Error as error:
        raise UsageError(str(error)) from None


@contextmanager
def one_line(output: str) -> Iterator[None]:
    """How trainings in a folder fail."""
    try:
        yield
    except Error as error:
        raise CommandError(str(error)) from None
    except KeyboardInterrupt:
        raise CommandError(f"interrupted; --resume goes on with {output}") from None
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
    print(file)
    return DONE
