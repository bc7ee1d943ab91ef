# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tools behind the make targets: set-up, and a test runner that cannot hide a failure."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import install_package
import nightly
import packing
import processor
import pytest
import run_tests
import tomllib
from descriptions import plugins
from install_package import ALL, DEMO

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The logs of these suites lie beside those of the run that this is part of."""
    folder = ROOT / "build" / "test" / "tools_test"
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(run_tests, "RESULTS", folder)
    return folder


def test_setup_has_nothing_to_do_the_second_time_nor_for_a_part() -> None:
    for arguments in ([], [], ["--for", "demo"]):
        done = subprocess.run(
            [ROOT / "tools/setup", *arguments],
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_setup_installs_what_developers_install() -> None:
    """What one of the two lacks is missed only where nobody has installed it by hand."""
    folder = ROOT / "tools/requirements"
    installed = {
        line.partition("#")[0].replace(" ", "")
        for name in ("build", "run", "test", "docs")
        for line in (folder / f"{name}.txt").read_text().splitlines()
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]["dev"]) - installed == set()


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        ([], ["no-such-package", "python3"]),
        (["--for", "demo"], ["python3"]),
        (["--for", "nightly"], ["no-such-package", "python3", "no-browser"]),
    ],
)
def test_setup_says_which_packages_are_missing(
    arguments: list[str], missing: list[str], tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    (tmp_path / "tools/requirements/apt.txt").write_text(
        "make @demo # is there\nno-such-package >=1 # is not\npython3 >=99 @demo # is too old\n"
        "no-browser @nightly\n"
    )
    done = subprocess.run(
        [tmp_path / "tools/setup", *arguments, "--print"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.startswith("apt-get update && apt-get install")
    assert done.stdout.split("--no-install-recommends")[1].split() == missing


@pytest.mark.parametrize("arguments", [["--fast"], ["--for"], ["--for", "fun"]])
def test_setup_refuses_unknown_arguments(arguments: list[str]) -> None:
    done = subprocess.run(
        [ROOT / "tools/setup", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0 and f"'{' '.join(arguments)}'" in done.stderr


EVERYTHING = {f"{option}={value}" for option, value in install_package.PARTS[ALL].options.items()}


class Packaging:
    """pip that installs nothing, and notes the wheels that it is to make: with which options."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[set[str]] = []
        self.fails = ""
        self._installed = folder / "venv/lib/python3/site-packages/ml_compiler_bridge-1.dist-info"
        self.sources = "one"
        for name, value in {
            "BUILD": folder,
            "STAMP": folder / "stamp",
            "LOG": folder / "log",
            "WHEELS": folder / "wheels",
            "run_logged": self.run,
            "warnings": dict,
            "fingerprint": lambda parts: f"{parts} of {self.sources}",
        }.items():
            monkeypatch.setattr(install_package, name, value)
        monkeypatch.setattr(packing, "run_logged", self.run)

    def run(self, _: Path, *command: str | Path, **__: object) -> int:
        words = [*map(str, command)]
        if self.fails and self.fails in words:
            return 1
        if "install" in words:
            self._installed.mkdir(parents=True, exist_ok=True)
        elif str(ROOT) in words:
            defined = {word.partition(".define.")[2] for word in words}
            self.made.append(defined - {""})
        return 0

    def build(self, parts: str) -> list[set[str]]:
        """What a run for these parts makes."""
        self.made.clear()
        install_package.main(parts)
        return list(self.made)


@pytest.fixture
def packaging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Packaging:
    return Packaging(tmp_path, monkeypatch)


def test_the_demo_builds_its_part_and_leaves_the_rest_to_make_build(packaging: Packaging) -> None:
    (options,) = packaging.build(DEMO)
    assert {"MLBRIDGE_JSON=OFF", "MLBRIDGE_LLVM_PLUGINS=mlbridge-phase-ordering"} <= options
    assert packaging.build(DEMO) == []
    packaging.sources = "two"
    assert packaging.build(DEMO) == [options]
    assert packaging.build(ALL) == [EVERYTHING]
    assert packaging.build(ALL) == []


def test_the_demo_takes_nothing_away(packaging: Packaging) -> None:
    assert packaging.build(ALL) == [EVERYTHING]
    assert packaging.build(DEMO) == []
    packaging.sources = "two"
    assert packaging.build(DEMO) == [EVERYTHING]


def test_a_build_that_failed_has_not_changed_what_is_installed(packaging: Packaging) -> None:
    (options,) = packaging.build(DEMO)
    packaging.fails = "wheel"
    packaging.build(ALL)
    packaging.fails = ""
    assert packaging.build(DEMO) == [options]
    packaging.fails = "install"  # which may have changed it
    packaging.build(ALL)
    packaging.fails = ""
    assert packaging.build(DEMO) == [EVERYTHING]


def test_what_the_demo_leaves_out_are_parts_of_the_package() -> None:
    options = install_package.PARTS[DEMO].options
    for plugin in options["MLBRIDGE_LLVM_PLUGINS"].split(";"):
        assert f"plugins/{plugin}.so" in plugins()["llvm22"]
    known = (ROOT / "CMakeLists.txt").read_text()
    for name in options:
        assert name in known or name.removeprefix("MLBRIDGE_") in known


