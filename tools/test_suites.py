# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The suites of `make test`: what each runs, and how its counts are read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from common import BUILD, PYTHON, ROOT, environment, jobs

RESULTS = BUILD / "test"


def recording() -> dict[str, str]:
    """What makes programs write down that they were started; read by tests/closure."""
    library = BUILD / "test" / "record-programs.so"
    source = ROOT / "tools/record_programs.c"
    if not library.is_file() or library.stat().st_mtime < source.stat().st_mtime:
        library.parent.mkdir(parents=True, exist_ok=True)
        fresh = library.with_suffix(f".{os.getpid()}")
        compiler = ["cc", "-shared", "-fPIC", "-O1", str(source), "-o", str(fresh)]
        subprocess.run(compiler, env=environment(), check=True)
        fresh.rename(library)
    preload = " ".join(filter(None, (str(library), os.environ.get("LD_PRELOAD"))))
    if str(library) in os.environ.get("LD_PRELOAD", ""):
        preload = os.environ["LD_PRELOAD"]
    return {"LD_PRELOAD": preload, "MLBRIDGE_PROGRAMS": str(library.with_name("programs.txt"))}


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)
    skips: list[str] = field(default_factory=list)

    def add(self, other: Counts) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures
        self.skips += other.skips


@dataclass(frozen=True)
class Suite:
    name: str
    run: Callable[[Context], Counts]
    needs: tuple[str, ...] = ()
    cores: int = 1
    timeout: float = 1800


