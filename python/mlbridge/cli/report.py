# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge report`: a page about a build, an evaluation, a recording or a training."""

from __future__ import annotations

import argparse

from .arguments import Parser
from .common import DONE, must_be_writable


def add_arguments(parser: Parser) -> None:
    """The options of `mlbridge report`."""
    parser.describe(
        """\
Writes one HTML file, which needs no network, about what WHAT is: the report.json of `mlbridge
validate` or `make demo`, the file of `mlbridge specialize`, a recording or a folder of them
(--log), the folder of a training, object files, executables or a folder of them. Of two of a kind
the second is compared with the first.""",
        "example:\n  mlbridge report report.json -o report.html\n"
        "  mlbridge report build-before/ build-after/ -o sizes.html",
    )
    parser.add_argument("what", metavar="WHAT", nargs="+", help="a file or folder")
    parser.option(
        "-o FILE", "the page (default: report.html)", dest="output", default="report.html"
    )
    parser.option("--title TEXT", "(default: what it is made from)")


def run(options: argparse.Namespace) -> int:
    """Read, and write the page."""
    from .. import report

    must_be_writable(o=options.output)
    sources = report.read(options.what)
    report.write(
        options.output, sources, options.title or " and ".join(report.labels(options.what))
    )
    return DONE
