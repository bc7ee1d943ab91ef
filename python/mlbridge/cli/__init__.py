# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The `mlbridge` command. Each command imports what it needs only when it runs."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from ..errors import Error
from .common import FAILED, WRONG_USAGE, CommandError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    from .parser import parser

    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words:
        parser().print_help()
        return WRONG_USAGE
    try:
        options = parser().parse_args(words)
        module = importlib.import_module("." + options.module, __name__)
        code: int = getattr(module, options.function)(options)
        return code
    except CommandError as error:
        command = words[0] if words and not words[0].startswith("-") else ""
        text = " ".join(str(error).split()).encode(errors="backslashreplace").decode()
        print(f"{f'mlbridge {command}'.strip()}: {text}", file=sys.stderr)
        return error.code
    except BrokenPipeError:
        return FAILED
    except KeyboardInterrupt:
        raise
    except Exception as error:
        if os.environ.get("MLBRIDGE_TRACEBACK"):
            raise
        print(f"mlbridge {words[0]}: {described(error)}", file=sys.stderr)
        return FAILED


def described(error: Exception) -> str:
    """An error that no command has foreseen, on one line."""
    text = " ".join(str(error).split())[:500].encode(errors="backslashreplace").decode()
    if isinstance(error, Error):
        return text
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else text
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    return (
        f"{type(error).__name__}: {text}; this is a bug of mlbridge, please report it with what "
        "MLBRIDGE_TRACEBACK=1 shows"
    )
