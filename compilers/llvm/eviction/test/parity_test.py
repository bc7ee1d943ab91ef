# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A policy is asked the same over LLVM's interactive channel and through the plugin: each tensor of
each question, bit by bit, and makes the same object."""

from __future__ import annotations

from pathlib import Path

import channels
import pytest
from compiler import Compiler

SHAPES = {"mask": 33 * 8, "use_def_density": 33 * 4, "progress": 4}
PRIORITY = {"li_size": 8, "stage": 8, "weight": 4}
AARCH64 = "aarch64-linux-gnu"


def check_asks_the_same(
    compiler: Compiler,
    bitcode: Path,
    *flags: str,
    questions: tuple[str, ...] = ("eviction",),
    policy: channels.Policy = channels.arbitrary,
) -> None:
    folder = compiler.folder
    stock, learned = folder / "stock.o", folder / "learned.o"
    command: list[str | Path] = [compiler.tool("llc"), "-filetype=obj", *flags, bitcode, "-o"]
    expected = channels.over_channels([*command, stock], questions, policy, folder / "channels")
    asked = channels.over_plugin([*command, learned], questions, policy, compiler.plugin, folder)
    assert len(expected.questions) > 10
    assert asked.questions == expected.questions
    sizes = [{k: len(v) for k, v in features.items()} for _, features, _ in asked.questions]
    if "eviction" in questions:
        assert any(len(one) == 21 and SHAPES.items() <= one.items() for one in sizes)
    if "priority" in questions:
        assert PRIORITY in sizes
    assert stock.read_bytes() == learned.read_bytes()
    assert learned.read_bytes() != compiler.llc(bitcode, *flags).object, "nothing was decided"


@pytest.mark.parametrize("source", ["floats.c", "integers.cpp"])
@pytest.mark.parametrize("level", ["-O2", "-Oz"])
def test_eviction(each_compiler: Compiler, source: str, level: str) -> None:
    check_asks_the_same(each_compiler, each_compiler.bitcode(source, level))


def test_priority(compiler: Compiler) -> None:
    bitcode = compiler.bitcode("integers.cpp")
    check_asks_the_same(compiler, bitcode, questions=("priority",))


def test_both_at_once(compiler: Compiler) -> None:
    bitcode = compiler.bitcode("integers.cpp")
    check_asks_the_same(
        compiler, bitcode, questions=("eviction", "priority"), policy=channels.least_used
    )


def test_another_target(compiler: Compiler) -> None:
    bitcode = compiler.bitcode("floats.c", "-O2", f"--target={AARCH64}")
    # It has twice as many registers as the input keeps busy.
    flags = (f"-mtriple={AARCH64}", "-stress-regalloc=12")
    check_asks_the_same(compiler, bitcode, *flags, questions=("eviction", "priority"))
