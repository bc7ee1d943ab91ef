# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bytes and times of a small program, compiled in two ways."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from programs import timing
from programs.catalog import Program, ProgramsError
from programs.fetch import source_tree

MAIN = """
#include <stdio.h>
#include <stdlib.h>
int unused(int x) { return x / 3 + x / 5 + x / 7; }
int main(int argc, char **argv) {
  int c, sum = 0;
  while ((c = getchar()) != EOF) sum = sum * 31 + c;
  if (fopen("there", "r")) return 9;
  fclose(fopen("there", "w"));
  printf("%d %s\\n", sum, getenv("MODE"));
#ifdef __OPTIMIZE_SIZE__
  if (argc > 1) puts("small");
#endif
  return 2;
}
"""
PROGRAM = Program(
    "small",
    "demo",
    "parser",
    "small-src",
    ("*.c",),
    workloads=(("same", (("?2", "MODE=fast", "small", "<{src}/main.c", ">out"),)),),
)
WAYS = {"O2": ["-O2"], "Os": ["-Os"]}


@pytest.fixture
def build(tmp_path: Path) -> Path:
    tree = source_tree(PROGRAM, tmp_path)
    tree.mkdir(parents=True)
    (tree / "main.c").write_text(MAIN)
    (tmp_path / "source" / "small.version").write_text("small-src 1\n")
    return tmp_path


def test_bytes_and_times(build: Path) -> None:
    found = timing.compare(PROGRAM, WAYS, build / "made", seconds=0.0, build=build)
    assert min(found["bytes"].values()) > 0 and found["version"] == "small-src 1"
    same = found["workloads"]["same"]
    assert same["differences"] == {} and same["ratios"]["Os"]["count"] >= 8
    assert found["time"] == {"Os": pytest.approx(same["ratios"]["Os"]["mean"])}
    line = timing.shown("small", found)
    assert line.startswith("small ") and "Os: bytes " in line and "A/A " in line


def test_another_output_has_no_time(build: Path) -> None:
    lines = (("?2", "small", "x", "<{src}/main.c"),)
    program = replace(PROGRAM, workloads=(("other", lines),))
    found = timing.compare(program, WAYS, build / "made", seconds=0.0, build=build)
    assert found["time"] == {"Os": None}
    differences = found["workloads"]["other"]["differences"]
    assert differences == {"Os": "the standard output of command 1 differs"}
    assert "time - (-)" in timing.shown("small", found)


def test_a_workload_that_fails(build: Path) -> None:
    program = replace(PROGRAM, workloads=(("fails", (("small",),)),))
    with pytest.raises(ProgramsError, match=r"small: fails: O2: .* ended with 2, expected 0"):
        timing.compare(program, WAYS, build / "made", seconds=0.0, build=build)
    with pytest.raises(SystemExit):
        timing.main(["--way", "O2=-O2", "small"])
