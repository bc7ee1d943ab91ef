# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge record` and `mlbridge replay`: conversations into files, and out of them."""

from __future__ import annotations

import argparse
import contextlib
import sys

from ..errors import Error
from ..recording import record, replay
from .common import DONE, FAILED, CommandError
from .serve import Stop, check_place, show_statistics


def run(options: argparse.Namespace) -> int:
    """Record or replay until a signal."""
    check_place(options.at)
    stop = Stop()
    failures: list[str] = []

    def failed(why: str) -> None:
        failures.append(why)
        print(f"mlbridge: {why}; what follows is not recorded", file=sys.stderr, flush=True)

    with stop.on_signals(), contextlib.suppress(KeyboardInterrupt):
        try:
            if options.command == "record":
                done = record(
                    options.model, options.at, options.file, ready=stop.ready, failed=failed
                )
            else:
                done = replay(options.file, options.at, ready=stop.ready)
        except (Error, OSError) as error:
            raise CommandError(str(error)) from error
        show_statistics(done, as_json=options.json)
    return FAILED if failures else DONE
