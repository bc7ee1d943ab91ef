# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Comparing efforts on a small program written here."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from experiments.compare import (
    Build,
    build,
    compare,
    draw,
    linked_bytes,
    problems,
    sampled,
    spent,
    summary,
    table_of,
)
from programs.catalog import Program
from programs.fetch import source_tree

MAIN = """
#include <stdio.h>
int used(int);
int main(void) { for (int i = 0; i < 9; ++i) if (used(i) % 2) printf("%d\\n", used(i)); }
"""
LIBRARY = """
int used(int n) { int s = 0; while (n--) s += n % 3 ? n : 2; return s; }
int unused(int n) { int s = 1; while (n--) s = s * 3 + n / 7; return s; }
"""
PROGRAM = Program(
    "small",
    "demo",
    "parser",
    "small-src",
    ("*.c",),
    test=(("small", ">out"),),
    workloads=(("main", (("small", "<{work}/big.txt"),)),),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    tree = source_tree(PROGRAM, tmp_path)
    tree.mkdir(parents=True)
    (tree / "main.c").write_text(MAIN)
    (tree / "library.c").write_text(LIBRARY)
    return tmp_path


def test_all_ways_of_a_program(root: Path) -> None:
    options = argparse.Namespace(
        effort=[1, 3],
        jobs=2,
        compiler="clang-22",
        emulator="",
        linked=True,
        runs=2,
        shares=True,
        way=[],
    )
    builds = compare(PROGRAM, options, root)
    assert list(builds) == ["-Oz", "outliner", "effort 1", "effort 3"]
    assert problems("small", builds) == []
    assert all(len(one.run_seconds) == 2 and one.output for one in builds.values())
    for way in ("effort 1", "effort 3"):
        seconds = builds[way].shares
        assert len(seconds) == 4 and min(seconds.values()) > 0
    assert builds["effort 3"].bytes <= builds["effort 1"].bytes <= builds["-Oz"].bytes
    found = summary({"small": builds})
    assert found["effort 3"]["larger"] == 0
    assert found["effort 3"]["bytes"]["mean"] == builds["effort 3"].bytes / builds["-Oz"].bytes
    assert found["-Oz"]["same_file"] == 2 and found["-Oz"]["equal"] == 2
    row = table_of(found)[-1]
    assert row["over -Oz"] == "effort 3" and "spills" not in row
    assert row["bytes"] == f"{found['effort 3']['bytes']['mean']:.3f}"
    assert "effort 1: of " in spent(found), "where time goes"


def test_ways_that_are_stated(root: Path) -> None:
    options = argparse.Namespace(
        way=[("never", "-mllvm -inline-threshold=-1000"), ("O3", "-O3")],
        jobs=2,
        compiler="clang-22",
        emulator="",
        linked=True,
        runs=0,
        shares=False,
        level="Oz",
        spills=True,
    )
    builds = compare(PROGRAM, options, root)
    assert list(builds) == ["-Oz", "never", "O3"]
    assert all(one.spill_cost is not None for one in builds.values())
    assert builds["O3"].bytes > builds["-Oz"].bytes
    assert builds["-Oz"].linked == linked_bytes(PROGRAM, ["-Oz"], root / "a", 1, root)
    assert problems("small", builds) == []
    draw({"small": builds}, root / "chart.svg")
    assert "functions: " in (root / "chart.svg").read_text()


def test_some_files_of_a_program(root: Path) -> None:
    assert sampled(PROGRAM, 2, root) == PROGRAM
    few = sampled(PROGRAM, 1, root)
    assert few == sampled(PROGRAM, 1, root)
    assert set(build(few, ["-O1"], root / "few", 1, root).sizes) < {"main.c", "library.c"}


def test_what_nothing_calls_is_not_linked(root: Path) -> None:
    whole = linked_bytes(PROGRAM, ["-Oz"], root / "a", 1, root)
    library = source_tree(PROGRAM, root) / "library.c"
    library.write_text(LIBRARY.split("int unused")[0])
    assert linked_bytes(PROGRAM, ["-Oz"], root / "b", 1, root) == whole
    (source_tree(PROGRAM, root) / "main.c").unlink()
    assert linked_bytes(PROGRAM, ["-Oz"], root / "c", 1, root) > 0, "a shared library"


def test_what_must_not_be(root: Path) -> None:
    plain = build(PROGRAM, ["-Oz"], root / "plain", 1, root)
    larger = Build({"main.c": plain.sizes["main.c"] + 1}, 1.0, 1.0, output=b"other")
    larger.fallbacks = ["main.c: warning"]
    said = problems("small", {"-Oz": plain, "effort 1": larger})
    assert [text.split(": ")[1].split(" (")[0] for text in said] == [
        "fell back",
        "its output differs from the -Oz build's",
        "main.c is larger than at -Oz",
    ]
    said = problems("small", {"-Oz": plain, "effort 1": larger}, never_larger=False)
    assert len(said) == 2
