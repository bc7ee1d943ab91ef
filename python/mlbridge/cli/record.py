# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge record`: what compilers ask a model and what it answers, kept in a file."""

from __future__ import annotations

import argparse
import sys

from .arguments import Parser
from .common import FAILED
from .serve import add_listening, serve_until_stopped


def add_arguments(parser: Parser) -> None:
    """The options of `mlbridge record`."""
    parser.describe(
        """\
Serves another model to compilers and keeps what is asked, answered and rewarded in a new file,
until Ctrl-C or SIGTERM. Prints `ready URI` once compilers can connect.""",
        "example:\n  mlbridge record session.mlbrec --model onnx:policy.onnx --at unix:/tmp/s.sock",
    )
    parser.option("--model URI", "who answers: unix:SOCKET, onnx:FILE, …", required=True)
    parser.add_argument("file", metavar="FILE", help="the recording: session.mlbrec")
    add_listening(parser)


def run(options: argparse.Namespace) -> int:
    """Serve the other model."""
    from ..recording import record

    failures: list[str] = []

    def failed(why: str) -> None:
        failures.append(why)
        print(f"mlbridge: {why}; what follows is not recorded", file=sys.stderr, flush=True)

    code = serve_until_stopped(
        options, record, options.model, options.at, options.file, failed=failed
    )
    return FAILED if failures else code
