# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trials evaluated by threads. Clusters are tested in tests/cluster."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from mlbridge import DeadlineExceeded, InvalidArgument, NotFound, Unavailable, trials
from mlbridge.cli import main
from mlbridge.cluster import connect
from mlbridge.errors import InternalError
from mlbridge.node_facts import differences, facts
from mlbridge.trials import Options, Trial, evaluate


def size(trial: Trial) -> int:
    if trial.inputs == b"refused":
        raise NotFound(f"{trial.key} is not there")
    if trial.inputs == b"bug":
        raise KeyError("missing")
    return len(trial.inputs)


def asked(*inputs: bytes) -> list[Trial]:
    return [Trial(f"t{number}", one) for number, one in enumerate(inputs)]


def test_values_in_the_order_of_the_trials_or_as_they_complete() -> None:
    second = threading.Event()

    def waiting(trial: Trial) -> int:
        if trial.key == "t0":
            assert second.wait(30)
        else:
            second.set()
        return size(trial)

    results = [*evaluate(waiting, asked(b"ab", b"c"))]
    assert [(one.key, one.get(), one.node) for one in results] == [("t0", 2, ""), ("t1", 1, "")]
    second.clear()
    completed = evaluate(waiting, asked(b"ab", b"c"), ordered=False)
    assert [one.key for one in completed] == ["t1", "t0"]


def test_a_trial_that_fails_is_the_only_one() -> None:
    good, refused, bug, last = evaluate(size, asked(b"a", b"refused", b"bug", b"bb"))
    assert (good.get(), last.get()) == (1, 2)
    assert isinstance(refused.error, NotFound) and str(refused.error) == "t1 is not there"
    assert isinstance(bug.error, InternalError) and "KeyError: 'missing'" in str(bug.error)
    with pytest.raises(NotFound, match="t1 is not there"):
        refused.get()


def test_trials_are_taken_when_somebody_evaluates_them() -> None:
    taken: list[int] = []

    def many() -> Iterator[Trial]:
        for number in range(1000):
            taken.append(number)
            yield Trial(str(number), b"")

    with contextlib.closing(evaluate(size, many(), Options(jobs=2))) as results:
        assert next(results).get() == 0
    assert len(taken) < 10


def test_a_trial_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "GRACE", 0.0)
    end = threading.Event()

    def hanging(trial: Trial) -> int:
        if trial.key == "hangs":
            end.wait()
        return 1

    listed = [Trial("hangs", b"", limit=0.05), *asked(b"", b"")]
    first, *others = evaluate(hanging, listed, Options(jobs=1))
    end.set()
    assert isinstance(first.error, DeadlineExceeded)
    assert str(first.error) == "hangs: did not end within 0.05 s"
    assert [one.get() for one in others] == [1, 1]


def test_nothing_to_do_and_nobody_to_do_it() -> None:
    assert [*evaluate(size, [])] == []
    with pytest.raises(InvalidArgument, match="jobs are 0"):
        evaluate(size, [], Options(jobs=0))


def test_a_cluster_without_ray() -> None:
    with pytest.raises(
        NotFound, match=r'a cluster needs pip install "ml-compiler-bridge\[cluster\]"'
    ):
        next(evaluate(size, asked(b""), Options(cluster="127.0.0.1:9")))


def test_copies_that_are_on_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["validate", "phase-ordering", "--ray", "127.0.0.1:9", "--work", "w", "--", "make"]
    assert main(command) == 2
    assert "--work needs the copies of the trees" in capsys.readouterr().err


def test_what_another_machine_lacks(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("files")
    (folder / "one").write_text("1")
    here = facts(["clang-22", "no-such-compiler"], ["phase-ordering"], [str(folder)])
    assert here["clang-22"].count("version") == 1 and here["no-such-compiler"] == ""
    assert all(here[name] for name in ("Python", "mlbridge", "plugin phase-ordering", str(folder)))
    there = {**here, "clang-22": "clang version 21", "mlbridge": "", "no-such-compiler": "1"}
    assert differences(here, dict(here)) == []
    assert differences(here, there) == [
        "no mlbridge",
        f"clang-22 is clang version 21, here {here['clang-22']}",
        "no-such-compiler is 1, here none",
    ]
    (folder / "two").write_text("2")
    again = facts([], [], [str(folder)])
    assert differences(again, here) == [
        f"{folder} is {here[str(folder)]}, here {again[str(folder)]}"
    ]


def test_ray_that_does_not_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: object) -> None:
        raise Exception("The current node timed out during startup.")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=init))
    with pytest.raises(Unavailable, match=r"^Ray doesn't start here: The current node timed out"):
        connect("", 1)
