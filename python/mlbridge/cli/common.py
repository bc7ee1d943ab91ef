# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exit codes and errors of all commands, and what several of them say."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from .. import files

#: The exit codes of every command, which `--help` lists.
DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 128 + signal.SIGINT
EXIT_CODES = (
    "exit codes: 0 success; 1 failure, with the reason on stderr;\n"
    "2 the command line is wrong; 130 interrupted"
)


class CommandError(Exception):
    """The command can't be carried out; the text goes to the user, on one line."""

    code = FAILED


class UsageError(CommandError):
    """The command line is wrong, whatever files and programs there are."""

    code = WRONG_USAGE


class Interrupted(CommandError):
    """Ctrl-C, and what it leaves."""

    code = INTERRUPTED


def must_be_writable(**places: str | None) -> None:
    """CommandError if there is no folder for a file, before long work; only DIRs are made. Options
    are stated by their names, o for -o; one that isn't given is None."""
    for name, place in places.items():
        if place and not os.access(os.path.dirname(os.path.abspath(place)), os.W_OK):
            option = f"-{name}" if len(name) == 1 else f"--{name}"
            why = "no such folder, or not yours"
            raise CommandError(f"{option}: {place} can't be written: {why}")


def nearest(word: str, known: list[str]) -> str:
    """A hint at the known word that is most like this one; empty if none is."""
    from difflib import get_close_matches

    close = get_close_matches(word, known, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def version() -> str:
    """The version of this package."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed(files.DISTRIBUTION)
    except PackageNotFoundError:  # run from a build tree
        from .. import _core

        return _core.version


def printable(text: str) -> str:
    """The text without what would move a terminal's cursor."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def warning(command: str) -> Callable[[str], None]:
    """Prints remarks of a command on stderr."""

    def warned(text: str) -> None:
        print(f"mlbridge {command}: {printable(text)}", file=sys.stderr, flush=True)

    return warned


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, left: Container[str]
) -> None:
    """Print rows below their columns; the columns that aren't in `left` are aligned at the
    right."""
    cells = [[printable(str(cell)) for cell in line] for line in (columns, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        padded = (
            cell.ljust(width) if name in left else cell.rjust(width)
            for name, cell, width in zip(columns, line, widths, strict=True)
        )
        print("  ".join(padded).rstrip())


def show(values: Mapping[str, object], *, as_json: bool) -> None:
    """Print named values, one a line."""
    if as_json:
        import json

        print(json.dumps(values), flush=True)
        return
    width = max(map(len, values), default=0)
    for name, value in values.items():
        print(f"{name:{width}}  {printable(str(value))}", flush=True)
