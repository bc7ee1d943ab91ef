# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the builds read and the commands start belongs to the packages of tools/requirements/apt.txt
or to what these depend on, so that a machine with nothing else can do the same.

The last suite of `make test`: the programs are those of the whole run, recorded by each of them
(record_programs.c; programs that are linked statically or have an empty environment are not
seen). `make nightly` adds those of other commands.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from packages import Files, Package, closure, installed_packages, is_below, links, listed

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from common import BUILD, environment, recording  # noqa: E402

APT = (ROOT / "tools/requirements/apt.txt").read_text()
# The tree's own, what tests build, and a Python that the user has chosen (MLBRIDGE_PYTHON).
OURS = [ROOT, BUILD.resolve(), Path(tempfile.gettempdir()).resolve(), Path("/dev"), Path("/proc")]
# Looked for by what is in the list, which does without: by pip for its greeting, by Matplotlib for
# fonts, by apt to end an agent, and what other packages have apt call.
OPTIONAL = {
    *("rustc", "rustup", "lsb_release", "fc-list", "gpgconf", "gpg-connect-agent"),
    *("appstreamcli", "gdbus"),
}
if sys.base_prefix != "/usr":
    OURS.append(Path(sys.base_prefix).resolve())


@pytest.fixture(scope="session")
def installed() -> list[Package]:
    return installed_packages()


@pytest.fixture(scope="session")
def files(installed: list[Package]) -> Files:
    return Files(closure(installed, listed(APT)))


def output(*command: str | Path) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.splitlines()


@pytest.fixture(scope="session")
def read() -> set[str]:
    """The system's files that the builds read: headers, libraries, and what CMake reads."""
    found: set[str] = set()
    for log in BUILD.glob("cmake/*/.ninja_deps"):
        tree = log.parent
        lines = [s.strip() for s in output("ninja", "-C", tree, "-t", "deps") if s[:1] == " "]
        for target in ("all", "build.ninja"):
            lines += output("ninja", "-C", tree, "-t", "inputs", target)
        found |= {os.path.normpath(tree / line) for line in lines}
    return {path for path in found if os.path.isfile(path) and not is_ours(path)}


def recorded(*command: str | Path) -> None:
    """Runs a command that must succeed, whose programs are recorded."""
    env = environment() | recording()
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def is_ours(path: str) -> bool:
    return is_below(path, OURS) or is_below(list(links(path))[-1], OURS)


def strangers(files: Files, paths: set[str]) -> list[str]:
    return [why for path in sorted(paths) if (why := files.stranger(path))]


def test_what_the_builds_read_is_in_the_list(files: Files, read: set[str]) -> None:
    assert any(path.endswith("/google/protobuf/compiler/importer.h") for path in read)
    assert not (found := strangers(files, read)), "\n".join(found)


def test_a_package_that_is_not_listed_is_missed(installed: list[Package], read: set[str]) -> None:
    without = [name for name in listed(APT) if name != "libprotoc-dev"]
    found = strangers(Files(closure(installed, without)), read)
    assert found and all(why.endswith("is of libprotoc-dev") for why in found)


def started_programs() -> set[str]:
    """The system's programs that were recorded, and what they are scripts of."""
    lines = Path(recording()["MLBRIDGE_PROGRAMS"]).read_text(errors="replace").splitlines()
    calls = [line.split("\t") for line in lines]
    names = {name for call in calls if Path(call[0]).name not in OPTIONAL for name in call}
    return {name for name in names if os.path.isfile(name) and not is_ours(name)}


def test_the_programs_that_were_started_are_in_the_list(files: Files) -> None:
    recorded("make", "--version")
    started = started_programs()
    assert "make" in {Path(name).name for name in started}
    assert not (found := strangers(files, started)), "\n".join(found)


@pytest.mark.nightly
def test_the_programs_of_build_setup_and_demo_are_in_the_list(files: Files, tmp_path: Path) -> None:
    recorded("make", "build")
    recorded("tools/setup", "--print")
    recorded(sys.executable, "demo/run.py", "--output", tmp_path, "bzip2")
    started = started_programs()
    assert {"make", "bash", "clang-22"} <= {Path(name).name for name in started}
    assert not (found := strangers(files, started)), "\n".join(found)


A = Package("a", depends="b (>= 1) | c, v, libc6:any (>= 2)")


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([Package("b"), Package("c")], {"a", "b"}),
        ([Package("c")], {"a", "c"}),
        ([Package("c", essential=True), Package("b")], {"a", "c"}),  # which is there anyway
        ([Package("b", depends="c"), Package("c")], {"a", "b", "c"}),
        ([Package("b"), Package("x", provides="v (= 3), w")], {"a", "b", "x"}),
        ([Package("b"), Package("v"), Package("x", provides="v")], {"a", "b", "v"}),
        ([Package("b"), Package("libc6", depends="g"), Package("g")], {"a", "b", "libc6", "g"}),
        ([Package("b"), Package("apt", depends="k"), Package("k")], {"a", "b", "apt", "k"}),
    ],
)
def test_alternatives_and_virtual_packages(others: list[Package], expected: set[str]) -> None:
    assert closure([A, *others, Package("unrelated")], ["a"]) == expected


def test_a_file_is_found_through_links(tmp_path: Path, files: Files) -> None:
    assert files.stranger("/bin/sh") is None and files.stranger("/etc/os-release") is None
    link = tmp_path / "link"
    link.symlink_to("/usr/bin/make")
    assert str(link) in (files.stranger(str(link)) or "")
    assert files.stranger("/usr/bin/c++") is None  # an alternative
