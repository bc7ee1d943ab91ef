# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the manual pages of the command `mlbridge` and its completions, from its own help.

    tools/command_files.py DEST

DEST/man1 has a page for each command, by help2man; DEST/mlbridge completes command lines in bash
and DEST/_mlbridge in zsh, by shtab. The package mlbridge must be there to be imported.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import shtab

from mlbridge.cli.common import version
from mlbridge.cli.parser import COMMANDS, parser
from mlbridge.optimizations import OPTIMIZATIONS

# As wide as the longest text, since help2man joins words that are divided at a hyphen.
SCRIPT = """#!/bin/sh
COLUMNS=10000 {python} -m {words} --help | sed '1s/^usage/Usage/'
"""


def commands(
    of: argparse.ArgumentParser, words: tuple[str, ...] = ("mlbridge",), summary: str = ""
) -> Iterator[tuple[tuple[str, ...], str, argparse.ArgumentParser]]:
    """The parser and those of its commands: words, summary, parser."""
    yield words, summary, of
    for action in of._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                yield from commands(
                    action.choices[choice.dest], (*words, choice.dest), choice.help or ""
                )


def write_pages(top: argparse.ArgumentParser, folder: Path) -> None:
    """A page for each command."""
    folder.mkdir(parents=True, exist_ok=True)
    summary = "connects compiler optimizations to machine-learning models"
    with tempfile.TemporaryDirectory() as scripts:
        for words, text, _ in commands(top, summary=summary):
            script = Path(scripts) / "-".join(words)  # by its name the page is called
            python = shlex.quote(sys.executable)
            script.write_text(SCRIPT.format(python=python, words=" ".join(words)))
            script.chmod(0o755)
            options = ["--no-info", "--locale=C.UTF-8", f"--name={text}"]
            options += [f"--version-string={version()}", f"--output={folder / script.name}.1"]
            subprocess.run(["help2man", *options, str(script)], check=True)


def write_completions(top: argparse.ArgumentParser, folder: Path) -> None:
    """What completes command lines; a word that is none of a command's own is a file."""
    for _, summary, of in commands(top):
        of.description = summary
        for action in of._actions:
            if action.help == argparse.SUPPRESS:
                action.help = None  # shtab leaves out what has none
            if action.choices or action.nargs == 0:
                continue
            if action.dest.startswith("optimization"):
                action.choices = list(OPTIMIZATIONS)
            else:
                setattr(action, "complete", shtab.FILE)  # noqa: B010 (shtab reads it)
    for name, shell in (("mlbridge", "bash"), ("_mlbridge", "zsh")):
        (folder / name).write_text(shtab.complete(top, shell=shell))


def main(folder: Path) -> None:
    write_pages(parser(COMMANDS), folder / "man1")
    write_completions(parser(COMMANDS), folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
