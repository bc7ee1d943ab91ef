# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The clock: which processes it runs in which order, and what it makes of given times."""

from __future__ import annotations

import itertools
import math
import os
import signal
from pathlib import Path

import pytest

from mlbridge import clock
from mlbridge.clock import Command, Work
from mlbridge.errors import DeadlineExceeded, InvalidArgument, NotFound


def sh(text: str, **more: object) -> Command:
    return Command(("sh", "-c", text), **more)  # type: ignore[arg-type]


def work(name: str, folder: Path, *commands: Command, **more: object) -> Work:
    place = folder / name
    place.mkdir(exist_ok=True)
    return Work(name, commands, place, **more)  # type: ignore[arg-type]


def test_the_middle_of_numbers_leaves_both_ends_out() -> None:
    assert clock.middle([1.0]) == 1.0
    assert clock.middle([100.0, 3.0, -50.0, 1.0, 2.0]) == 2.0
    assert clock.middle([*range(1, 9), -1e9, 1e9]) == 4.5


def test_a_ratio_of_given_pairs() -> None:
    logs = [math.log(1.1)] * 20 + [math.log(1.2)] * 20 + [5.0]
    ratio = clock.ratio_of(logs)
    assert ratio == clock.ratio_of(logs)
    assert 1.1 <= ratio.low < ratio.mean < ratio.high < 1.3 and ratio.count == 41
    wide = clock.ratio_of([math.log(value) for value in (0.5, 0.8, 1.0, 1.3, 2.0)])
    assert clock.half_width(wide) > clock.half_width(ratio)
    same = clock.ratio_of([0.0] * 50)
    assert (same.mean, same.low, same.high) == (1, 1, 1)
    assert clock.ratio_of([0.5]).as_json()["low"] is None
    with pytest.raises(InvalidArgument, match="no pairs"):
        clock.ratio_of([])


@pytest.mark.parametrize("count", [8, 40])
def test_the_interval_has_the_true_ratio_about_as_often_as_it_says(count: int) -> None:
    import numpy as np

    random = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        noise = random.normal(0.02, 0.01, count)
        disturbed = random.random(count) < 0.1  # something else ran on the machine
        noise += disturbed * random.choice([-0.3, 0.3], count)
        ratio = clock.ratio_of([*noise])
        hits += math.log(ratio.low) <= 0.02 <= math.log(ratio.high)
    assert 184 <= hits <= 199


def test_the_order_of_a_pair_changes() -> None:
    rounds = list(itertools.islice(clock.orders(3), 4))
    assert [[other for other, _ in one] for one in rounds] == [[0, 1, 2]] * 4
    for other in range(3):
        first = [one[other][1] for one in rounds]
        assert first in ([True, False] * 2, [False, True] * 2)


def test_a_process_is_run_in_its_folder_on_one_processor(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("given")
    here, processors = Path.cwd(), os.sched_getaffinity(0)
    text = "pwd; cat; echo $A; grep Cpus_allowed_list /proc/self/status; echo no >&2; exit 3"
    one = max(processors)
    spent = clock.run(
        sh(text, stdin="in", stdout="out", variables=(("A", "b"),)),
        tmp_path,
        stderr=tmp_path / "errors",
        env={"A": "a", "PATH": os.defpath},
        processor=one,
    )
    assert spent.code == 3 and spent.processor > 0 and spent.wall > 0
    assert (tmp_path / "out").read_text() == f"{tmp_path}\ngivenb\nCpus_allowed_list:\t{one}\n"
    assert (tmp_path / "errors").read_text() == "no\n"
    assert (Path.cwd(), os.sched_getaffinity(0)) == (here, processors)


def test_comparisons_at_once_have_processors_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {7001, 7002})
    with clock.own_processor() as first:
        with clock.own_processor() as second, clock.own_processor() as third:
            assert (first, second, third) == (7002, 7001, 7002)
        with clock.own_processor() as again:
            assert again == second


def test_processor_time_is_that_of_all_processes(tmp_path: Path) -> None:
    busy = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"
    idle = clock.run(sh("sleep 0.2"), tmp_path)
    spent = clock.run(sh(f"({busy}); true"), tmp_path)
    assert idle.processor < idle.wall / 2 and spent.processor > idle.processor


