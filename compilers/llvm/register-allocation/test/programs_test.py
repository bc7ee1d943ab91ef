# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A real program by four agents, with LLVM's machine verifier, in `make nightly`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from compiler import Compiler

sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

SHIPPED = "native:{models}/register-allocation/{{agent}}.onnx"
CROSS = ("clang-22", "--target=aarch64-linux-gnu", "-I/usr/aarch64-linux-gnu/include")
HERE = ("clang-22",)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("compile_with", "emulator"),
    [(HERE, ()), (CROSS, ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"))],
    ids=["x86-64", "AArch64"],
)
def test_a_program_prints_what_it_did(
    compiler: Compiler, compile_with: tuple[str, ...], emulator: tuple[str, ...]
) -> None:
    """lz4, whose loops are divided in ways that leave copies which nothing uses."""
    from programs.build import compile_program, link_program, run_test
    from programs.catalog import load, select
    from programs.fetch import fetch

    (program,) = select(load(), ["lz4"])
    fetch([program])

    def printed(name: str, *flags: str) -> bytes:
        folder = compiler.folder / name
        made = compile_program(program, folder / "o", compile_with, ("-O2", *flags))
        link_program(program, made, folder / "bin", compile_with)
        return run_test(program, folder / "bin", folder / "work", emulator=emulator)

    expected = printed("stock")
    models = Path(__file__).resolve().parents[4] / "models"
    for name, model in (
        ("shipped", SHIPPED.format(models=models)),
        ("random", "function:random?seed=5"),
    ):
        line = compiler.words(model=model, on_failure="fail")
        assert printed(name, *line) == expected, name
