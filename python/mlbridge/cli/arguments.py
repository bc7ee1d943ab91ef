# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parser of a command, and the types of arguments that several commands have."""

from __future__ import annotations

import argparse
import re
from typing import Any, NoReturn

from .common import EXIT_CODES, UsageError

JSON = "print the result as JSON"
RAY = "a Ray cluster that is running, whose nodes do the work instead of this machine"
AT = "where: unix:SOCKET, grpc:HOST:PORT, …"
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    #: True if a command line, `build`, follows --. (argparse mixes it with the options.)
    takes_command = False
    _mixing = False

    def __init__(self, **named: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **named)

    def describe(self, description: str, example: str) -> None:
        """Set what --help says before and after the options."""
        self.description, self.epilog = description, f"{example}\n\n{EXIT_CODES}"

    def option(self, usage: str, text: str, **rest: Any) -> None:
        """Add the option that `usage` shows: "--json", "--batch N", or "--agent NAME=MODEL ..."."""
        flag, *value = usage.split()
        if value:
            rest["metavar"] = value[0]
        elif "choices" not in rest:
            rest["action"] = "store_true"
        if value[1:]:
            rest.update(action="append", default=[])
        self.add_argument(flag, help=text, **rest)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._mixing:  # argparse itself
            return super().parse_known_args(args, namespace)
        command: list[str] = []
        if self.takes_command and "--" in args:
            at = args.index("--")
            args, command = args[:at], args[at + 1 :]
        if self._subparsers is not None:
            found, rest = super().parse_known_args(args, namespace)
        else:  # options may stand before, between and after what is positional
            self._mixing = True
            try:
                found, rest = self.parse_known_intermixed_args(args, namespace)
            finally:
                self._mixing = False
        if self.takes_command:
            found.build = command
        if rest:
            own = "; a command that has options of its own follows --" * self.takes_command
            self.error(f"unrecognized arguments: {' '.join(rest)}{own}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


def address(text: str) -> str:
    """The type of a server's URI."""
    if not re.match("[A-Za-z][A-Za-z0-9+.-]*:.", text):
        raise argparse.ArgumentTypeError(f"expected unix:SOCKET, grpc:HOST:PORT, …, got '{text}'")
    return text


def number_from_one(text: str) -> int:
    """The type of a count."""
    if not re.fullmatch(r"0*[1-9][0-9]{0,17}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got '{text}'")
    return int(text)


def seconds(text: str) -> float:
    """The type of a time, as URIs have it."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s|m)", text, re.ASCII)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected a time such as 5s or 250ms, got '{text}'")
    return float(match[1]) * _SECONDS[match[2]]


def positive_seconds(text: str) -> float:
    """The type of a time above 0."""
    if not (found := seconds(text)):
        raise argparse.ArgumentTypeError(f"expected a time such as 5s or 250ms, got '{text}'")
    return found


def duration(text: str) -> str:
    """The type of a time above 0 that is handed on as text."""
    positive_seconds(text)
    return text


def assignment(expected: str, text: str) -> tuple[str, str]:
    """The parts of what `expected` shows: "NAME=NUMBER"."""
    name, _, value = text.partition("=")
    if not name or not value:
        raise argparse.ArgumentTypeError(f"expected {expected}, got '{text}'")
    return name, value


def answering(options: argparse.Namespace) -> dict[str, Any]:
    """The options of add_answering, as InteractiveHost takes them."""
    names = ("deadline", "missing", "on_failure", "log")
    return {name: getattr(options, name) for name in names}


def add_answering(parser: Any) -> None:
    """The options of a host of LLVM's channel, for `mlbridge run` and `mlbridge serve`."""
    parser.add_argument(
        "--deadline",
        metavar="TIME",
        help="the longest wait for a decision (default: 5s)",
        type=positive_seconds,
        default=5.0,
    )
    parser.add_argument(
        "--missing",
        help="features that the policy wants and the compiler does not send are a failure (refuse, "
        "the default) or zero",
        choices=["refuse", "zero"],
        default="refuse",
    )
    parser.add_argument(
        "--on-failure",
        help="if the policy fails: a decision that is safe (default), or end the compiler (fail)",
        choices=["default", "fail"],
        default="default",
    )
    parser.add_argument(
        "--log",
        metavar="DIR",
        help="write the observations and decisions of each compiler into this folder, as LLVM's "
        "training logs",
    )
