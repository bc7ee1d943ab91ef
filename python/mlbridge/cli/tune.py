# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge tune`: several trainings with settings that are drawn."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from .arguments import Parser, assignment, number_from_one
from .common import DONE
from .train import add_training_arguments, one_line, page, settings_of


def add_arguments(parser: Parser) -> None:
    """The options of `mlbridge tune`."""
    parser.describe(
        """\
Searches for good settings by Ray Tune: each trial is a training in DIR/trials, and those whose
reward is behind are ended early (ASHA). DIR/best.json has the trials, best first, DIR/policy.onnx
the best policy. Needs what pip install '.[train]' installs in MLBridge's
source tree.""",
        """\
example:
  mlbridge tune phase-ordering --corpus modules/ --search lr=1e-5..1e-2 --trials 8 -o tuned/""",
    )
    add_training_arguments(parser)
    parser.option(
        "--search NAME=RANGE ...",
        "a setting to draw: LOW..HIGH (whole numbers: 1..5), or choices A,B,C; also of `algorithm` "
        "and `seed`",
        type=lambda text: assignment("NAME=RANGE", text),
    )
    parser.option("--trials N", "(default: 8)", type=number_from_one, default=8)
    parser.option("--at-once N", "trials (default: 1)", type=number_from_one, default=1)


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
    page(options.output, lambda text: print(f"mlbridge tune: {text}", file=sys.stderr))
    print("best:")
    for row in rows[:5]:
        print(line(row))
    for row in rows:
        if "error" in row:
            print(f"{row['name']} failed: {row['error']}", file=sys.stderr)
    return DONE