def test_a_signal_is_a_negative_code(tmp_path: Path) -> None:
    assert clock.run(sh("kill -TERM $$"), tmp_path).code == -signal.SIGTERM


def test_a_process_that_does_not_end_is_killed_with_what_it_started(tmp_path: Path) -> None:
    text = "sleep 1000 & echo $! > child; wait"
    with pytest.raises(DeadlineExceeded, match=r"did not end within 0\.5 s"):
        clock.run(sh(text), tmp_path, timeout=0.5)
    assert is_gone(int((tmp_path / "child").read_text()))


def test_what_a_command_leaves_running_is_killed(tmp_path: Path) -> None:
    clock.run(sh("sleep 1000 & echo $! > child"), tmp_path)
    assert is_gone(int((tmp_path / "child").read_text()))


def is_gone(number: int) -> bool:
    """True once a process is no more, or only waits for somebody to look at its exit code."""
    try:
        handle = os.pidfd_open(number)
    except ProcessLookupError:
        return True
    try:
        import select

        return bool(select.select([handle], [], [], 30)[0])
    finally:
        os.close(handle)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (Command(("./no-such-program",)), "No such file"),
        (Command(("no-such-program-on-the-path",)), "No such file"),
        (Command(("true",), stdin="no-such-file"), "No such file"),
        (Command(("true",), stdout="no-such-folder/file"), "No such file"),
        (Command(("tr\0ue",)), "null"),
    ],
)
def test_a_command_that_cannot_be_started(tmp_path: Path, command: Command, why: str) -> None:
    here = Path.cwd()
    with pytest.raises(NotFound, match=f"can't be started.*{why}"):
        clock.run(command, tmp_path)
    assert Path.cwd() == here


def test_words_that_need_a_shell_get_one() -> None:
    assert Command.of("./prog -x in.txt").words == ("./prog", "-x", "in.txt")
    assert Command.of("./prog < in.txt").words == ("sh", "-c", "./prog < in.txt")
    assert Command.of("A=b ./prog").words == ("sh", "-c", "A=b ./prog")
    assert Command.of("exec ./prog").words == ("sh", "-c", "exec ./prog")
    assert Command.of("! ./prog").words == ("sh", "-c", "! ./prog")


