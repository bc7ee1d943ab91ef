# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts of the functions of a small program in its workloads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from programs import profile
from programs.catalog import Program, ProgramsError
from programs.fetch import source_tree

SOURCES = {
    "main.c": """
#include <string.h>
#include <unistd.h>
int twice(int);
static int helper(int x) { return x + 1; }
static int never(int x) { return x - 1; }
int main(int argc, char **argv) {
  int sum = 0, count = strlen(argv[1]);
  for (int i = 0; i < count; ++i) sum += helper(twice(i));
  if (argc > 9) sum += never(sum);
  _exit(sum == 12345);
}
""",
    "lib/twice.c": """
static int helper(int x) { return x * 2; }
int twice(int x) { return helper(x) + (x % 2 ? helper(x) : 0); }
""",
    "tool.c": """
int unused(int x) { return x; }
int main(int argc, char **argv) { return argc == 3 ? 2 : 0; }
""",
}
PROGRAM = Program(
    "small",
    "demo",
    "parser",
    "small-src",
    ("main.c", "lib/*.c"),
    drivers=("tool.c",),
    executables=(("small", ("main.c", "lib/twice.c")), ("tool", ("tool.c",))),
    workloads=(
        ("ten", (("small", "x" * 10),)),
        ("both", (("small", "xxx"), ("small", "xxxx"), ("?2", "A=b", "tool", "x", "y"))),
    ),
)


@pytest.fixture
def build(tmp_path: Path) -> Path:
    tree = source_tree(PROGRAM, tmp_path)
    (tree / "lib").mkdir(parents=True)
    for name, text in SOURCES.items():
        (tree / name).write_text(text)
    (tmp_path / "source" / "small.version").write_text("small-src 1\n")
    return tmp_path


def functions(build: Path, workload: str) -> dict[str, Any]:
    made = json.loads((build / "profiles" / "small.json").read_text())
    assert list(made["workloads"]) == ["ten", "both"]
    found: dict[str, Any] = made["workloads"][workload]["functions"]
    return found


def test_counts_of_each_workload(build: Path) -> None:
    said = profile.write(PROGRAM, build=build)
    assert "ten: 4 of 5 ran" in said and "both: 5 of 7 ran" in said
    ten = functions(build, "ten")
    assert ten["main.c;helper"] == [10, 10, 10] and ten["lib/twice.c;helper"] == [15, 15, 15]
    assert ten["twice"][0] == 10 and ten["main.c;never"] == [0, 0, 0]
    assert ten["main.c;main"][0] == 1 and "tool.c;main" not in ten and "unused" not in ten
    both = functions(build, "both")
    assert both["main.c;helper"] == [7, 7, 7] and both["main.c;main"][0] == 2
    assert both["tool.c;main"][0] == 1 and both["unused"] == [0, 0, 0]


def test_a_program_is_profiled_again_only_if_something_changed(
    build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = profile.write(PROGRAM, build=build)
    with monkeypatch.context() as patched:
        patched.setattr(profile, "profile", lambda *_: pytest.fail("profiled"))
        assert profile.write(PROGRAM, build=build) == said
    (build / "source" / "small.version").write_text("small-src 2\n")
    assert profile.write(PROGRAM, build=build).startswith("demo       small")
    assert json.loads((build / "profiles" / "small.json").read_text())["version"] == "small-src 2"
    assert not list(build.glob(".profile-*"))


def test_a_workload_that_fails_names_the_program(build: Path) -> None:
    (source_tree(PROGRAM, build) / "tool.c").write_text("int main(void) { return 1; }\n")
    with pytest.raises(ProgramsError, match=r"small: .*tool x y ended with 1, expected 2"):
        profile.write(PROGRAM, build=build)
    assert not (build / "profiles" / "small.json").exists()
