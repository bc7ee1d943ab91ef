# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge tune`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from .common import DONE
from .train import one_line, settings_of


def run(options: argparse.Namespace) -> int:
    """Search, with a line for each trial that ends, then the best ones."""
    settings = settings_of(options)
    from ..training.tuning import search

    def line(row: dict[str, Any]) -> str:
        drawn = ", ".join(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
                          for name, value in row["drawn"].items())  # fmt: skip
        reward = "none" if row["reward"] is None else f"{row['reward']:.4f}"
        return f"{row['name']}  reward {reward}  steps {row['steps']}  {drawn}"

    with one_line(options.output):
        rows = search(
            settings,
            dict(options.search),
            Path(options.output),
            trials=options.trials,
            at_once=options.at_once,
            resume=options.resume,
            address=options.ray or "",
            shown=lambda row: print(line(dict(row)), flush=True),
        )
    print("best:")
    for row in rows[:5]:
        print(line(row))
    for row in rows:
        if "error" in row:
            print(f"{row['name']} failed: {row['error']}", file=sys.stderr)
    return DONE
