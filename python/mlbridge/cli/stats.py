# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge stats`: what a running server has done."""

from __future__ import annotations

import argparse
import contextlib
import json

from .arguments import AT, JSON, Parser, address
from .common import DONE, show

#: Seconds that a server may take to say what it has done.
DEADLINE = 5.0


def add_arguments(parser: Parser) -> None:
    """The options of `mlbridge stats`."""
    parser.describe(
        "Asks a running server what it has done so far, for all compilers together.",
        "example:\n  mlbridge stats unix:/tmp/policy.sock --json",
    )
    parser.add_argument(
        "uri", metavar="URI", type=address, help=AT.replace("where", "where it listens")
    )
    parser.option("--json", JSON)


def run(options: argparse.Namespace) -> int:
    """Print the server's statistics."""
    from .._core import Model

    statistics = Model.open(options.uri, deadline=DEADLINE).statistics()
    numbers: dict[str, object] = dict(statistics)
    for name, text in statistics.items():
        with contextlib.suppress(ValueError, RecursionError):  # one that is no number
            numbers[name] = json.loads(text)
    show(numbers, as_json=options.json)
    return DONE
