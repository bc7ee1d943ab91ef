# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Components and plugins export their entry point and nothing else, as built and as installed."""

from __future__ import annotations

from pathlib import Path

import pytest
from building import run

from mlbridge.optimizations import OPTIMIZATIONS

#: The plugins' files; GCC wants more names than one.
PLUGINS = {one.plugin: one for one in OPTIMIZATIONS.values() if one.compiler != "gcc"}


def exported(file: Path) -> list[str]:
    lines = run("nm", "-D", "--defined-only", file).splitlines()
    return sorted(line.split()[-1] for line in lines)


def test_components_export_their_entry_only(prefix: Path) -> None:
    components = sorted(prefix.rglob("libmlbridge-*-*.so"))
    assert {c.name for c in components} >= {
        "libmlbridge-serdes-json.so",
        "libmlbridge-serdes-protobuf.so",
        "libmlbridge-engine-onnx.so",
        "libmlbridge-transport-grpc.so",
    }
    for component in components:
        assert exported(component) == ["mlb_component_entry"], component


@pytest.mark.parametrize("name", PLUGINS)
def test_plugins_export_their_entry_only(name: str) -> None:
    assert exported(Path(PLUGINS[name].file())) == [f"{PLUGINS[name].compiler}GetPassPluginInfo"]


@pytest.mark.parametrize("name", PLUGINS)
def test_plugins_bring_no_second_llvm(name: str) -> None:
    needed = [s for s in run("readelf", "-d", PLUGINS[name].file()).splitlines() if "NEEDED" in s]
    assert needed and not [s for s in needed if "LLVM" in s or "MLIR" in s or "clang" in s]


def test_nothing_installed_knows_the_build_tree(prefix: Path) -> None:
    """No run path into the build tree; a moved or copied installation works."""
    for file in prefix.rglob("*.so"):
        dynamic = run("readelf", "-d", file)
        paths = [s for s in dynamic.splitlines() if "RPATH" in s or "RUNPATH" in s]
        assert not [s for s in paths if "/build/" in s], f"{file}: {paths}"
