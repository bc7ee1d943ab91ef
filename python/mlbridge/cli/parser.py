# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command line of `mlbridge`: each command's module adds its arguments once it is needed."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from importlib import import_module
from typing import Any, NoReturn

from .arguments import Parser
from .common import EXIT_CODES, version

#: The commands. The module of each has the function add_arguments, and run unless it has parts.
COMMANDS = {
    "path": "print where a compiler plugin is",
    "flags": "print what to add to a compiler's command line",
    "wrapper": "write a compiler that asks a model",
    "validate": "compare builds with and without a model",
    "report": "write a page about builds, recordings, a training",
    "doctor": "check what is installed and what is missing",
    "serve": "serve a model to compilers",
    "replay": "answer compilers from a recording",
    "run": "run a compiler whose decisions a policy takes",
    "log": "show what is in a training log of LLVM",
    "inspect": "show what a model is and what runs it",
    "aot": "compile an ONNX network to an object file",
    "train": "train a policy with the compiler as the environment",
    "tune": "train several policies with drawn settings",
    "corpus": "collect the bitcode of whole programs, to train and to measure on",
    "vocabulary": "train a vocabulary for embeddings",
    "candidates": "measure and choose what --effort compares",
    "stats": "ask a running server what it has done",
}
#: Former names, for build files that have them. No help shows them.
FORMER = {"compile": "aot"}


class Version(argparse.Action):
    """Prints the version and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        print(f"mlbridge {version()}")
        parser.exit()


def parser(filled: Collection[str]) -> Parser:
    """The parser of all commands, with the arguments of those that are to be `filled`."""
    top = Parser(
        prog="mlbridge",
        description="Connects compiler optimizations to machine-learning models.",
        epilog="mlbridge COMMAND --help describes a command, with an example.\n\n" + EXIT_CODES,
    )
    top.add_argument("--version", action=Version, nargs=0, help="print the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        added: Parser = commands.add_parser(name, help=summary)
        if name in filled:
            module = import_module(f".{name}", __package__)
            module.add_arguments(added)
            added.set_defaults(function=getattr(module, "run", None))
    return top
