# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge train`."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from ..errors import Error
from .common import DONE, CommandError, UsageError, assignment


def value(text: str) -> tuple[str, Any]:
    """NAME=VALUE, where VALUE is JSON, or else text."""
    name, given = assignment("NAME=VALUE", text)
    try:
        return name, json.loads(given)
    except ValueError:
        return name, given


def run(options: argparse.Namespace) -> int:
    """Train, with a line for each iteration."""
    environment = dict(options.option)
    if options.corpus:
        places = [os.path.abspath(p) if os.path.exists(p) else p for p in options.corpus]
        environment["corpus"] = places[0] if len(places) == 1 else places
    elif options.environment == "phase-ordering":
        raise UsageError("phase-ordering needs --corpus: modules, or a folder of them")
    if options.observation:
        environment["observation"] = options.observation
    if options.vocabulary:
        environment["vocabulary"] = os.path.abspath(options.vocabulary)
    try:
        from ..training.run import Settings, train
    except ImportError as error:
        raise CommandError(f"training needs pip install 'mlbridge[train]' ({error})") from None
    settings = Settings(
        options.environment,
        options.algorithm,
        steps=options.steps,
        workers=options.workers,
        seed=options.seed,
        options=environment,
        settings=dict(options.set),
    )

    def shown(row: dict[str, Any]) -> None:
        parts = [f"{key} {number:.4g}" for key, number in row.items() if number is not None]
        print(", ".join(parts), flush=True)

    try:
        file = train(
            settings,
            Path(options.output),
            resume=options.resume,
            address=options.ray or "",
            shown=shown,
        )
    except Error as error:
        raise CommandError(str(error)) from None
    except KeyboardInterrupt:
        raise CommandError(f"interrupted; --resume goes on with {options.output}") from None
    except OSError as error:
        raise CommandError(f"{error.filename or options.output}: {error.strerror}") from None
    print(file)
    return DONE
