# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the suites of `make test` one after another; the last line is `N passed, N failed`.

    tools/run_tests.py [--check | --lint] [--only SUITE,...] [--list]

--check: build and unit tests, without the slow ones, and the tests of Python files that differ from
the last commit; --lint: the linters. Each step has a log in
build/test/, and the counts are in build/test/summary.json. After a failure the others still run,
except those that need what failed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import signal
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import changed
from common import BUILD, PYTHON, ROOT, jobs, recording, run_logged, source_files
from processor import not_run_here, processor
from result_tables import section

RESULTS = BUILD / "test"
SHOWN_LINES = 80
SANITIZERS = {
    "ASAN_OPTIONS": "abort_on_error=1:detect_leaks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
    "LD_PRELOAD": "",  # a sanitizer's library must be the first; these tests start nothing new
}


@dataclass
class Suite:
    name: str
    seconds: float = 0
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)
    skips: list[str] = field(default_factory=list)

    def fail(self, what: str) -> None:
        self.failed += 1
        self.failures.append(what)

    def read(self, case: ET.Element) -> None:
        """Counts a case of a JUnit report, or the cases that it says it stands for."""
        name, place = str(case.get("name")), case.get("classname", "")
        name = name if name == place else f"{place}.{name}".strip(".")
        self.seconds += float(case.get("time") or 0)
        if case.get("status") == "fail" or {"failure", "error"} & {child.tag for child in case}:
            self.fail(name)
        elif case.find("skipped") is not None and case.get("status") != "disabled":
            reason = case.findtext("system-out") or ""  # of GoogleTest, by CTest
            for skipped in case.iter("skipped"):
                reason = reason or skipped.get("message") or ""
            self.skipped += 1
            self.skips.append(f"{name}: {' '.join(reason.split())[-200:]}")
        elif case.get("status") not in ("notrun", "disabled"):  # which tests start themselves
            cases = case.find(".//property[@name='cases']")
            self.passed += 1 if cases is None else int(cases.get("value") or 0)


Step = Callable[[str], list[Suite]]


def call(name: str, *command: str | Path, env: dict[str, str] | None = None) -> int:
    """Runs a program into the log of this name."""
    env = recording() | (env or {})
    return run_logged(RESULTS / f"{name}.log", *command, seconds=3600, env=env)


def tool(*command: str | Path) -> Step:
    def step(name: str) -> list[Suite]:
        suite = Suite(name)
        if call(name, *command) == 0:
            suite.passed = 1
        else:
            suite.fail(name)
        return [suite]

    return step


def script(name: str, *arguments: str) -> Step:
    return tool(PYTHON, ROOT / "tools" / f"{name}.py", *arguments)


def package(name: str) -> list[Suite]:
    """Warnings are errors here and nowhere else: another machine's compiler may have new ones."""
    (suite,) = script("install_package")(name)
    log = BUILD / "package.log"  # which stays if the package was up to date
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    warnings = [line for line in lines if "warning: " in line]
    for line in warnings if not suite.failed else []:
        suite.fail(line.strip())
    return [suite]


def cases(report: Path) -> list[ET.Element]:
    try:
        return list(ET.parse(report).getroot().iter("testcase"))
    except (OSError, ET.ParseError):  # none, or the program died while it wrote
        return []


def ctest(preset: str, *options: str) -> Step:
    """Each test is CTest's; under sanitizers each program is, and GoogleTest reports its tests."""

    def step(name: str) -> list[Suite]:
        suite = Suite(name)
        report, folder = RESULTS / f"{name}.xml", RESULTS / f"gtest-{name}"
        report.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        env = {} if preset == "dev" else {**SANITIZERS, "GTEST_OUTPUT": f"xml:{folder}/"}
        command = ["ctest", "--preset", preset, "--parallel", str(jobs())]
        code = call(name, *command, *options, "--output-junit", str(report), env=env)
        for case in cases(report):
            inner = cases(folder / f"{case.get('name')}.xml")
            for one in inner or [case]:
                suite.read(one)
            if inner and case.get("status") == "fail" and not suite.failed:
                suite.fail(str(case.get("name")))  # by its end, after its tests
        if code and not suite.failed:
            suite.fail(f"ctest of {preset} ended with {code}")
        return [suite]

    return step


