# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command line of `mlbridge`: each command's module adds its arguments once it is needed."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from importlib import import_module
from typing import Any, NoReturn

from .arguments import Parser
from .common import EXIT_CODES, version

#: The commands, as `--help` groups them. The module of each has the function add_arguments, and run
#: unless it has parts.
GROUPS = {
    "compile": {
        "flags": "print what to add to a compiler's command line",
        "wrapper": "write a compiler that asks a model",
        "path": "print where a compiler plugin is",
        "run": "run a compiler whose decisions a policy takes",
        "validate": "compare builds with and without a model",
        "specialize": "make a program faster by a profile of its runs",
    },
    "models": {
        "inspect": "show what a model is and what runs it",
        "serve": "serve a model to compilers",
        "replay": "answer compilers from a recording",
        "aot": "compile an ONNX network to an object file",
        "convert": "make an ONNX file of a policy of LLVM's MLGO",
    },
    "training": {
        "train": "train a policy with the compiler as the environment",
        "tune": "train several policies with drawn settings",
        "corpus": "collect the bitcode of whole programs, to train and to measure on",
        "vocabulary": "train a vocabulary for embeddings",
        "candidates": "measure and choose what --effort compares",
    },
    "diagnosis": {
        "report": "write a page about builds, recordings, a training",
        "doctor": "check what is installed and what is missing",
        "stats": "ask a running server what it has done",
        "log": "show what is in a training log of LLVM",
    },
}
COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}
#: Former names, for build files that have them. No help shows them.
FORMER = {"compile": "aot"}


START = """\
To start: mlbridge doctor, which says what works here and what is missing; then compile with
  clang-22 $(mlbridge flags phase-ordering) -Oz -c FILE.c

Connects compiler optimizations to machine-learning models.
"""


class Version(argparse.Action):
    """Prints the version and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        print(f"mlbridge {version()}")
        parser.exit()


def listed(group: str) -> str:
    """A group of commands as `--help` lists it."""
    lines = (f"  {name:12}{summary}\n" for name, summary in GROUPS[group].items())
    return f"\n{group}:\n{''.join(lines)}"


def parser(filled: Collection[str]) -> Parser:
    """The parser of all commands, with the arguments of those that are to be `filled`."""
    top = Parser(
        prog="mlbridge",
        usage="mlbridge [-h] [--version] COMMAND ...",
        # A command, such as `flags` in each step of a build, doesn't show it.
        description=None if COMMANDS.keys() & filled else START + "".join(map(listed, GROUPS)),
        epilog="mlbridge COMMAND --help describes a command, with an example.\n\n" + EXIT_CODES,
    )
    top.add_argument("--version", action=Version, nargs=0, help="print the version and exit")
    commands = top.add_subparsers(
        prog="mlbridge",
        dest="command",
        metavar="COMMAND",
        required=True,
        help=argparse.SUPPRESS,  # argparse knows no groups of commands; the description has them
    )
    for name, summary in COMMANDS.items():
        added: Parser = commands.add_parser(name, help=summary)
        if name in filled:
            module = import_module(f".{name}", __package__)
            module.add_arguments(added)
            added.set_defaults(function=getattr(module, "run", None))
    return top
