# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decisions counted in what compilers write by --log."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import mlbridge
from mlbridge import InvalidArgument, PolicyFailed
from mlbridge.decisions import Decisions, read_decisions


@mlbridge.function("counts", mlbridge.parse_signature("(x: int64) -> (action: int64)"))
def counts(observation: Mapping[str, Any], context: mlbridge.CallContext) -> int:
    """Fails for a negative number."""
    if observation["x"] < 0:
        raise ValueError("a negative number")
    return int(observation["x"])


@mlbridge.function("inlines", mlbridge.parse_signature("(x: int64) -> (inline: int64)"))
def inlines(observation: Mapping[str, Any], context: mlbridge.CallContext) -> int:
    return 1


def asked(folder: Path, model: str, source: str, *numbers: int) -> None:
    """An episode of a compiler that asks about each number."""
    with contextlib.closing(mlbridge.open(f"function:{model}?record={folder}")) as runner:
        runner.begin_episode("", source)
        try:
            for number in numbers:
                runner.evaluate(x=number)
        except PolicyFailed as error:
            runner.end_episode(str(error))
        else:
            runner.end_episode()


def trials(folder: Path, source: str, *names: str, **more: object) -> None:
    tried = [{"name": name} for name in names]
    entry = {"source": source, "trials": tried, "winner": None, **more}
    (folder / f"{source}-0.trials.json").write_text(json.dumps(entry))


def test_what_models_decided_is_counted(tmp_path: Path) -> None:
    asked(tmp_path, "counts", "a.c", 3, 1, 4)
    asked(tmp_path, "counts", "a.c", 1)
    asked(tmp_path, "counts", "b.c", 5, -1)
    trials(tmp_path, "b.c", problem="a negative number")
    read = read_decisions(tmp_path)
    assert read == Decisions(made=5, finished=2, failed=1)
    assert read.actions == {"a.c": [[1], [3, 1, 4]], "b.c": [[5]]}
    asked(tmp_path, "inlines", "a.c", 1, 2)
    asked(tmp_path, "inlines", "a.c", 3)
    assert read_decisions(tmp_path) == Decisions(made=8, finished=3, failed=1)


def test_candidates_are_counted(tmp_path: Path) -> None:
    trials(tmp_path, "a.c", "a", "b", winner="b")
    trials(tmp_path, "b.c", "a", "b")
    trials(tmp_path, "c.c", "a", "b", problem="candidate 'a' crashed")
    read = read_decisions(tmp_path)
    assert read == Decisions(made=6, finished=2, failed=1)
    assert read.actions == {"a.c": [[1]], "b.c": [[]], "c.c": [[]]}
    trials(tmp_path, "d.c", "a", winner="nobody")
    with pytest.raises(InvalidArgument, match=r"d\.c-0\.trials\.json: not a log of candidates"):
        read_decisions(tmp_path)


def test_a_policy_that_is_compared_counts_once(tmp_path: Path) -> None:
    for source in ("a.c", "b.c"):
        asked(tmp_path, "counts", source, 1, 2)
        trials(tmp_path, source, "of the model", **({"problem": "no"} if source == "b.c" else {}))
    assert read_decisions(tmp_path) == Decisions(made=6, finished=1, failed=1)
