# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What models decided in a build, from what compilers wrote by `mlbridge flags --log DIR`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .errors import Code, InvalidArgument
from .reading import read_json
from .recording import Recording

#: The outputs of phase ordering's models: a group of passes, or what they expect of candidates.
_PHASES = {"action", "log_ratio"}


@dataclass(frozen=True)
class Decisions:
    """Counts of a build: answers given and candidates tried; modules decided, or what else was
    asked about (files or functions); modules for which the model or a candidate failed."""

    made: int = 0
    finished: int = 0
    failed: int = 0
    #: For each source file, what was chosen each time that it was compiled, sorted: groups, or the
    #: number of the candidate that was kept, if any.
    actions: dict[str, list[list[int]]] = field(default_factory=dict, compare=False)


def read_decisions(folder: Path) -> Decisions:
    """Counts the recordings and the logs of candidates in `folder`. Raises InvalidArgument for a
    damaged log, InvalidModel for what is no recording."""
    made = episodes = compared = failed = 0
    comparing = False
    actions: dict[str, list[list[int]]] = {}
    about = set[str]()
    for path in sorted(folder.glob("*.mlbrec")):
        for episode in Recording(path).episodes():
            outputs = {name for answer in episode.actions for name in answer}
            if "action" in outputs:
                chosen = [int(answer["action"].item()) for answer in episode.actions]
                actions.setdefault(episode.unit, []).append(chosen)
            if not outputs & _PHASES:
                about |= {episode.unit} if outputs else set()
            elif episode.outcome is not None and episode.outcome.code is Code.OK:
                episodes += 1
            made += len(episode)
    for path in sorted(folder.glob("*.trials.json")):
        try:
            entry = read_json(path)
            names = [one["name"] for one in entry["trials"]]
            kept = [names.index(entry["winner"])] if entry["winner"] is not None else []
            source, problem = entry["source"], "problem" in entry
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidArgument(f"{path}: not a log of candidates: {error!r}") from error
        failed += problem
        compared += not problem
        made += len(names)
        if names:
            comparing = True
            actions.setdefault(source, []).append(kept)
    for chosen_each_time in actions.values():
        chosen_each_time.sort()
    # If a policy is compared, each episode has led to a comparison.
    modules = compared if comparing else episodes
    return Decisions(made, modules + len(about), failed, actions)
