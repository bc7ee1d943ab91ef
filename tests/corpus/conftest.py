# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Corpora in a folder of the test, and the command."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from running import MLBRIDGE, Command

SOURCES = {
    "a.c": "int twice(int x) { return x * 2; }\n",
    "b.c": "int f(int x) { return x % 7; }\nint main(void) { return f(7); }\n",
    "c.cc": "#include <vector>\nint size(int n) { return int(std::vector<int>(n).size()); }\n",
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where corpora with names lie."""
    monkeypatch.setenv("MLBRIDGE_CORPORA", str(tmp_path / "corpora"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("CC", "CXX", "MLBRIDGE_CORPUS_INCOMING"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "corpora"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A folder with sources."""
    folder = tmp_path / "program"
    folder.mkdir()
    for name, text in SOURCES.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def command(program: Path) -> Command:
    """Runs `mlbridge corpus` in the folder with the sources; it must end with `code`."""

    def run(*words: str | Path, code: int = 0, **more: Any) -> subprocess.CompletedProcess[str]:
        options = {"cwd": program, "capture_output": True, "text": True, "timeout": 300, **more}
        line = [*MLBRIDGE, "corpus", *map(str, words)]
        done: subprocess.CompletedProcess[str] = subprocess.run(line, check=False, **options)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    return run
