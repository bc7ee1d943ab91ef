# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The version stands in include/mlbridge/version.h; whatever states it says the same."""

from __future__ import annotations

import ctypes
import itertools
import re
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
import tomllib
from building import DEV, ROOT, run
from common import source_files
from common import version as version_of_the_tree

import mlbridge

VERSION = version_of_the_tree()
MAJOR, MINOR, _ = map(int, VERSION.split("."))


def stated(pattern: str, path: Path) -> list[str]:
    return re.findall(pattern, path.read_text())


def test_programs_say_it() -> None:
    assert mlbridge.__version__ == version("ml-compiler-bridge") == VERSION
    command = [sys.executable, "-m", "mlbridge", "--version"]
    assert run(*command).split()[-1] == VERSION


def test_the_c_library_says_it() -> None:
    library = DEV / "lib" / "libmlbridge-c.so"
    assert library.resolve().name == f"libmlbridge-c.so.{VERSION}"
    assert (library.parent / "libmlbridge-c.so.0").exists(), "its soname"
    assert ctypes.CDLL(str(library)).mlbridge_c_version() == MAJOR << 16 | MINOR


def test_packages_for_cmake_and_pkg_config_say_it() -> None:
    folder = DEV / "cmake"
    of_cmake = stated(r'set\(PACKAGE_VERSION "(.*)"\)', folder / "MLBridgeConfigVersion.cmake")[0]
    of_pkg_config = {text for p in folder.glob("*.pc") for text in stated("Version: (.*)", p)}
    assert {of_cmake} == of_pkg_config == {VERSION}


def test_wheels_say_it() -> None:
    for wheel in (ROOT / "build" / "wheels").glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
            assert f"\nVersion: {VERSION}\n" in archive.read(name).decode(), wheel


@pytest.mark.parametrize(
    "project", [str(p.relative_to(ROOT)) for p in source_files("pyproject.toml")]
)
def test_distributions_read_it_and_need_each_other_in_it(project: str) -> None:
    table = tomllib.loads((ROOT / project).read_text())["project"]
    assert "version" in table["dynamic"]
    extras = table.get("optional-dependencies", {}).values()
    for needed in [*table["dependencies"], *itertools.chain.from_iterable(extras)]:
        if needed.startswith("ml-compiler-bridge"):
            assert needed.partition("==")[2] in (VERSION, f"{MAJOR}.{MINOR}.*")


def test_debian_packages_say_it() -> None:
    for changelog in ROOT.glob("debian/changelog"):
        assert stated(r"\A\S+ \(([\d.]+)", changelog) == [VERSION]


def test_pages_and_examples_ask_for_it() -> None:
    """A package of CMake is found by a request for the same minor version."""
    asked = {
        f"{path.relative_to(ROOT)}: {minor}"
        for path in source_files(".md", ".txt", ".in", ".cmake")
        if path.name != "CHANGELOG.md"
        for minor in stated(r"find_package\(MLBridge (\d[\d.]*)", path)
        if minor != f"{MAJOR}.{MINOR}"
    }
    assert not asked


def test_the_reference_says_it() -> None:
    assert f"MLBridge {VERSION}" in (ROOT / "build/docs/site/docs/index.html").read_text()


def test_the_newest_entry_of_the_changelog_is_of_it() -> None:
    (newest, *_) = stated(r"(?m)^## \[?(\d+\.\d+\.\d+)", ROOT / "CHANGELOG.md")
    assert newest == VERSION


def test_a_tag_is_of_this_version() -> None:
    """A commit that is a release has no other version."""
    command = ["git", "-C", str(ROOT), "tag", "--points-at", "HEAD", "--list", "v*"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() in ([], [f"v{VERSION}"])
