# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small program, a clock that says what a test wants, and nodes that aren't there."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from small_program import COUNT, MAIN, MAKE, OTHER, timing

from mlbridge.clock import Timing
from mlbridge.specializing import tries_on_nodes
from mlbridge.trial import evaluated as trial_evaluated
from mlbridge.trials import Options as Nodes
from mlbridge.trials import Result, Trial
from mlbridge.workspace import Variant, Workspace


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    place = tmp_path / "tree"
    (place / "src").mkdir(parents=True)
    (place / "main.c").write_text(MAIN)
    (place / "src/count.c").write_text(COUNT)
    (place / "Makefile").write_text(MAKE)
    return place


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Gives recipes made-up times, in runs and in those that confirm; the commands that ran."""

    def fake(times: Mapping[str, float], confirmed: Mapping[str, float] | None = None) -> list[str]:
        asked: list[str] = []

        def timed(
            self: Workspace, variants: Sequence[Variant], command: str, seconds: float, **_: Any
        ) -> Timing:
            asked.append(command)
            names = [variant.name for variant in variants]
            assert all((self.folder / name / "app").is_file() for name in names)
            is_fresh = command == OTHER and confirmed is not None
            return timing(names, confirmed or {} if is_fresh else times)

        monkeypatch.setattr(Workspace, "time", timed)
        return asked

    return fake


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """Three nodes, in this process; the trials that were given to them at once."""
    given: list[list[str]] = []

    def evaluated(
        function: Callable[[Trial], Any], trials: Iterable[Trial], options: Nodes, **_: Any
    ) -> Iterator[Result[Any]]:
        some = list(trials)
        given.append([one.key for one in some])
        assert options.each == 1 and "ld.lld-22" in options.needs.programs
        there = pickle.loads(pickle.dumps((function, some[::-1])))
        for trial in there[1]:
            monkeypatch.setenv("WHERE", "a node")
            result = trial_evaluated(there[0], trial, "10.0.0.1")
            monkeypatch.delenv("WHERE")
            yield result

    monkeypatch.setattr("mlbridge.specializing.tries_on_nodes.evaluate", evaluated)
    monkeypatch.setattr(
        "mlbridge.specializing.tries_on_nodes.connected", lambda address: nullcontext()
    )
    shared = "mlbridge.specializing.tries_on_nodes.shared"
    monkeypatch.setattr(shared, lambda value: partial(copy, value))
    monkeypatch.setattr("mlbridge.specializing.steps.must_answer", lambda address: None)
    monkeypatch.setattr("mlbridge.specializing.tries_on_nodes.alive", lambda: dict.fromkeys("abc"))
    yield given
    while tries_on_nodes._here:
        tries_on_nodes._here.popitem()[1].close()
