# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge replay`: answers from a recording."""

from __future__ import annotations

import argparse
import sys

from .arguments import Parser
from .serve import add_listening, serve_until_stopped


def add_arguments(parser: Parser) -> None:
    """The options of `mlbridge replay`."""
    parser.describe(
        """\
Serves what is in a file of `?record=`, until Ctrl-C or SIGTERM: a request with the same inputs gets
the recorded answer; if there are several, the one at the same episode, unit and step. Any other
request fails.""",
        "example:\n  mlbridge replay session.mlbrec --at unix:/tmp/s.sock",
    )
    parser.add_argument("file", metavar="FILE", help="the recording: session.mlbrec")
    add_listening(parser)


def run(options: argparse.Namespace) -> int:
    """Serve the recording."""
    from ..recording import replay

    def damaged(why: str) -> None:
        print(f"mlbridge replay: {why}", file=sys.stderr, flush=True)

    return serve_until_stopped(options, replay, options.file, options.at, damaged=damaged)
