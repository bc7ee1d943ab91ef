# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a correct program needs runs whatever the model chose."""

from __future__ import annotations

import pytest
from stock import BOTH, SOURCES, Compiler

MODELS = (
    "function:stop",
    "function:sequence?actions=23,5,39",
    "function:sequence?actions=31,43,22",
    f"candidates:{SOURCES}/candidates.json",
)

FAULTY = """
#include <stdio.h>
#include <stdlib.h>
int table[4];
__attribute__((noinline)) int read_at(int *at, int i) { return at[i]; }
int main(int argc, char **argv) {
  (void)argv;
  int *heap = malloc(16);
  for (int i = 0; i < 4; i++) heap[i] = table[i] = i;
  printf("%d\\n", read_at(heap, argc + 1));
  if (argc > 1) printf("%d\\n", read_at(heap, argc + 2) + (0x7fffffff - 1 + argc));
  free(heap);
  return 0;
}
"""


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("flags", [["-Oz"], ["-O1"], ["-O3"], ["-O2", "-g"]])
@BOTH
def test_a_coroutine_works(compiler: Compiler, model: str, flags: list[str]) -> None:
    program = compiler.program("coroutine.cpp", "-std=c++20", *flags, model=model)
    assert compiler.run(program).stdout == "1 2 5 10 17 26 \n"


@pytest.mark.parametrize("model", MODELS)
@BOTH
def test_always_inline_is_inlined(compiler: Compiler, model: str) -> None:
    compiler.object("shapes.c", "-Oz", model=model)
    symbols = compiler.run("llvm-nm", compiler.folder / "object.o").stdout
    assert "triple" not in symbols and "computed" in symbols


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        ("-fsanitize=address", "heap-buffer-overflow"),
        ("-fsanitize=undefined", "signed integer overflow"),
    ],
)
def test_sanitizers_find_what_they_are_for(
    compiler: Compiler, model: str, flag: str, expected: str
) -> None:
    source = compiler.folder / "faulty.c"
    source.write_text(FAULTY)
    program = compiler.program(source, "-Oz", flag, model=model)
    assert compiler.run(program).stdout == "2\n"
    done = compiler.run(program, "1", "2", check=False)
    assert expected in done.stderr


@pytest.mark.parametrize("model", MODELS)
def test_coverage_counts_as_without_the_plugin(compiler: Compiler, model: str) -> None:
    flags = ["-Oz", "-fprofile-instr-generate", "-fcoverage-mapping"]
    reports = []
    for chosen in (None, model):
        program = compiler.program("words.c", *flags, model=chosen, plugin=chosen is not None)
        compiler.run("env", "LLVM_PROFILE_FILE=raw.profraw", program)
        compiler.run("llvm-profdata", "merge", "raw.profraw", "-o", "all.profdata")
        show = compiler.run("llvm-cov", "show", program, "-instr-profile=all.profdata")
        reports.append(show.stdout)
    assert reports[0] == reports[1] and "count_words" in reports[0]


@pytest.mark.parametrize("model", MODELS)
def test_a_profile_is_written_and_used(compiler: Compiler, model: str) -> None:
    program = compiler.program("words.c", "-O2", "-fprofile-generate", model=model)
    compiler.run("env", "LLVM_PROFILE_FILE=raw.profraw", program)
    compiler.run("llvm-profdata", "merge", "raw.profraw", "-o", "all.profdata")
    used = compiler.folder / "all.profdata"
    _, said = compiler.object("words.c", "-O2", f"-fprofile-use={used}", model=model)
    assert said == ""


@pytest.mark.parametrize("model", MODELS)
def test_functions_are_instrumented_before_they_are_inlined(compiler: Compiler, model: str) -> None:
    compiler.object("words.c", "-O2", "-finstrument-functions", model=model)
    said = compiler.run("llvm-objdump", "-dr", compiler.folder / "object.o").stdout
    # count_words, main, and each function inlined into them.
    assert said.count("__cyg_profile_func_enter") >= 6


@pytest.mark.parametrize("flag", ["-flto", "-flto=thin"])
@BOTH
def test_link_time_optimization_works(compiler: Compiler, flag: str) -> None:
    expected = compiler.run(compiler.program("library.cpp", "-O2", plugin=False)).stdout
    link = ["-O2", flag, "-fuse-ld=lld", "-Wno-unused-command-line-argument"]
    program = compiler.program("library.cpp", *link, model=MODELS[1])
    assert compiler.run(program).stdout == expected