class Fake:
    """Gives processes times, and notes which ran."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, factors: dict[str, float]) -> None:
        self.ran: list[str] = []
        self.factors = factors
        self.number = itertools.count()
        monkeypatch.setattr(clock, "run", self.run)
        monkeypatch.setattr(clock, "is_precise", lambda _: True)

    def run(self, command: Command, folder: Path, **_: object) -> clock.Spent:
        self.ran.append(folder.name)
        drift = 1 + next(self.number) / 2000  # the machine gets slower, and noise comes and goes
        noise = 5.0 if len(self.ran) % 23 == 0 else 1.0
        return clock.Spent(0, self.factors[folder.name] * drift * noise, 1.0)


def test_pairs_cancel_what_changes_with_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Fake(monkeypatch, {"base": 0.01, "fast": 0.009, "slow": 0.012})
    outputs: dict[str, object] = {"outputs": ()}
    for name in fake.factors:
        (tmp_path / name).mkdir()
    command = sh("true", stdout="scratch/out")
    base, fast, slow = (work(name, tmp_path, command, **outputs) for name in fake.factors)
    timing = clock.compare(base, [fast, slow], budget=0.0)
    assert timing.is_even and timing.repeat.mean == pytest.approx(1, abs=0.002)
    assert timing.ratios["fast"].mean == pytest.approx(0.9, abs=0.002)
    assert timing.ratios["slow"].mean == pytest.approx(1.2, abs=0.002)
    assert timing.ratios["fast"].count == clock.LEAST_PAIRS
    assert timing.clock == "processor" and timing.seconds["slow"] > timing.seconds["fast"]
    least = 2 * clock.LEAST_PAIRS
    assert fake.ran[:3] == ["base", "fast", "slow"] and set(fake.ran[3 : 3 + least]) == {"base"}
    pairs = fake.ran[3 + least : 3 + 3 * least]
    assert pairs[:8] == ["base", "fast", "slow", "base", "fast", "base", "base", "slow"]
    report = timing.as_json()
    assert report["ratios"]["fast"]["count"] == clock.LEAST_PAIRS and report["differences"] == {}


def test_a_wanted_interval_ends_it_before_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Fake(monkeypatch, {"base": 0.01, "other": 0.01})
    command = sh("true", stdout="scratch/out")
    base, other = (work(name, tmp_path, command) for name in ("base", "other"))
    timing = clock.compare(base, [other], budget=1e6, wanted=0.01)
    assert clock.half_width(timing.ratios["other"]) <= 0.01


def test_builds_are_compared(tmp_path: Path) -> None:
    command = sh("cat; echo made > file; date +%N > scratch/time", stdin="/etc/passwd")
    base, other = (work(name, tmp_path, command) for name in ("base", "other"))
    for one in (base, other):
        (one.folder / "scratch").mkdir()
    timing = clock.compare(base, [other], budget=0.0)
    assert timing.differences == {} and timing.ratios["other"].count == clock.LEAST_PAIRS
    assert timing.seconds["base"] > 0 and timing.processor in os.sched_getaffinity(0)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("echo other", "the standard output of command 1 differs"),
        ("echo same; echo x > file", "the file file is new"),
        ("echo same; exit 2", "the exit code of command 1 is 2, not 0"),
        ("echo same; kill -SEGV $$", "the exit code of command 1 is -11, not 0"),
    ],
)
def test_a_build_with_another_output_is_not_timed(tmp_path: Path, text: str, what: str) -> None:
    base = work("base", tmp_path, sh("echo same"))
    same, other = work("same", tmp_path, sh("echo same")), work("other", tmp_path, sh(text))
    timing = clock.compare(base, [same, other], budget=0.0)
    assert timing.differences == {"other": what}
    assert list(timing.ratios) == ["same"] and "other" not in timing.seconds


def test_only_stated_outputs_are_compared(tmp_path: Path) -> None:
    for outputs, found in (((), {}), (("noise",), {"other": "the file noise differs"})):
        base, other = (
            work(name, tmp_path, sh(f"echo {name} > noise"), outputs=outputs)
            for name in ("base", "other")
        )
        assert clock.compare(base, [other], budget=0.0).differences == found


def test_an_output_that_changes_from_run_to_run_is_said(tmp_path: Path) -> None:
    text = "echo x >> seen; test $(wc -l < seen) -lt 5 || echo late > late"
    base, other = (work(name, tmp_path, sh(text), ignored=("seen",)) for name in ("base", "other"))
    timing = clock.compare(base, [other], budget=0.0)
    assert timing.differences["other"] == "from run to run the file late is new"
    assert timing.ratios == {}


def test_an_exit_code_that_is_not_expected(tmp_path: Path) -> None:
    base = work("base", tmp_path, sh("echo why >&2; exit 4", code=0))
    other = work("other", tmp_path, sh("true"))
    with pytest.raises(InvalidArgument, match=r"base: .* ended with 4, expected 0: why"):
        clock.compare(base, [other], budget=0.0)
    flips = sh("test -e there && exit 1; touch there")
    base, other = (work(name, tmp_path, flips, outputs=()) for name in ("flip", "flop"))
    with pytest.raises(InvalidArgument, match=r"ended with \[1\], and before that with \[0\]"):
        clock.compare(base, [other], budget=0.0)


def test_builds_that_cannot_be_compared(tmp_path: Path) -> None:
    base = work("base", tmp_path, sh("true"))
    for others, why in (
        ([], "two or more"),
        ([base], "different names"),
        ([work("none", tmp_path)], "none: no command"),
    ):
        with pytest.raises(InvalidArgument, match=why):
            clock.compare(base, others)


def test_times_on_the_wall_where_ticks_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = clock.Spent(0, 0.008, 0.0123)
    monkeypatch.setattr(clock, "run", lambda *_, **__: spent)
    assert not clock.is_precise()
    command = sh("true", stdout="scratch/out")
    base, other = (work(name, tmp_path, command) for name in ("base", "other"))
    timing = clock.compare(base, [other], budget=0.0)
    assert timing.clock == "wall" and timing.seconds["base"] == 0.0123
