# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""With an effort no function costs more than with the greedy allocator, whoever decides."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from compiler import Compiler

from mlbridge.files import clang_words
from mlbridge.spills import RECORD, SUFFIX, spill_costs


def costs(compiler: Compiler, source: str | Path, *flags: str, **settings: str) -> dict[str, float]:
    made = compiler.clang(source, *RECORD, *flags, **settings)
    assert made.code == 0 and not made.stderr
    return spill_costs(made.path.with_suffix(SUFFIX))


@pytest.mark.parametrize("source", ["mixed.c", "pads.cpp"])
@pytest.mark.parametrize("model", ["function:heuristic", "function:random?seed=5"])
def test_no_function_costs_more(compiler: Compiler, source: str, model: str) -> None:
    usual = costs(compiler, source)
    believed = costs(compiler, source, model=model, on_failure="fail")
    kept = costs(compiler, source, model=model, on_failure="fail", effort="1")
    assert all(kept.get(name, 0) <= usual[name] for name in usual)
    assert any(believed[name] > usual[name] for name in usual) or kept == believed


@pytest.mark.nightly
def test_functions_that_agents_do_not_take_cost_no_more_than_with_the_basic_allocator(
    compiler: Compiler,
) -> None:
    """In jsonnet's lexer, many of whose functions have exception pads."""
    from programs.build import compile_command
    from programs.catalog import load, select
    from programs.fetch import BUILD, fetch, source_tree

    (program,) = fetch(select(load(), ["jsonnet"]))
    tree = source_tree(program, BUILD)

    def lexed(*options: str) -> dict[str, float]:
        made = compiler.folder / "lexer.o"
        line = [*RECORD, *clang_words(str(compiler.plugin), *options)]
        command = [*compile_command(program, "core/lexer.cpp"), "-O2", *line, "-c", "-o", str(made)]
        subprocess.run(command, cwd=tree, check=True, timeout=300)
        return spill_costs(made.with_suffix(SUFFIX))

    model = "-register-allocation-model=function:heuristic"
    usual, basic = lexed(), lexed("-regalloc=basic")
    kept = lexed(model, "-register-allocation-effort=1")
    (name,) = [name for name in usual if "lex_number" in name]
    assert kept[name] == basic[name] < usual[name]


@pytest.mark.parametrize("effort", ["0", "1"])
def test_an_argument_is_computed_again_rather_than_copied(compiler: Compiler, effort: str) -> None:
    source = compiler.folder / "argument.c"
    source.write_text("""
int call(const char *);
void often(int count) { while (count-- > 0) call("text"); }
""")
    assert costs(compiler, source)["often"] > 10
    kept = costs(compiler, source, model="function:heuristic", effort=effort)
    assert kept.get("often", 0) < 10
    small = costs(compiler, source, "-Os", model="function:heuristic", effort=effort)
    assert small["often"] > 10  # it takes more bytes


def test_a_function_whose_ranges_are_all_computed_again(compiler: Compiler) -> None:
    """The greedy allocator has nothing to do then, and doesn't say that it is done."""
    source = compiler.folder / "constant.c"
    source.write_text("unsigned long flags(void) { return 0xa9; }\nvoid nothing(int x) {}\n")
    made = compiler.clang(source, model="function:random?seed=5", effort="1")
    assert made.code == 0 and not made.stderr


def test_what_costs_less_is_taken_whole(compiler: Compiler) -> None:
    """And what costs more is the greedy allocator's, byte for byte."""
    plain = compiler.clang("mixed.c")
    printed, before = compiler.output(plain), plain.object
    made = compiler.clang("mixed.c", model="function:random?seed=3", effort="1", on_failure="fail")
    assert not made.stderr and compiler.output(made) == printed
    assert made.object == before


@pytest.mark.parametrize(
    ("model", "effort", "says"),
    [
        ("function:heuristic", "often", "-register-allocation-effort: expected 0 to 100"),
        ("unix:/nowhere", "1", "can't share a connection"),
        ("task=unix:/nowhere;*=function:heuristic", "1", "got unix:/nowhere"),
    ],
)
def test_an_effort_that_makes_no_sense(
    compiler: Compiler, model: str, effort: str, says: str
) -> None:
    made = compiler.clang("mixed.c", model=model, effort=effort)
    assert made.code != 0 and says in made.stderr


@pytest.mark.parametrize("model", ["function:nope", "native:/nowhere.onnx"])
def test_agents_that_fail_have_failed(compiler: Compiler, model: str) -> None:
    plain = compiler.clang("mixed.c").object
    made = compiler.clang("mixed.c", model=model, effort="1")
    assert len(made.warnings) == 1 and model in made.stderr
    assert made.object == plain
    assert compiler.clang("mixed.c", model=model, effort="1", on_failure="fail").code != 0
