# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tools behind the make targets: set-up, and a test runner that cannot hide a failure."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import run_tests  # noqa: E402
import test_suites  # noqa: E402
from test_suites import Context, Counts, Suite  # noqa: E402


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The logs of these suites lie beside those of the run that this is part of."""
    folder = ROOT / "build" / "test" / "tools_test"
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(test_suites, "RESULTS", folder)
    monkeypatch.setattr(run_tests, "RESULTS", folder)
    return folder


def test_setup_has_nothing_to_do_the_second_time() -> None:
    for _ in range(2):
        done = subprocess.run(
            [ROOT / "tools/setup"], capture_output=True, text=True, timeout=110, check=False
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_setup_says_which_packages_are_missing(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    (tmp_path / "tools/requirements/apt.txt").write_text(
        "make # is there\nno-such-package >=1 # is not\npython3 >=99 # is too old\n"
    )
    done = subprocess.run(
        [tmp_path / "tools/setup", "--print"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.startswith("apt-get update && apt-get install")
    assert done.stdout.split()[-2:] == ["no-such-package", "python3"]


def test_setup_refuses_unknown_arguments() -> None:
    done = subprocess.run(
        [ROOT / "tools/setup", "--fast"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0 and "'--fast'" in done.stderr


def schedule(*suites: Suite) -> run_tests.Scheduler:
    scheduler = run_tests.Scheduler(list(suites), 2)
    scheduler.run()
    return scheduler


def program(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_failed_suite_counts_and_stops_only_what_needs_it() -> None:
    scheduler = schedule(
        Suite("bad", test_suites.tool(*program("raise SystemExit(3)"))),
        Suite("after", lambda _: Counts(passed=5), needs=("bad",)),
        Suite("apart", lambda _: Counts(passed=7), cores=2),
    )
    counts = scheduler.results
    assert (counts["bad"].failed, counts["bad"].passed) == (1, 0)
    assert (counts["after"].failed, counts["after"].passed) == (1, 0)
    assert "bad" in counts["after"].failures[0]
    assert (counts["apart"].failed, counts["apart"].passed) == (0, 7)


def test_a_runner_that_raises_is_a_failure() -> None:
    def broken(_: Context) -> Counts:
        raise RuntimeError("no counts")

    assert schedule(Suite("broken", broken)).results["broken"].failed == 1


def test_a_suite_that_hangs_is_ended_with_its_children(results: Path) -> None:
    child = results / "child.pid"
    child.unlink(missing_ok=True)
    script = f"sleep 600 & echo $! > '{child}'; wait"
    start = time.monotonic()
    scheduler = schedule(Suite("hang", test_suites.tool("sh", "-c", script), timeout=2))
    assert scheduler.results["hang"].failed == 1
    assert time.monotonic() - start < 300
    try:
        descriptor = os.pidfd_open(int(child.read_text()))
    except ProcessLookupError:
        return
    try:
        ended, _, _ = select.select([descriptor], [], [], 60)
        assert ended, "the child of a suite that was ended lives on"
    finally:
        os.close(descriptor)


def test_counts_are_read_from_reports(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        "<testsuites><testsuite>"
        '<testcase classname="A" name="good"/>'
        '<testcase classname="A" name="bad"><failure message="m"/></testcase>'
        '<testcase classname="A" name="worse"><error message="m"/></testcase>'
        '<testcase classname="A" name="not"><skipped message="no reason"/></testcase>'
        '<testcase classname="A" name="off" status="notrun"/>'
        "</testsuite></testsuites>"
    )
    counts = test_suites.read_junit(report)
    assert (counts.passed, counts.failed, counts.skipped) == (1, 2, 2)
    assert counts.failures == ["A.bad", "A.worse"]
    report.write_text("<testsuites><testsuite>")
    assert test_suites.read_junit_of(report) is None


def test_every_folder_with_tests_is_a_suite() -> None:
    folders = set()
    for pattern in ("*_test.py", "test_*.py"):
        for path in ROOT.rglob(pattern):
            inner = path.relative_to(ROOT)
            if inner.parts[0] not in ("build", "tools") and not inner.parts[0].startswith("."):
                folders.add(inner.parent)
    known = [Path(folder) for folder, _ in test_suites.PYTEST_FOLDERS]
    missed = [f for f in folders if not any(f.is_relative_to(k) for k in known)]
    assert not missed, f"no suite of tools/test_suites.py runs {missed}"