def test_folders() -> list[str]:
    """All but tests/closure, which reads what the others did, and runs after them."""
    folders = {str(path.parent.relative_to(ROOT)) for path in source_files("_test.py")}
    return sorted(folders - {"tests/closure"})


def suite_name(folder: str, separator: str = "-") -> str:
    return folder.removesuffix(".py").replace("/", separator)


def pytest(*folders: str, package: Path | None = None) -> Step:
    """A suite for each folder or file; its seconds are those of its tests, of which some run at
    once. `package`: where Python finds the package instead of in build/venv."""

    def step(name: str) -> list[Suite]:
        report = RESULTS / f"{name}.xml"
        report.unlink(missing_ok=True)
        command: list[str | Path] = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-n", str(jobs() if len(folders) > 3 else 0), f"--junitxml={report}"]
        env = {"PYTHONPATH": str(package)} if package else {}
        code = call(name, *command, *folders, env=env)
        suites = {folder: Suite(suite_name(folder)) for folder in folders}
        for case in cases(report):
            place = f"{case.get('classname')}."
            inside = [f for f in folders if place.startswith(suite_name(f, ".") + ".")]
            suites[inside[0] if inside else folders[0]].read(case)
        if code and not any(s.failed for s in suites.values()):
            suites[folders[0]].fail(f"pytest ended with {code}")
        return list(suites.values())

    return step


def steps(only: set[str]) -> dict[str, tuple[Step, tuple[str, ...]]]:
    """In order: what each runs, and which it needs."""
    folders = test_folders()
    chosen = [f for f in folders if suite_name(f) in only] or folders
    return {
        "rooms": (script("rooms"), ()),
        "format": (script("format", "--check"), ()),
        "ruff": (tool("ruff", "check", ROOT), ()),
        "build-dev": (script("cmake_build", "dev"), ()),
        "tidy": (script("tidy"), ("build-dev",)),
        "unit": (ctest("dev"), ("build-dev",)),
        "package": (package, ()),
        "mypy": (script("typecheck"), ("package",)),  # with the stub that the build makes
        "docs": (script("docs"), ("package",)),
        "pytest": (pytest(*chosen), ("build-dev", "package")),
        "build-asan": (script("cmake_build", "asan"), ()),
        "asan": (ctest("asan"), ("build-asan",)),
        "build-tsan": (script("cmake_build", "tsan", "threads"), ()),
        "tsan": (ctest("tsan", "-L", "threads"), ("build-tsan",)),
        "tests-closure": (pytest("tests/closure"), ("build-dev", "package")),  # of all the others
    }


def programs() -> str:
    """Which programs and shared objects preset dev has, and the files that its tests read."""
    digest = hashlib.sha256()
    made = [p for p in (BUILD / "cmake/dev").rglob("*") if p.is_file() and os.access(p, os.X_OK)]
    read = [*(ROOT / "tests/golden").rglob("*"), *(ROOT / "src").rglob("*.proto")]
    for path in sorted([*made, *read]):
        status = path.stat()
        digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def unit_again(name: str) -> list[Suite]:
    """The unit tests without the slow ones, unless no program has changed since they passed."""
    stamp = BUILD / "cmake" / "dev" / ".unit-passed"
    made_of = programs()
    if stamp.is_file() and stamp.read_text() == made_of:
        print(f"{name}: no program has changed since all passed", flush=True)
        return [Suite(name, passed=1)]
    stamp.unlink(missing_ok=True)
    suites = ctest("dev", "-LE", "slow")(name)
    if not any(suite.failed for suite in suites):
        stamp.write_text(programs())
    return suites


def python_again(name: str) -> list[Suite]:
    """The tests of the Python files that differ from the last commit, with the package's Python as
    it is in the tree."""
    package = changed.package_of_the_tree()
    touched = changed.changed("HEAD") or set()
    tests = changed.tests_of(touched, test_folders())
    if not tests or package is None:
        missing = " (make build makes the package, without which there is none)" if tests else ""
        print(f"{name}: no test to run{missing}", flush=True)
        return [Suite(name, passed=1)]
    return pytest(*(str(test.relative_to(ROOT)) for test in tests), package=package)(name)


LINTERS = ("rooms", "format", "ruff", "build-dev", "tidy", "package", "mypy")


