# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The pass `nooutline-hot`: what probably runs most keeps its code, the rest is outlined."""

from __future__ import annotations

import json
import re

import pytest
from stock import BOTH, Compiler

#: `loop` runs for each of main's rounds, and its own loop for each of those; `rest` runs once.
PROGRAM = """
declare i32 @use(i32)
define internal i32 @loop(i32 %n) @1{
entry:
  br label %again
again:
  %i = phi i32 [ 0, %entry ], [ %next, %again ]
  %used = call i32 @use(i32 %i)
  %next = add i32 %i, %used
  %more = icmp slt i32 %next, %n
  br i1 %more, label %again, label %done
done:
  ret i32 %next
}
define internal i32 @rest(i32 %n) @2{
  %a = call i32 @use(i32 %n)
  %b = call i32 @use(i32 %a)
  %c = mul i32 %b, %a
  ret i32 %c
}
define i32 @main(i32 %n) @3{
entry:
  %r = call i32 @rest(i32 %n)
  br label %again
again:
  %i = phi i32 [ 0, %entry ], [ %next, %again ]
  %next = call i32 @loop(i32 %i)
  %more = icmp slt i32 %next, %r
  br i1 %more, label %again, label %done
done:
  ret i32 %next
}
"""
PROFILE = """
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"ProfileSummary", !1}
!1 = !{!2, !3, !4, !5, !6, !7, !8, !9}
!2 = !{!"ProfileFormat", !"InstrProf"}
!3 = !{!"TotalCount", i64 1000}
!4 = !{!"MaxCount", i64 900}
!5 = !{!"MaxInternalCount", i64 900}
!6 = !{!"MaxFunctionCount", i64 900}
!7 = !{!"NumCounts", i64 3}
!8 = !{!"NumFunctions", i64 3}
!9 = !{!"DetailedSummary", !10}
!10 = !{!11}
!11 = !{i32 10000, i64 900, i32 1}
!20 = !{!"function_entry_count", i64 0}
!21 = !{!"function_entry_count", i64 900}
!22 = !{!"function_entry_count", i64 1}
"""
ALIKE = """
#include <stdio.h>
static unsigned state = 1;
#define ALIKE(name) __attribute__((noinline)) static unsigned name(unsigned a, unsigned b) { \\
  state = state * 1664525u + a * b + 1013904223u; state ^= state >> 3; state += a ^ b; \\
  state = state * 22695477u + a - b; state ^= state >> 5; return state; }
ALIKE(hot) ALIKE(one) ALIKE(two) ALIKE(three) ALIKE(four)
int main(int argc, char **argv) {
  unsigned sum = one(argc, 2) + two(argc, 3) + three(argc, 4) + four(argc, 5);
  for (int i = 0; i < argc * 100; i++)
    for (int j = 0; j < i; j++)
      sum += hot(i, j);
  printf("%u\\n", sum);
}
"""


def spared(compiler: Compiler, text: str, passes: str) -> set[str]:
    """The functions that have the attribute afterwards."""
    (compiler.folder / "in.ll").write_text(text)
    command = ["opt", f"-load-pass-plugin={compiler.plugin}", f"-passes={passes}", "-S", "-o", "-"]
    made = compiler.run(*command, compiler.folder / "in.ll").stdout
    groups = re.findall(r'attributes (#\d+) = \{.*"nooutline".*\}', made)
    found = re.findall(r"define .*@(\w+)\(.*\) (#\d+)", made)
    return {name for name, group in found if group in groups}


def without_profile(text: str) -> str:
    return re.sub(r"@\d\{", "{", text)


def with_profile(text: str) -> str:
    return re.sub(r"@(\d)\{", lambda m: f"!prof !{19 + int(m[1])} {{", text) + PROFILE


@BOTH
def test_what_runs_most_for_its_size_is_spared(compiler: Compiler) -> None:
    program = without_profile(PROGRAM)
    assert spared(compiler, program, "nooutline-hot<0>") == set()
    assert spared(compiler, program, "nooutline-hot<50>") == {"loop"}
    assert spared(compiler, program, "nooutline-hot<100>") == {"loop", "main", "rest"}


@BOTH
def test_a_profile_says_it_better(compiler: Compiler) -> None:
    program = with_profile(PROGRAM)
    assert spared(compiler, program, "nooutline-hot<30>") == {"rest"}
    assert spared(compiler, program, "nooutline-hot<100>") == {"rest", "main"}  # loop never ran


@pytest.mark.parametrize("wrong", ["101", "-1", "", "x", "4294967297"])
def test_a_share_that_is_none(compiler: Compiler, wrong: str) -> None:
    (compiler.folder / "in.ll").write_text(without_profile(PROGRAM))
    load = f"-load-pass-plugin={compiler.plugin}"
    passes = f"-passes=nooutline-hot<{wrong}>"
    done = compiler.run("opt", load, passes, compiler.folder / "in.ll", "-o", "-", check=False)
    assert done.returncode == 1 and "unknown pass name 'nooutline-hot" in done.stderr


def test_a_link_leaves_the_loop_alone(compiler: Compiler) -> None:
    """Functions with the same code share some of it, but for the one that runs in a loop."""
    (compiler.folder / "program.c").write_text(ALIKE)
    one = {
        "name": "one",
        "passes": "default<Oz>,nooutline-hot<30>",
        "options": ["enable-machine-outliner=always"],
    }
    every = one | {"name": "every", "passes": "default<Oz>"}
    outlined = {}
    for way in (one, every):
        listed = compiler.folder / "list.json"
        listed.write_text(json.dumps({"version": 1, "candidates": [way]}))
        words = compiler.options(f"candidates:{listed}", levels=None, effort=1)
        load = f"-Wl,--load-pass-plugin={compiler.plugin}"
        driver = ["clang", "-Oz", "-flto", "-fuse-ld=lld", load, *words]
        compiler.run(*driver, compiler.folder / "program.c", "-o", compiler.folder / "program")
        said = compiler.run("llvm-objdump", "-d", "--no-show-raw-insn", "program").stdout
        outlined[way["name"]] = {
            text.partition(">:")[0]
            for text in said.split("\n\n")
            if "OUTLINED" in text.partition(">:")[2]
            for text in [text.partition("<")[2]]
        }
        assert compiler.run(compiler.folder / "program").stdout
    assert "hot" in outlined["every"] and "one" in outlined["every"]
    assert "hot" not in outlined["one"] and {"one", "two"} <= outlined["one"]
