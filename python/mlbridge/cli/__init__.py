# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The `mlbridge` command. Each command imports what it needs only when it runs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

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
        print(f"{f'mlbridge {command}'.strip()}: {' '.join(str(error).split())}", file=sys.stderr)
        return error.code
    except BrokenPipeError:
        return FAILED