def report(suite: Suite) -> None:
    text = f"{suite.name:36} {suite.passed:5} passed"
    text += f", {suite.failed} failed" if suite.failed else ""
    text += f", {suite.skipped} skipped" if suite.skipped else ""
    print(f"{text}  {'FAILED' if suite.failed else 'ok'}  {suite.seconds:.1f} s", flush=True)
    for skip in suite.skips:
        print(f"      skipped: {skip}", flush=True)
    for failure in suite.failures:
        print(f"      failed: {failure}", flush=True)


def run(
    plan: dict[str, tuple[Step, tuple[str, ...]]], seconds: dict[str, float] | None = None
) -> list[Suite]:
    """`seconds` takes those that each step took, by the clock."""
    suites: list[Suite] = []
    broken: set[str] = set()
    for name, (step, needs) in plan.items():
        log = RESULTS / f"{name}.log"
        log.unlink(missing_ok=True)
        start = time.monotonic()
        if broken & set(needs):
            made = [Suite(name)]
            made[0].fail(f"{name}: not run, because {min(broken & set(needs))} failed")
        else:
            made = step(name)
        took = time.monotonic() - start
        if seconds is not None:
            seconds[name] = round(took, 1)
        if len(made) == 1:
            made[0].seconds = took
        for suite in made:
            report(suite)
        if len(made) > 1:
            print(f"{name:36} took {took:.1f} s", flush=True)
        if any(suite.failed for suite in made):
            broken.add(name)
            lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
            print(
                "\n".join([f"----- the end of {log}", *lines[-SHOWN_LINES:], "-----"]), flush=True
            )
        suites += made
    return suites


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--lint", action="store_true")
    parser.add_argument("--only", default="", help="names of suites")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()

    only = {name for name in arguments.only.split(",") if name}
    plan = steps(only)
    names = [*plan, *map(suite_name, test_folders())]
    if arguments.list:
        print("\n".join(names))
        return 0
    if only - set(names):
        parser.error(f"no suite {sorted(only - set(names))}; --list shows them")
    kind = "summary"
    if only:
        kind = "only"
        plan = {n: s for n, s in plan.items() if n in only or (n == "pytest" and only - set(plan))}
    elif arguments.check:
        kind = "check"
        plan = {
            "ruff": plan["ruff"],
            "build-dev": plan["build-dev"],
            "unit": (unit_again, ("build-dev",)),
            "python": (python_again, ()),
        }
    elif arguments.lint:
        kind = "lint"
        plan = {n: plan[n] for n in LINTERS}

    RESULTS.mkdir(parents=True, exist_ok=True)
    summary = RESULTS / f"{kind}.json"
    summary.unlink(missing_ok=True)
    Path(recording()["MLBRIDGE_PROGRAMS"]).unlink(missing_ok=True)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    # A shell starts what runs in the background with this signal ignored, and tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    start = time.monotonic()
    steps_seconds: dict[str, float] = {}
    suites = run(plan, steps_seconds)
    seconds = round(time.monotonic() - start, 1)
    passed, failed, skipped = (
        sum(getattr(s, key) for s in suites) for key in ("passed", "failed", "skipped")
    )
    machine = {"cores": jobs(), "kernel": platform.release(), "processor": processor()}
    found: dict[str, object] = {
        "passed": passed,
        "failed": failed,
        "skipped": skipped,
        "seconds": seconds,
    }
    rows = [asdict(s) | {"seconds": round(s.seconds, 1)} for s in suites]
    found |= {"machine": machine, "steps": steps_seconds, "suites": rows}
    found["not run here"] = missing = [] if kind == "lint" else not_run_here()
    text = json.dumps(found, indent=1)
    summary.write_text(text + "\n")
    if kind == "summary":
        keys = ("name", "passed", "failed", "skipped", "seconds")
        section(
            summary,
            "Tests (`make test`)",
            f"{passed} passed, {failed} failed, {skipped} skipped.",
            [{key: row[key] for key in keys} for row in rows],
        )
    print(f"took {seconds / 60:.1f} min; logs and {summary.name} are in build/test/")
    for what in missing:
        print(f"not run here: {what}")
    also = f", {skipped} skipped" if skipped else ""
    print(f"{passed} passed, {failed} failed{also}", flush=True)
    return int(failed > 0 or not passed)


if __name__ == "__main__":
    sys.exit(main())
