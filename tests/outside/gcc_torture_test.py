# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the campaign over GCC's testsuite takes from it, and what it counts. The files are ours."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import gcc_torture
import tally
from ways import Configuration

RUN = "int main(void) { return 0; }\n"
PLANTED = "#ifndef ANSWER\n#define ANSWER 0\n#endif\nint main() { return ANSWER; }"


def read(folder: Path, suite: str, text: str, name: str = "a.c") -> gcc_torture.Test | None:
    source = folder / name
    source.write_text(text)
    return gcc_torture.read(suite, source)


@pytest.mark.parametrize(
    ("directive", "options"),
    [
        ('/* { dg-options "-O3 -fwrapv -fdump-tree-vect" } */', ["-fwrapv"]),
        ('/* { dg-additional-options "-mavx" { target avx_runtime } } */', []),
        (
            '/* { dg-additional-options "-msse2" { target { i?86-*-* x86_64-*-* } } } */',
            ["-msse2"],
        ),
        ('/* { dg-options "-fno-a" }\n{ dg-additional-options "-fb -Wall" } */', ["-fno-a", "-fb"]),
    ],
)
def test_options_of_a_file(tmp_path: Path, directive: str, options: list[str]) -> None:
    test = read(tmp_path, "gcc.c-torture/compile", f"{directive}\n{RUN}")
    assert test and list(test.options) == options and not test.executed


def test_which_files_are_run(tmp_path: Path) -> None:
    def executed(suite: str, text: str) -> bool:
        test = read(tmp_path, suite, text)
        assert test is not None
        return test.executed

    assert executed("gcc.c-torture/execute", RUN)
    assert not executed("gcc.c-torture/compile", RUN)
    assert executed("gcc.dg/vect", RUN)
    assert not executed("gcc.dg/vect", f"/* {{ dg-do compile }} */ {RUN}")
    assert not executed("gcc.dg/vect", "int f(void);\n")
    assert not executed("g++.dg/torture", RUN)
    assert executed("g++.dg/torture", f"// {{ dg-do run }}\n{RUN}")


def test_files_that_are_left_out(tmp_path: Path) -> None:
    for directive in (
        'dg-skip-if "" { *-*-* }',
        'dg-additional-sources "b.c"',
        'dg-error "no such thing"',
    ):
        assert read(tmp_path, "gcc.dg/vect", f"/* {{ {directive} }} */ {RUN}") is None
    assert read(tmp_path, "gcc.dg/vect", f'/* {{ dg-skip-if "" {{ hppa*-*-* }} }} */ {RUN}')


def test_options_that_suites_have_by_name(tmp_path: Path) -> None:
    test = read(tmp_path, "gcc.dg/vect", '#include "tree-vect.h"\n' + RUN, "wrapv-a.c")
    assert test and {"-ftree-vectorize", "-fwrapv", f"-I{tmp_path}"} <= set(test.options)


@pytest.mark.parametrize(
    ("flags", "text", "counts"),
    [
        ((), RUN, (1, 0, 0)),
        (("-O0",), RUN, (1, 1, 0)),
        (("-DANSWER=3",), PLANTED, (1, 1, 1)),
        (("-DANSWER=3",), "int main() { return 1; }", (1, 0, 0)),
        (("-DANSWER=3",), "int f = 1\n#ifdef ANSWER\n+1\n#endif\n; int main() { return f; }", None),
        # Wrong at -O0 without an optimization: a difference says nothing.
        (("-DANSWER=3",), f"{PLANTED}\n#ifndef __OPTIMIZE__\n#error\n#endif", None),
    ],
)  # fmt: skip
def test_a_campaign_counts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
    text: str,
    counts: tuple[int, int, int] | None,
) -> None:
    suite = "gcc.c-torture/execute"
    tree = tmp_path / "gcc" / "testsuite"
    (tree / suite).mkdir(parents=True)
    (tree / suite / "a.c").write_text(text)
    monkeypatch.setattr(gcc_torture, "gcc_tests", lambda: tree)
    monkeypatch.setattr(gcc_torture, "SUITES", {suite: (True, "")})
    monkeypatch.setattr(gcc_torture, "draw", lambda chance, gcc: [])
    monkeypatch.setattr(gcc_torture, "reduce", lambda source, *rest: source)
    monkeypatch.setattr(tally, "FINDINGS", tmp_path / "outside")
    planted = Configuration("phase-ordering", "shipped", ("O2",), flags)
    monkeypatch.setattr(gcc_torture, "ways", lambda seed, only=(): [planted])
    report = tmp_path / "report.json"
    monkeypatch.setattr(sys, "argv", ["gcc_torture.py", "--report", str(report)])
    code = gcc_torture.main()
    if counts is None:
        assert code == 1 and not report.exists()  # nothing was compared
    else:
        [row] = json.loads(report.read_text())
        assert (row["programs"], row["changed"], row["wrong"]) == counts
        assert code == (1 if counts[2] else 0)
        assert bool(list(tmp_path.glob("outside/*/command"))) == bool(counts[2])


def test_a_seed_takes_the_same_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for suite in gcc_torture.SUITES:
        folder = tmp_path / "testsuite" / suite
        folder.mkdir(parents=True)
        for number in range(4):
            (folder / f"{number}.{'C' if 'g++' in suite else 'c'}").write_text(RUN)
    monkeypatch.setattr(gcc_torture, "gcc_tests", lambda: tmp_path / "testsuite")

    def order(seed: int) -> list[str]:
        taken = gcc_torture.tests(random.Random(seed))
        return [f"{test.suite}/{test.source.name}" for test in taken]

    assert order(1) == order(1) != order(2)
    assert len(order(1)) == 4 * len(gcc_torture.SUITES)
    assert {name.rsplit("/", 1)[0] for name in order(1)[:4]} == set(gcc_torture.SUITES)
