# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Flags taken from a stand-in for the `mlbridge` command."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from programs.catalog import ProgramsError
from programs.plugin import plugin_flags


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "bin" / "mlbridge"
    path.parent.mkdir()
    monkeypatch.setattr(sys, "executable", str(path.with_name("python")))
    return path


def script(path: Path, text: str) -> None:
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def test_flags_are_split_like_a_shell_does(tool: Path) -> None:
    script(tool, """echo "-Xclang '-model=$4' -Xclang -log=$6 '-fplugin=/a b.so'"\n""")
    assert plugin_flags("onnx:/x y.onnx", "--log", "/l") == [
        "-Xclang", "-model=onnx:/x y.onnx", "-Xclang", "-log=/l", "-fplugin=/a b.so",
    ]  # fmt: skip


def test_what_the_command_says_is_passed_on(tool: Path) -> None:
    with pytest.raises(ProgramsError, match=r"is missing; run `make build`"):
        plugin_flags("onnx:x")
    script(tool, "echo 'no such model' >&2; exit 1\n")
    with pytest.raises(ProgramsError, match=r"(?s)failed:.*no such model"):
        plugin_flags("onnx:x")