class Context:
    """What a suite runs in: its log, its time limit, and the processes to end with it."""

    def __init__(self, name: str, timeout: float) -> None:
        self.name = name
        self.timeout = timeout
        self.log_path = RESULTS / f"{name}.log"
        self.log: IO[str] = self.log_path.open("w")
        self.env = environment() | recording()
        self.process: subprocess.Popen[bytes] | None = None

    def call(self, *command: str | Path, env: dict[str, str] | None = None) -> int:
        """Runs a program into the log; 124 if the time limit of the suite ended it."""
        self.log.write("$ " + " ".join(str(c) for c in command) + "\n")
        self.log.flush()
        self.process = subprocess.Popen(
            [str(c) for c in command],
            cwd=ROOT,
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return self.process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            self.stop()
            self.log.write(f"\nended: took longer than {self.timeout:.0f} s\n")
            return 124
        finally:
            self.process = None

    def stop(self) -> None:
        process = self.process
        if process is not None and process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()


def one(ok: bool, name: str) -> Counts:
    return Counts(passed=1) if ok else Counts(failed=1, failures=[name])


def read_junit(path: Path) -> Counts:
    counts = Counts()
    for case in ET.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname', '')}.{case.get('name', '')}".strip(".")
        tags = {child.tag for child in case}
        if tags & {"failure", "error"}:
            counts.failed += 1
            counts.failures.append(name)
        elif "skipped" in tags or case.get("status") in ("notrun", "disabled"):
            counts.skipped += 1
            reason = next((c.get("message", "") for c in case if c.tag == "skipped"), "")
            counts.skips.append(f"{name}: {(reason or '').strip().splitlines()[0:1]}")
        else:
            counts.passed += 1
    return counts


def cmake_build(preset: str, *targets: str) -> Callable[[Context], Counts]:
    def run(context: Context) -> Counts:
        code = context.call(sys.executable, ROOT / "tools/cmake_build.py", preset, *targets)
        return one(code == 0, f"build of preset {preset}")

    return run


def ctest(preset: str) -> Callable[[Context], Counts]:
    """Counts GoogleTest's cases where a program wrote them, and the program itself where not."""

    def run(context: Context) -> Counts:
        cases = RESULTS / f"gtest-{preset}"
        shutil.rmtree(cases, ignore_errors=True)
        cases.mkdir(parents=True)
        junit = RESULTS / f"ctest-{preset}.xml"
        junit.unlink(missing_ok=True)
        command = ["ctest", "--test-dir", str(BUILD / "cmake" / preset), "-j", str(jobs())]
        command += ["--output-on-failure", "--no-tests=error", "--timeout", "600"]
        env = {
            "GTEST_OUTPUT": f"xml:{cases}/",
            "ASAN_OPTIONS": "abort_on_error=1:detect_leaks=1:detect_stack_use_after_return=1",
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
            "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
        }
        if preset != "dev":  # a sanitizer's library must be the first; these start nothing new
            env["LD_PRELOAD"] = ""
        code = context.call(*command, "--output-junit", str(junit), env=env)
        if not junit.is_file():
            return Counts(failed=1, failures=[f"ctest of {preset} ended with {code}"])
        counts = Counts()
        for case in ET.parse(junit).getroot().iter("testcase"):
            name = case.get("name", "")
            program = read_junit_of(cases / f"{name}.xml")
            bad = case.get("status") == "fail" or case.find("failure") is not None
            if program is None or (bad and program.failed == 0):
                program = Counts()
                if case.get("status") == "notrun" or case.find("skipped") is not None:
                    bad = True  # ctest calls a program that was not built "not run"
                program.add(one(not bad, name))
            counts.add(program)
        if code != 0 and counts.failed == 0:
            counts.add(one(False, f"ctest of {preset} ended with {code}"))
        return counts

    return run


def read_junit_of(path: Path) -> Counts | None:
    try:
        return read_junit(path) if path.is_file() else None
    except ET.ParseError:  # the program died while it wrote
        return None


def pytest(folder: str, timeout: int = 300) -> Callable[[Context], Counts]:
    def run(context: Context) -> Counts:
        junit = RESULTS / f"{context.name}.xml"
        junit.unlink(missing_ok=True)
        command: list[str | Path] = [PYTHON, "-m", "pytest", ROOT / folder, "-q", "-ra"]
        command += [f"--timeout={timeout}", f"--junitxml={junit}", "-p", "no:cacheprovider"]
        command += ["-o", "junit_family=xunit2"]
        code = context.call(*command)
        counts = read_junit_of(junit)
        if counts is None or (code != 0 and counts.failed == 0):
            counts = counts or Counts()
            counts.add(one(False, f"pytest {folder} ended with {code}"))
        return counts

    return run


def tool(*command: str | Path) -> Callable[[Context], Counts]:
    return lambda context: one(context.call(*command) == 0, context.name)


def judged(report: str, *command: str | Path) -> Callable[[Context], Counts]:
    """A program that counts cases itself, in build/test/REPORT."""

    def run(context: Context) -> Counts:
        path = RESULTS / report
        path.unlink(missing_ok=True)
        code = context.call(PYTHON, *command)
        counts = Counts()
        if path.is_file():
            found = json.loads(path.read_text())
            counts.passed, counts.failed = found["passed"], found["failed"]
            if counts.failed:
                counts.failures.append(f"{counts.failed} cases; see the log")
        if code != 0 and not counts.failed:
            counts.add(one(False, f"{context.name} ended with {code}"))
        return counts

    return run


def has_tests(folder: str) -> bool:
    base = ROOT / folder
    return any(base.rglob("*_test.py")) or any(base.rglob("test_*.py"))


# folder, time limit of one test in seconds
PYTEST_FOLDERS = (
    ("python/tests", 120),
    ("programs", 300),
    ("demo", 300),
    ("models", 300),
    ("bench", 300),
    ("compilers/llvm/phase-ordering/test", 300),
    ("compilers/llvm/parallel-test", 300),
    ("tests/repository", 120),
    ("tests/golden", 120),
    ("tests/c-api", 120),
    ("tests/install", 900),
    ("tests/docs", 1500),
    ("tests/interop", 120),
    ("tests/compat", 600),
    ("tests/tensorflow", 1200),
    ("tests/faults", 900),
    ("tests/attacks", 300),
    ("examples", 900),
    ("tests/closure", 600),
)
LAST = "tests/closure"  # reads what all the others did
# Those that install from the dev build or build something themselves.
BUILDING = (
    "tests/c-api",
    "compilers/llvm/parallel-test",
    "tests/install",
    "tests/docs",
    "tests/interop",
    "tests/compat",
    "tests/tensorflow",
    "tests/faults",
    "tests/attacks",
    "examples",
    "bench",
)


def lint_suites() -> list[Suite]:
    return [
        Suite("format", tool(PYTHON, ROOT / "tools/format.py", "--check")),
        Suite("ruff", tool("ruff", "check", ROOT)),
        Suite("mypy", tool(PYTHON, ROOT / "tools/typecheck.py")),
        Suite("tidy", tool(PYTHON, ROOT / "tools/tidy.py"), needs=("build-dev",), cores=2),
    ]


def all_suites() -> list[Suite]:
    """In the order in which they start when they can."""
    form, ruff, mypy, tidy = lint_suites()
    suites = [form, ruff]
    suites += [
        Suite("build-dev", cmake_build("dev"), cores=2),
        Suite("unit", ctest("dev"), needs=("build-dev",), cores=2),
        Suite(
            "package",
            tool(PYTHON, ROOT / "tools/install_package.py"),
            cores=2,
        ),
    ]
    suites += [Suite("docs", tool(PYTHON, ROOT / "tools/docs.py"), needs=("package",)), mypy]
    for folder, timeout in PYTEST_FOLDERS:
        if has_tests(folder) and folder != LAST:
            # Folders that build something themselves get the machine to themselves.
            alone = folder in BUILDING
            needs = ("build-dev", "package") if alone else ("package",)
            name = folder.replace("/", "-")
            suites.append(
                Suite(name, pytest(folder, timeout), needs=needs, cores=2 if alone else 1)
            )
    # Programs of their own, because native code may crash: it does so in a child.
    nodes = judged("onnx-node-tests.json", ROOT / "tests/onnx-nodes/run.py")
    networks = judged("random-networks.json", ROOT / "tests/random-networks/run.py")
    hostile = judged("hostile-models.json", ROOT / "tests/hostile-models/run.py")

    def others(name: str, *options: str | Path) -> Suite:
        """More of them: tests/random-networks/run.py says what they are."""
        report = f"{name}.json"
        command = [ROOT / "tests/random-networks/run.py", *options, "--out", RESULTS / report]
        return Suite(f"tests-{name}", judged(report, *command), needs=("package",))

    suites += [
        Suite("tests-hostile-models", hostile, needs=("package",)),
        others("random-aliases", "--kind", "aliases", "--networks", "400"),
        others("compiled-aliases", "--kind", "many-aliases", "--engine", "aot", "--networks", "3"),
        others("torch-exports", "--files", ROOT / "tests/golden/torch"),
        Suite("tests-onnx-nodes", nodes, needs=("package",)),
        Suite("tests-random-networks", networks, needs=("package",)),
        Suite("build-asan", cmake_build("asan"), cores=2),
        Suite("asan", ctest("asan"), needs=("build-asan",), cores=2),
        Suite("build-tsan", cmake_build("tsan"), cores=2),
        Suite("tsan", ctest("tsan"), needs=("build-tsan",), cores=2),
    ]
    suites.append(tidy)
    everything = sys.maxsize  # of the cores: nothing runs beside it
    needs = ("build-dev", "package")
    suites.append(Suite("tests-closure", pytest(LAST, 600), needs=needs, cores=everything))
    return suites


def check_suites() -> list[Suite]:
    return [
        Suite("build-dev", cmake_build("dev"), cores=2),
        Suite("unit", ctest("dev"), needs=("build-dev",), cores=2),
    ]
