# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mlbridge stats: what a running server has done."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Mapping

from .._core import Model
from ..errors import Error
from .common import DONE, CommandError

DEADLINE = 5.0


def number(text: str) -> int | float | str:
    """What JSON writes without quotes, where it is one."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def run(options: argparse.Namespace) -> int:
    """Print its statistics."""
    try:
        found = Model.open(options.uri, deadline=DEADLINE).statistics()
    except Error as error:
        raise CommandError(str(error)) from error
    show({name: number(value) for name, value in found.items()}, as_json=options.json)
    return DONE


def show(numbers: Mapping[str, object], *, as_json: bool) -> None:
    """Print them, one a line."""
    if as_json:
        print(json.dumps(numbers), flush=True)
        return
    width = max(map(len, numbers))
    for name, value in numbers.items():
        print(f"{name:{width}}  {value}", flush=True)
