# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge log`: what is in a training log of LLVM."""

from __future__ import annotations

import argparse
from collections import Counter

from .arguments import JSON, Parser
from .common import DONE, CommandError, show


def add_arguments(parser: Parser) -> None:
    """The options of `mlbridge log`."""
    parser.describe(
        """\
Shows what is in a training log of LLVM's advisors, or of `mlbridge run --log`: the tensors, the
observations of each function and how often each decision was taken. With -o it is written as a
recording, for training. Exits with 1 if the log is damaged; what is whole of it is shown.""",
        "example:\n  mlbridge log inliner-4711-1.log\n"
        "  mlbridge log inliner-4711-1.log -o inliner.mlbrec",
    )
    parser.add_argument("file", metavar="FILE", help="the log")
    parser.option("-o FILE", "write a recording: session.mlbrec", dest="output")
    parser.option("--json", JSON)


def run(options: argparse.Namespace) -> int:
    """Print a summary, and convert the log if asked to."""
    from ..llvm_channel.log import TrainingLog, to_recording

    log = TrainingLog(options.file)
    contexts = observations = rewards = 0
    decisions: Counter[str] = Counter()
    for context in log.contexts():
        contexts += 1
        observations += len(context)
        rewards += sum(reward is not None for reward in context.rewards)
        if log.decision:
            logged = (o[log.decision] for o in context.observations if log.decision in o)
            decisions.update(f"{value.flat[0]:g}" for value in logged if value.size)
    if options.output is not None:
        to_recording(options.file, options.output)
    features = [str(tensor) for tensor in log.header.features]
    summary: dict[str, object] = {
        "contexts": contexts,
        "observations": observations,
        "rewards": rewards,
        "features": features if options.json else ", ".join(features),
    }
    if log.decision:
        most = dict(decisions.most_common(40))
        text = ", ".join(f"{value} ({count} times)" for value, count in most.items())
        summary[log.decision] = most if options.json else text
    elif log.header.advice is not None:
        summary[log.header.advice.name] = {} if options.json else "not logged: asked at a channel"
    show(summary, as_json=options.json)
    if log.damage:
        raise CommandError(f"{options.file}: {log.damage}")
    return DONE
