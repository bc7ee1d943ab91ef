# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command line of `mlbridge corpus`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from .common import EXIT_CODES, JSON, assignment, number_from_one


def corpora(commands: Any, command: Callable[..., Any]) -> None:
    """`mlbridge corpus` and its own commands."""
    top = commands.add_parser(
        "corpus",
        help="collect the bitcode of whole programs, to train and to measure on",
        description="Collects the unoptimized bitcode of whole programs (docs/corpora.md).",
        epilog="example:\n  mlbridge corpus add mine -- make CC=clang-22\n\n" + EXIT_CODES,
    )
    under = top.add_subparsers(dest="action", metavar="COMMAND", required=True)
    name = argparse.ArgumentParser(add_help=False)
    name.add_argument("name", metavar="NAME", help="a corpus: a name, or a path with a slash")

    add = command(
        "corpus:add",
        "add the modules of a program",
        """\
Adds the modules that clang compiles in a build: COMMAND runs as it is, with clang-22 as its CC and
CXX, and with compilers that keep what they compile first in its PATH. What is there already, also
of another program, is not added again. After an interruption the same command goes on.""",
        """\
If COMMAND fails, its exit code is this command's.

example:
  mlbridge corpus add mine -- make -j2 CC=clang-22
  mlbridge corpus add mine --compile-commands build/compile_commands.json""",
        parents=(name,),
        under=under,
    )
    add.takes_command = True
    add.usage = "mlbridge corpus add [OPTION ...] NAME [-- COMMAND ...]"
    source = add.add_mutually_exclusive_group()
    for flag, value, text in (
        ("--compile-commands", "FILE", "compile again what a compile_commands.json lists"),
        ("--debian", "PACKAGE", "build a Debian source package: NAME or NAME=VERSION"),
        ("--pypi", "NAME", "build a source distribution from PyPI: NAME or NAME==VERSION"),
    ):
        source.add_argument(flag, metavar=value, help=text)
    source.add_argument(
        "--embedded",
        metavar="FILE",
        nargs="+",
        help="take the bitcode in objects of clang -Xclang -fembed-bitcode=all",
    )
    add.option("--program NAME", "what the program is called (default: the folder, the package)")
    add.option("--version TEXT", "the version of the program", default="")
    add.option("--measure", "also compile each module at -Oz, and keep its bytes of code")
    add.option("--jobs N", "how many to compile at once", type=number_from_one, default=2)

    listing = command(
        "corpus:list",
        "list the corpora and their sizes",
        """\
Lists the corpora that are known by their name: those in $MLBRIDGE_CORPORA, or else in
~/.local/share/mlbridge/corpora.""",
        "example:\n  mlbridge corpus list",
        under=under,
    )
    show = command(
        "corpus:show",
        "show the programs of a corpus, or a module",
        "Shows the programs of a corpus, or what is known of a module.",
        "example:\n  mlbridge corpus show mine\n  mlbridge corpus show mine 1f0c3a --extract .",
        parents=(name,),
        under=under,
    )
    show.add_argument("which", metavar="MODULE", nargs="?", help="a hash, or PROGRAM/SOURCE")
    show.option("--extract DIR", "write the module's bitcode into this folder")
    split = command(
        "corpus:split",
        "divide the programs of a corpus into parts",
        """\
Divides the programs, never the modules of one, into parts, and keeps that in the corpus. The same
programs, parts and seed always give the same split. Run it again after programs were added; those
that have a part keep it.""",
        "example:\n  mlbridge corpus split mine --seed 1 --parts training=8,validation=1,test=1",
        parents=(name,),
        under=under,
    )
    split.option("--seed N", "any number", type=int, required=True)
    split.option("--parts LIST", "NAME=SHARE,…", type=shares, required=True)
    for shown in (add, listing, show, split):
        shown.option("--json", JSON)


def shares(text: str) -> dict[str, float]:
    parts: dict[str, float] = {}
    for part in text.split(","):
        name, value = assignment("NAME=SHARE,…", part)
        try:
            share = float(value)
        except ValueError:
            share = 0.0
        if not 0 < share < float("inf") or name in parts:
            raise argparse.ArgumentTypeError(f"expected another name and a share, got '{part}'")
        parts[name] = share
    return parts
