# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command line of `mlbridge run` and `log`, for the decisions of LLVM's own advisors."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from .common import duration, seconds

SITES = ("inliner", "regalloc-eviction", "regalloc-priority")


def advice(text: str) -> tuple[str, str]:
    """SITE=POLICY of the command line."""
    site, _, policy = text.partition("=")
    if site not in SITES or not policy:
        raise argparse.ArgumentTypeError(
            f"expected SITE=POLICY with a site of {', '.join(SITES)}, got '{text}'"
        )
    return site, policy


def answering(parser: Any) -> None:
    """How a host answers, of `mlbridge run` and of `mlbridge serve --at llvm-interactive:BASE`."""
    parser.add_argument(
        "--deadline",
        metavar="TIME",
        help="the longest wait for a decision (default: 5s)",
        type=lambda text: seconds(duration(text)),
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


def advising(command: Callable[..., Any]) -> None:
    """Add the commands."""
    run = command(
        "run",
        "run a compiler whose decisions a policy takes",
        """\
Runs unmodified clang, opt or llc with a policy that answers LLVM's own ML advisors. SITE is
inliner, regalloc-eviction or regalloc-priority. POLICY is a model file, a Python function
(FILE.py:NAME, MODULE:NAME) or the URI of a model or server. The compiler is never left without an
answer: if the policy fails, is late, or answers what LLVM can't take, a default is used.""",
        """\
The exit code is the compiler's; it is 1 if the policy fails and --on-failure fail is given. In a
build, all this is the compiler: make CC="mlbridge run --advise … -- clang-22".

example:
  mlbridge run --advise inliner=policy.onnx -- clang-22 -Oz -c f.c
  mlbridge run --advise regalloc-eviction=policy.py:evict -- llc-22 f.bc -o f.s""",
    )
    run.takes_command = True
    run.usage = "mlbridge run --advise SITE=POLICY ... [OPTION ...] -- COMMAND ..."
    run.option("--advise SITE=POLICY ...", "who decides what; once for each site", type=advice)
    answering(run)
    run.option("--json FILE", "write what was decided, in numbers")

    log = command(
        "log",
        "show what is in a training log of LLVM",
        """\
Shows what is in a training log of LLVM's advisors, or of `mlbridge run --log`: the tensors, the
observations of each function and how often each decision was taken. With -o it is written as a
recording, for training. Exits with 1 if the log is damaged; what is whole of it is shown.""",
        "example:\n  mlbridge log inliner-4711-1.log\n"
        "  mlbridge log inliner-4711-1.log -o inliner.mlbrec",
    )
    log.add_argument("file", metavar="FILE", help="the log")
    log.option("-o FILE", "write a recording: session.mlbrec", dest="output")
    log.option("--json", "print the result as JSON")
