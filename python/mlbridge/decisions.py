# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What models decided, from the logs of a compiler plugin (`mlbridge flags --log DIR`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .errors import InvalidArgument
from .reading import parse_json, read_json, read_text


@dataclass(frozen=True)
class Decisions:
    """What the logs of a build say: groups chosen, candidates tried or answers given; modules
    decided, or what else was asked about (files or functions); modules that fell back."""

    made: int = 0
    finished: int = 0
    failed: int = 0
    #: For each source file, what was chosen each time that it was compiled, sorted: groups, or the
    #: number of the candidate that was kept, if any.
    actions: dict[str, list[list[int]]] = field(default_factory=dict, compare=False)


def read_decisions(folder: Path) -> Decisions:
    """The logs and recordings that compiler plugins wrote into `folder`; InvalidArgument if one is
    damaged."""
    made = finished = failed = 0
    actions: dict[str, list[list[int]]] = {}
    for log in sorted(folder.glob("*.jsonl")):
        chosen: list[int] = []
        for number, line in enumerate(read_text(log).split("\n"), 1):
            if not line:
                continue
            try:
                entry = dict(parse_json(line))
            except (TypeError, ValueError) as error:
                raise InvalidArgument(f"{log}:{number}: not a decision log: {error}") from error
            if "source" in entry:
                actions.setdefault(entry["source"], []).append(chosen)
            if "action" in entry:
                chosen.append(entry["action"])
            if "outcome" in entry:
                failed += entry["outcome"] == "failed"
                finished += entry["outcome"] != "failed"
        made += len(chosen)
    asked = bool(actions)  # of a policy that is compared, the lines above have counted the modules
    for log in sorted(folder.glob("*.trials.json")):
        try:
            entry = read_json(log)
            names = [one["name"] for one in entry["trials"]]
            kept = [names.index(entry["winner"])] if entry["winner"] is not None else []
            source, problem = entry["source"], "problem" in entry
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidArgument(f"{log}: not a log of candidates: {error!r}") from error
        failed += problem
        finished += (not asked) - problem
        made += len(names)
        actions.setdefault(source, []).append(kept)
    for modules in actions.values():
        modules.sort()
    recordings = sorted(folder.glob("*.mlbrec"))
    if recordings:
        answered, about = _recorded(recordings)
        made, finished = made + answered, finished + about
    return Decisions(made, finished, failed, actions)


def _recorded(paths: list[Path]) -> tuple[int, int]:
    """Answers, and the files or functions that they were about."""
    from .recording import Recording

    answers, about = 0, set[str]()
    for path in paths:
        for record in Recording(path).records():
            if record.kind == "reply":
                answers += 1
            elif record.kind == "request":
                about.add(str(record.fields.get("context", "")))
    return answers, len(about)
