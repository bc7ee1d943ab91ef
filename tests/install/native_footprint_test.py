# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a plugin pays for the library and each scheme: few bytes, and no library that it lacks."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest
from building import DEV, ROOT, run
from sampling import nightly

sys.path.insert(0, str(ROOT / "bench/in-process"))
from sizes import Sizes

from mlbridge.files import plugin

#: What the library's base may add to a plugin, and each scheme to the base, in KB.
MOST_KILOBYTES = {"base": 86, "aot": 29, "native": 662, "unix": 170, "core": 990}
SYSTEM = ("libc.so.", "libstdc++.so.", "libm.so.", "libgcc_s.so.", "ld-linux", "libLLVM")


def needed(file: Path) -> list[str]:
    lines = run("readelf", "-d", file).splitlines()
    return [line.split("[")[1].rstrip("]") for line in lines if "(NEEDED)" in line]


def foreign(file: Path) -> list[str]:
    return [name for name in needed(file) if not name.startswith(SYSTEM)]


@pytest.fixture(params=["dev", nightly("release")])
def library(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A build of the library; the one that is installed is the preset release."""
    if request.param == "dev":
        return DEV
    run("cmake", "--preset", "release", "-B", tmp_path / "release", cwd=ROOT)
    run("cmake", "--build", tmp_path / "release", "--target", "mlbridge")
    return tmp_path / "release"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the limit is one of x86-64")
def test_a_scheme_adds_no_more_than_its_limit(library: Path, tmp_path: Path) -> None:
    sizes = Sizes(library, tmp_path)
    added = {part: sizes.of(part) for part in MOST_KILOBYTES}
    print("KB added to a plugin:", {part: round(size) for part, size in added.items()})
    for part, most in MOST_KILOBYTES.items():
        assert 10 < added[part] <= most, part
        assert foreign(tmp_path / f"{part}.plugin") == []


def test_the_llvm_plugin_needs_the_system_only() -> None:
    path = Path(plugin("phase-ordering"))
    assert needed(path) and foreign(path) == []
