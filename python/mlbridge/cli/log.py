# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge log`: what is in a training log of LLVM."""

from __future__ import annotations

import argparse
from collections import Counter

from ..errors import Error
from ..training_log import TrainingLog, to_recording
from .common import DONE, CommandError
from .serve import show


def run(options: argparse.Namespace) -> int:
    """Print a summary, and convert the log if asked to."""
    try:
        log = TrainingLog(options.file)
        contexts = observations = rewards = 0
        decisions: Counter[str] = Counter()
        for context in log.contexts():
            contexts += 1
            observations += len(context)
            rewards += sum(reward is not None for reward in context.rewards)
            if log.decision:
                made = (o[log.decision] for o in context.observations if log.decision in o)
                decisions.update(f"{value.flat[0]:g}" for value in made if value.size)
        if options.output is not None:
            to_recording(options.file, options.output)
    except Error as error:
        raise CommandError(str(error)) from error
    features = [str(tensor) for tensor in log.header.features]
    found: dict[str, object] = {
        "contexts": contexts,
        "observations": observations,
        "rewards": rewards,
        "features": features if options.json else ", ".join(features),
    }
    if log.decision:
        most = dict(decisions.most_common(40))
        told = ", ".join(f"{value} ({count} times)" for value, count in most.items())
        found[log.decision] = most if options.json else told
    elif log.header.advice is not None:
        found[log.header.advice.name] = {} if options.json else "not logged: asked at a channel"
    show(found, as_json=options.json)
    if log.damage:
        raise CommandError(f"{options.file}: {log.damage}")
    return DONE
