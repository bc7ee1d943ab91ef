# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the commands share: how they end, and how they read times and numbers."""

from __future__ import annotations

import argparse
import os
import re
from dataclasses import dataclass

from .. import files

#: How every command ends; `--help` says so.
DONE, FAILED, WRONG_USAGE = 0, 1, 2
EXIT_CODES = (
    "exit codes: 0 success; 1 failure, with the reason on stderr;\n2 the command line is wrong"
)


JSON = "print the result as JSON"

#: What makes a package that has a part which this one was built without.
REBUILD = "then install mlbridge again (in its source tree: make build)"


@dataclass(frozen=True)
class Optimization:
    """One that has a compiler plugin. Its name is what the plugin's options begin with."""

    plugin: str
    model: str | None = None  #: that is shipped
    versions: tuple[int, ...] = (22,)  #: of LLVM
    gcc: int | None = None  #: the version, if it is one of GCC
    mlir: int | None = None  #: the version, if it is one of MLIR
    agents: tuple[str, ...] = ()  #: if there are several, each may have a model of its own
    level: str = "Oz"  #: one at which it asks if nothing is said
    llvm: tuple[str, ...] = ()  #: other options of LLVM that it needs

    def file(self, llvm: int) -> str:
        """The plugin, whether or not it is there."""
        if self.mlir:
            return files.plugin(self.plugin)
        return files.gcc_plugin(self.plugin) if self.gcc else files.plugin(self.plugin, llvm)

    def compiler(self, llvm: int) -> str:
        if self.mlir:
            return f"mlir-opt-{self.mlir}"
        return f"gcc-{self.gcc}" if self.gcc else f"clang-{llvm}"

    @property
    def package(self) -> str:
        """What Debian has of the compiler that its plugin is built with, unless that is LLVM."""
        return f"libmlir-{self.mlir}-dev" if self.mlir else f"gcc-{self.gcc}-plugin-dev"


OPTIMIZATIONS = {
    "phase-ordering": Optimization("phase-ordering", "phase-ordering-size", (22, 19)),
    "inliner": Optimization("inliner", "inliner-size", (22, 19)),
    "regalloc-eviction": Optimization("regalloc-advice", "regalloc-eviction", (22, 19), level="O2"),
    "regalloc-priority": Optimization("regalloc-advice", level="O2"),
    "register-allocation": Optimization(
        "register-allocation",
        "register-allocation",
        agents=("node", "task", "colour", "split"),
        level="O2",
    ),
    "loop-distribution": Optimization(
        "loop-distribution", "loop-distribution", agents=("node", "distribute"), level="O3"
    ),
    "polly-tiling": Optimization("polly-tiling", "polly-tiling", level="O3", llvm=("-polly",)),
    "gcc-settings": Optimization("gcc_settings", "gcc-settings", (), gcc=12, level="O2"),
    "mlir-tiling": Optimization("mlir-tiling", "mlir-tiling", (), mlir=22),
}

_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}


class CommandError(Exception):
    """What was asked for cannot be done; the text goes to the user, on one line."""

    code = FAILED


class UsageError(CommandError):
    """The command line is wrong."""

    code = WRONG_USAGE


def must_be_writable(option: str, place: str) -> None:
    """CommandError if there is no folder for a file, before long work; only DIRs are made."""
    if not os.access(os.path.dirname(os.path.abspath(place)), os.W_OK):
        raise CommandError(f"{option}: {place} can't be written: no such folder, or not yours")


def number_from_one(text: str) -> int:
    if not re.fullmatch(r"0*[1-9][0-9]{0,17}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got '{text}'")
    return int(text)


def seconds(text: str) -> float:
    """A time of the command line or of a URI."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s|m)", text, re.ASCII)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected a time such as 5s or 250ms, got '{text}'")
    return float(match[1]) * _SECONDS[match[2]]


def duration(text: str) -> str:
    if seconds(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a time such as 5s or 250ms, got '{text}'")
    return text


def assignment(expected: str, text: str) -> tuple[str, str]:
    """What `expected` shows: "NAME=NUMBER"."""
    name, _, value = text.partition("=")
    if not name or not value:
        raise argparse.ArgumentTypeError(f"expected {expected}, got '{text}'")
    return name, value


def nearest(word: str, known: list[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, known, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def version() -> str:
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed(files.DISTRIBUTION)
    except PackageNotFoundError:  # run from a build tree
        from .. import _core

        return _core.version
