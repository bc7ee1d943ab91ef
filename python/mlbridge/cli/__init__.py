# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The `mlbridge` command. Each command imports what it needs only when it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from .common import FAILED, INTERRUPTED, WRONG_USAGE, CommandError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    try:
        return carry_out(arguments)
    except KeyboardInterrupt:  # wherever it comes, while modules are imported too
        return INTERRUPTED


def carry_out(arguments: Sequence[str] | None) -> int:
    """Run a command that nobody interrupts; its exit code."""
    from .parser import FORMER, parser

    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words:
        parser(()).print_help()
        return WRONG_USAGE
    words[0] = FORMER.get(words[0], words[0])
    name = "mlbridge" if words[0].startswith("-") else f"mlbridge {words[0]}"
    try:
        options = parser(words[:1]).parse_args(words)
        code: int = options.function(options)
        return code
    except BrokenPipeError:
        return FAILED
    except Exception as error:
        if was_interrupted(error):
            return INTERRUPTED
        if isinstance(error, CommandError):
            print(f"{name}: {one_line(error)}", file=sys.stderr)
            return error.code
        from ..errors import Error

        if os.environ.get("MLBRIDGE_TRACEBACK") and not isinstance(error, (Error, OSError)):
            raise
        print(f"{name}: {described(error)}", file=sys.stderr)
        return FAILED


def was_interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error: an extension makes an ImportError of it."""
    while error and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None


def one_line(error: Exception) -> str:
    """An error's text without line breaks and what can't be encoded."""
    return " ".join(str(error).split()).encode(errors="backslashreplace").decode()


def described(error: Exception) -> str:
    """An error of the library, or one that no command has foreseen, on one line."""
    from ..errors import Error

    text = one_line(error)
    if isinstance(error, Error):
        return text
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else text
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    return (
        f"{type(error).__name__}: {text[:500]}; this is a bug of mlbridge, please report it with "
        "what MLBRIDGE_TRACEBACK=1 shows"
    )
