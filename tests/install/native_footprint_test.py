# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a plugin pays for the native engine: few bytes, and no library that it lacks otherwise."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import pytest
from building import ROOT, run

sys.path.insert(0, str(ROOT / "bench/in-process"))
from sizes import Sizes

from mlbridge.files import plugin

MOST_KILOBYTES = 400
SYSTEM = ("libc.so.", "libstdc++.so.", "libm.so.", "libgcc_s.so.", "ld-linux", "libLLVM")


def needed(file: Path) -> list[str]:
    lines = run("readelf", "-d", file).splitlines()
    return [line.split("[")[1].rstrip("]") for line in lines if "(NEEDED)" in line]


def foreign(file: Path) -> list[str]:
    return [name for name in needed(file) if not name.startswith(SYSTEM)]


@pytest.fixture(scope="session")
def release() -> Path:
    """The library as it is installed. Sizes of another build say nothing."""
    folder = ROOT / "build/cmake/release"
    run("cmake", "--preset", "release", cwd=ROOT)
    run("cmake", "--build", folder, f"-j{os.cpu_count() or 1}", "--target", "mlbridge")
    return folder


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the limit is one of x86-64")
def test_native_adds_no_more_than_its_limit(release: Path, tmp_path: Path) -> None:
    added = Sizes(release, tmp_path).of("native")
    print(f"native adds {added:.0f} KB to a plugin")
    assert 100 < added <= MOST_KILOBYTES
    assert foreign(tmp_path / "native.plugin") == []


def test_the_llvm_plugin_needs_the_system_only() -> None:
    path = Path(plugin("phase-ordering"))
    assert needed(path) and foreign(path) == []
