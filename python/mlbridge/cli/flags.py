# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge flags`: what to add to a compiler's command line so that it asks a model.

Starts neither NumPy nor the extension: a build system may run it for every file.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence

from .. import files
from .arguments import Parser
from .command_line import words
from .common import DONE, CommandError
from .models import must_open
from .probe import compiler_file, must_ask
from .request import add_asking, decisions_of, request_of


def add_arguments(parser: Parser) -> None:
    """The options of `mlbridge flags`."""
    parser.describe(
        "Prints, on one line, what to add to a compiler's command line.",
        """\
Without --model, phase ordering compares the compiler's own passes with the best candidate that
comes with this package, and gives no object more executable bytes; the others ask the policies that
come with it. They act at the levels that --levels lists as its default; polly-tiling also turns
Polly on.
gcc-settings is for gcc-12 and g++-12. mlir-tiling is for mlir-opt-22; several options need eval, as
there are blanks between them. Paths are made absolute, so that a build may change folders. If this
command is missing or fails, the shell silently runs the compiler without a model; to fail instead,
use mlbridge wrapper.

example:
  make CC="clang-22 $(mlbridge flags phase-ordering)\"""",
    )
    add_asking(parser)
    parser.option(
        "--require",
        "open the model now and, unless it is a server, have the compiler ask it once; exit with 1 "
        "if that fails. Implies --on-failure fail",
    )


def run(options: argparse.Namespace) -> int:
    """Print the line."""
    print(flags_line(options))
    return DONE


def flags_line(options: argparse.Namespace) -> str:
    """The line that `mlbridge flags` prints."""
    if decisions := decisions_of(options):
        return line_of(decisions.words())
    request = request_of(options, files.onnx_runtime())
    if options.compiler:
        compiler_file(request)
    if options.require:
        for query in request.queries:
            for uri in query.uris:
                must_open(uri)
        must_ask(request)
        request = request._replace(on_failure=request.on_failure or "fail")
    elif (
        any(query.uri.startswith("onnx:") and not query.is_stated for query in request.queries)
        and files.find_onnx_runtime() is None
    ):
        print(
            "mlbridge flags: ONNX Runtime is not in this Python environment (pip install "
            "onnxruntime); `mlbridge doctor` says whether the compiler finds another",
            file=sys.stderr,
        )
    schemes = {scheme for query in request.queries for scheme in query.schemes}
    if os.environ.get("MLBRIDGE_COMPONENT_PATH") != files.STATED_COMPONENTS and any(
        files.find_component(kind, scheme) for kind in ("engine", "transport") for scheme in schemes
    ):
        print(
            "mlbridge flags: parts of this package are in several places; the compiler needs "
            f"MLBRIDGE_COMPONENT_PATH={os.environ['MLBRIDGE_COMPONENT_PATH']}",
            file=sys.stderr,
        )
    return line_of(words(request), is_plain=request.kind == "mlir")


def line_of(words: Sequence[str], *, is_plain: bool = False) -> str:
    """The words as one line; `is_plain`: what has no blanks needs no quotes there."""
    # Braces and brackets that $(…) leaves in a command line have no meaning there.
    line = [word if is_plain and " " not in word else quoted(word) for word in words]
    if odd := next((word for word in line if word.startswith("'")), None):
        print(
            f'mlbridge flags: {odd} is quoted for make and for eval; in "clang $(mlbridge flags '
            '…)" the quotes stay, so choose a path without blanks there, or `mlbridge wrapper`',
            file=sys.stderr,
        )
    return " ".join(line)


def quoted(argument: str) -> str:
    """The argument as it may stand in CC, which make and configure hand to a shell."""
    if re.fullmatch(r"([\w./:+,=@%?-]|\{agent\})+", argument, re.ASCII):
        return argument
    bad = re.search(r"[^\w./:+,=@%?&;()\[\]{}<>|*!^~ -]", argument)
    if bad:
        raise CommandError(
            f"{argument!r} has the character {bad[0]!r}, which cannot be quoted for both make "
            "and a shell; move the file to another place"
        )
    return f"'{argument}'"