def test_a_step_that_fails_counts_and_stops_only_what_needs_it() -> None:
    bad = run_tests.tool(sys.executable, "-c", "raise SystemExit(3)")
    good = run_tests.tool(sys.executable, "-c", "")
    suites = run_tests.run({"bad": (bad, ()), "after": (good, ("bad",)), "apart": (good, ())})
    assert [(s.name, s.passed, s.failed) for s in suites] == [
        *(("bad", 0, 1), ("after", 0, 1), ("apart", 1, 0)),
    ]
    assert "bad" in suites[1].failures[0]


def test_a_program_that_reports_nothing_is_a_failure() -> None:
    (suite,) = run_tests.pytest("no/such/folder")("empty")
    assert suite.failed == 1


def test_counts_are_read_from_reports(results: Path) -> None:
    report = results / "report.xml"
    report.write_text(
        "<testsuites><testsuite>"
        '<testcase classname="A" name="good"/>'
        '<testcase classname="A" name="bad"><failure message="m"/></testcase>'
        '<testcase classname="A" name="worse"><error message="m"/></testcase>'
        '<testcase classname="A" name="not"><skipped message="no reason"/></testcase>'
        '<testcase classname="A" name="off" status="notrun"/>'
        '<testcase name="many"><properties><property name="cases" value="9"/></properties>'
        "</testcase>"
        "</testsuite></testsuites>"
    )
    suite = run_tests.Suite("suite")
    for case in run_tests.cases(report):
        suite.read(case)
    assert (suite.passed, suite.failed, suite.skipped) == (10, 2, 1)
    assert suite.failures == ["A.bad", "A.worse"] and suite.skips == ["A.not: no reason"]
    report.write_text("<testsuites><testsuite>")
    assert run_tests.cases(report) == []


def test_what_make_test_leaves_out_is_in_one_campaign() -> None:
    """Whatever marks it has."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    names = [line.split(":")[0] for line in settings["markers"]]
    assert names[0] == "nightly" and "-m 'not nightly'" in settings["addopts"]
    assert set(nightly.MARKED) <= set(nightly.CAMPAIGNS)
    for more in (set(), *({name} for name in names[1:])):
        has = {name: name in more | {"nightly"} for name in names}
        campaigns = [name for name, marks in nightly.MARKED.items() if eval(marks, {}, has)]
        assert len(campaigns) == 1, f"tests with the marks nightly and {more} are in {campaigns}"


PLANTED = {
    "src/core/a.h": '#include "runner/b.h"\n',
    "src/runner/b.h": '#include "engine/onnx/c.h"\n',
    "src/engine/onnx/c.h": '#include "engine/native/d.h"\n',
    "src/engine/native/d.h": "",
    "src/server/e.h": '#include "c.h"\n',
    "src/server/e_test.cpp": '#include "engine/native/d.h"\n',
    "python/mlbridge/__init__.py": "",
    "python/mlbridge/one.py": "from .two import something\n",
    "python/mlbridge/two.py": "def f() -> None:\n    from . import one\n",
    "demo/f.py": "def f() -> None:\n    from CompilerInterface import log_reader\n",
    "compat/python/CompilerInterface/__init__.py": "import CompilerInterface\n",
}


def rooms(tree: Path) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [sys.executable, ROOT / "tools/rooms.py", tree]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_no_room_includes_what_it_must_not() -> None:
    done = rooms(ROOT)
    assert done.returncode == 0, done.stdout


def test_an_include_against_the_rule_is_found(tmp_path: Path) -> None:
    for name, text in PLANTED.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    done = rooms(tmp_path)
    assert done.returncode == 1
    assert [line for line in done.stdout.splitlines() if "->" not in line] == [
        "against the rule: src/core/a.h includes src/runner/b.h",
        "against the rule: src/engine/onnx/c.h includes src/engine/native/d.h",
        "against the rule: demo/f.py imports CompilerInterface",
    ]
    (tmp_path / "src/engine/native/d.h").write_text('#include "engine/onnx/c.h"\n')
    circles = [line for line in rooms(tmp_path).stdout.splitlines() if line.startswith("circle")]
    assert circles == [
        "circle: src/engine/native -> src/engine/onnx -> src/engine/native",
        "circle: mlbridge.one -> mlbridge.two -> mlbridge.one",
    ]


def test_what_the_processor_lacks_is_said() -> None:
    """A run without AVX-512 doesn't look like one with it."""
    old = "model name\t: Old\nflags\t\t: sse4_2 avx2 fma avx512f\n"
    new = "model name\t: New\nflags\t\t: avx2 fma avx512f avx512bw avx512dq avx512vl\n"
    assert processor.processor(old) == "Old (avx2)"
    assert processor.processor(new) == "New (avx512)"
    assert processor.not_run_here(new) == []
    if platform.machine() == "x86_64":
        assert processor.not_run_here(old) == [
            "kernels of native: and aot: for AVX-512: needs AVX-512"
        ]
        assert not processor.multiplies_bytes_exactly(new)
    assert processor.multiplies_bytes_exactly("flags\t\t: avx2 fma avx_vnni\n")
