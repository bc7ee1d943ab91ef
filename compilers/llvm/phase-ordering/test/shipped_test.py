# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `mlbridge flags` gives: the shipped policy and candidates."""

from __future__ import annotations

import pytest
from compiler import printed_flags
from sampling import LLVM_19
from stock import Compiler

from mlbridge.elf import file_executable_bytes

SHIPPED = [("phase-ordering", 0), ("phase-ordering", 1), ("phase-ordering inliner", 3)]


@pytest.mark.parametrize(
    ("optimizations", "effort", "llvm"),
    [
        *((*shipped, 22) for shipped in SHIPPED),
        (*SHIPPED[-1], 19),
        *(pytest.param(*shipped, 19, marks=LLVM_19.marks) for shipped in SHIPPED[:-1]),
    ],
)
def test_what_is_shipped_works(compiler: Compiler, optimizations: str, effort: int) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime isn't installed")
    plain, _ = compiler.compile("library.cpp", "plain.o", "-Oz", "-c")
    words = (*optimizations.split(), "--effort", str(effort), "--llvm", str(compiler.llvm))
    made, said = compiler.compile("library.cpp", "made.o", "-Oz", "-c", *printed_flags(*words))
    assert said == ""
    assert made.read_bytes() != plain.read_bytes()
    if effort:
        assert file_executable_bytes(made) < file_executable_bytes(plain)
    for kind in (plain, made):
        compiler.run("clang++", kind, "-o", kind.with_suffix(""))
    outputs = [compiler.run(kind.with_suffix("")).stdout for kind in (plain, made)]
    assert outputs[0] == outputs[1] and outputs[0]
