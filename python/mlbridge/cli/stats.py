# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mlbridge stats: what a running server has done."""

from __future__ import annotations

import contextlib
import json

from .. import Error, Model
from . import CommandError

DEADLINE = 5.0


def number(text: str) -> int | float | str:
    """What JSON writes without quotes, where it is one."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def show(uri: str, *, as_json: bool) -> None:
    """Print its statistics."""
    try:
        found = Model.open(uri, deadline=DEADLINE).statistics()
    except Error as error:
        raise CommandError(str(error)) from error
    numbers = {name: number(value) for name, value in found.items()}
    if as_json:
        print(json.dumps(numbers, indent=1))
        return
    width = max(map(len, numbers))
    for name, value in numbers.items():
        print(f"{name:{width}}  {value}")
