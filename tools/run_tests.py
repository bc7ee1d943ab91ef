# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the suites of `make test` and prints `N passed, N failed` as its last line.

    tools/run_tests.py [--check | --lint] [--only SUITE,...] [--list]

--check: build and unit tests; --lint: the linters. Every suite has a log in build/test/, and the
counts of all are in build/test/summary.json. A failure does not stop the others.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

from common import ROOT, jobs
from test_suites import (
    RESULTS,
    Context,
    Counts,
    Suite,
    all_suites,
    check_suites,
    lint_suites,
    recording,
)

SHOWN_LINES = 80


class Scheduler:
    """Starts suites in order as soon as what they need is done and enough cores are free."""

    def __init__(self, suites: list[Suite], cores: int) -> None:
        self.waiting = list(suites)
        self.known = {s.name for s in suites}
        self.cores = self.free = cores
        self.results: dict[str, Counts] = {}
        self.seconds: dict[str, float] = {}
        self.running: dict[str, Context] = {}
        self.changed = threading.Condition()
        self.total = len(suites)

    def run(self) -> None:
        with self.changed:
            while self.waiting or self.running:
                if not self.start_one():
                    self.changed.wait(1)

    def start_one(self) -> bool:
        for suite in self.waiting:
            needs = [n for n in suite.needs if n in self.known]
            if any(n not in self.results for n in needs):
                continue
            broken = [n for n in needs if self.results[n].failed]
            if broken:
                self.waiting.remove(suite)
                text = f"{suite.name}: not run, because {broken[0]} failed"
                (RESULTS / f"{suite.name}.log").write_text(text + "\n")
                self.finish(suite, Counts(failed=1, failures=[text]), 0.0)
                return True
            wanted = min(suite.cores, self.cores)
            if wanted > self.free:
                # A suite that wants the whole machine must not be overtaken for ever.
                return False
            self.waiting.remove(suite)
            self.free -= wanted
            context = Context(suite.name, suite.timeout)
            self.running[suite.name] = context
            threading.Thread(target=self.work, args=(suite, context, wanted)).start()
            return True
        return False

    def work(self, suite: Suite, context: Context, cores: int) -> None:
        start = time.monotonic()
        try:
            counts = suite.run(context)
        except Exception as error:  # a fault of the runner is a failure of the suite
            counts = Counts(failed=1, failures=[f"{suite.name}: {error!r}"])
        context.log.close()
        with self.changed:
            self.free += cores
            del self.running[suite.name]
            self.finish(suite, counts, time.monotonic() - start)
            self.changed.notify()

    def finish(self, suite: Suite, counts: Counts, seconds: float) -> None:
        self.results[suite.name] = counts
        self.seconds[suite.name] = seconds
        report(suite, counts, seconds, len(self.results), self.total)

    def stop(self) -> None:
        self.waiting.clear()
        for context in list(self.running.values()):
            context.stop()


def report(suite: Suite, counts: Counts, seconds: float, done: int, total: int) -> None:
    verdict = "FAILED" if counts.failed else "ok"
    text = f"[{done:2}/{total}] {suite.name:32} {counts.passed:5} passed"
    if counts.failed:
        text += f", {counts.failed} failed"
    if counts.skipped:
        text += f", {counts.skipped} skipped"
    print(f"{text}  {verdict}  {seconds:.1f} s", flush=True)
    for skip in counts.skips:
        print(f"      skipped: {skip}", flush=True)
    if counts.failed:
        log = RESULTS / f"{suite.name}.log"
        lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
        print(f"----- the end of {log.relative_to(ROOT)}")
        print("\n".join(lines[-SHOWN_LINES:]))
        for failure in counts.failures:
            print(f"      failed: {failure}")
        print("-----", flush=True)


def write_summary(path: Path, scheduler: Scheduler, total: Counts, seconds: float) -> None:
    suites = [
        {"name": name, "seconds": round(scheduler.seconds[name], 1), **asdict(counts)}
        for name, counts in scheduler.results.items()
    ]
    summary = {
        "passed": total.passed,
        "failed": total.failed,
        "skipped": total.skipped,
        "seconds": round(seconds, 1),
        "machine": {"cores": jobs(), "kernel": platform.release(), "arch": platform.machine()},
        "suites": suites,
    }
    path.write_text(json.dumps(summary, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--lint", action="store_true")
    parser.add_argument("--only", help="names of suites, with what they need")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()

    RESULTS.mkdir(parents=True, exist_ok=True)
    suites = all_suites()
    summary = RESULTS / "summary.json"
    if arguments.check:
        suites, summary = check_suites(), RESULTS / "check.json"
    elif arguments.lint:
        suites = [s for s in all_suites() if s.name == "build-dev"] + lint_suites()
        summary = RESULTS / "lint.json"
    if arguments.only:
        names = set(arguments.only.split(","))
        unknown = names - {s.name for s in suites}
        if unknown:
            parser.error(f"no suite {sorted(unknown)}; --list shows them")
        suites = [s for s in suites if s.name in names]
        summary = RESULTS / "only.json"
    if arguments.list:
        print("\n".join(s.name for s in suites))
        return 0

    summary.unlink(missing_ok=True)
    Path(recording()["MLBRIDGE_PROGRAMS"]).unlink(missing_ok=True)
    scheduler = Scheduler(suites, max(jobs(), 1))

    def interrupted(number: int, frame: object) -> None:
        scheduler.stop()
        print("\ninterrupted", flush=True)
        os._exit(128 + number)

    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, interrupted)
    start = time.monotonic()
    scheduler.run()
    seconds = time.monotonic() - start
    total = Counts()
    for counts in scheduler.results.values():
        total.add(counts)
    write_summary(summary, scheduler, total, seconds)
    print(f"took {seconds / 60:.1f} min; logs and {summary.name} are in build/test/")
    line = f"{total.passed} passed, {total.failed} failed"
    if total.skipped:
        line += f", {total.skipped} skipped"
    print(line, flush=True)
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
