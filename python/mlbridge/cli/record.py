# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge record` and `mlbridge replay`: conversations into files, and out of them."""

from __future__ import annotations

import argparse
import contextlib

from .. import Error
from ..recording import record, replay
from . import CommandError
from .serve import Stop, show_statistics


def run(options: argparse.Namespace) -> int:
    stop = Stop()
    with stop.on_signals(), contextlib.suppress(KeyboardInterrupt):
        try:
            if options.command == "record":
                done = record(options.model, options.at, options.file, ready=stop.ready)
            else:
                done = replay(options.file, options.at, ready=stop.ready)
        except (Error, OSError) as error:
            raise CommandError(str(error)) from error
        show_statistics(done, as_json=options.json)
    return 0
