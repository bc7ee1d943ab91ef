# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decisions counted in the logs of a compiler plugin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlbridge import InvalidArgument
from mlbridge.decisions import Decisions, read_decisions


def test_decisions_are_counted_in_all_logs(tmp_path: Path) -> None:
    for name, steps in (("a", 3), ("b", 1)):
        lines: list[dict[str, object]] = [{"format": "phase-ordering-log", "actions": []}]
        lines += [{"step": step, "action": 5} for step in range(steps)]
        outcome = "stop" if steps > 1 else "failed"
        lines.append({"outcome": outcome, "decisions": steps})
        text = "\n".join(json.dumps(line) for line in lines)
        (tmp_path / f"{name}.c-0.jsonl").write_text(text + "\n")
    assert read_decisions(tmp_path) == Decisions(made=4, finished=1, failed=1)
    (tmp_path / "c.jsonl").write_text('{"step": 0, "act')
    with pytest.raises(InvalidArgument, match=r"c\.jsonl:1: not a decision log"):
        read_decisions(tmp_path)


def trials(folder: Path, source: str, **more: object) -> None:
    entry = {"source": source, "trials": [{"name": "a"}, {"name": "b"}], "winner": None, **more}
    (folder / f"{source}-0.trials.json").write_text(json.dumps(entry))


def test_candidates_are_counted(tmp_path: Path) -> None:
    trials(tmp_path, "a.c", winner="b")
    trials(tmp_path, "b.c")
    trials(tmp_path, "c.c", problem="candidate 'a' crashed")
    read = read_decisions(tmp_path)
    assert read == Decisions(made=6, finished=2, failed=1)
    assert read.actions == {"a.c": [[1]], "b.c": [[]], "c.c": [[]]}
    trials(tmp_path, "d.c", winner="nobody")
    with pytest.raises(InvalidArgument, match=r"d\.c-0\.trials\.json: not a log of candidates"):
        read_decisions(tmp_path)
