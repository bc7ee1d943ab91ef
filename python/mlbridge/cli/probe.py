# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compiler of a request: where it is, and whether it can ask the models."""

from __future__ import annotations

import os
import shutil

from ..uri import SCHEMES
from .command_line import words
from .common import CommandError
from .request import Request

#: A program to try a compiler with. It has a call and a loop, about which some ask.
C_PROGRAM = """\
static int f(int x) { return x; }
int trial(int *x, int n) {
  for (int i = 0; i < n; ++i)
    x[i] += f(n);
  return f(1);
}
"""
MLIR_PROGRAM = """\
func.func @trial(%a: memref<8x8xf32>, %b: memref<8x8xf32>) {
  linalg.matmul ins(%a, %a : memref<8x8xf32>, memref<8x8xf32>) outs(%b : memref<8x8xf32>)
  return
}
"""


def compiler_file(request: Request) -> str:
    """The file of the compiler. CommandError if there is no such command."""
    found = shutil.which(request.compiler)
    if found is None:
        usual = request.queries[0].optimization.command(request.llvm)
        other = (
            "install it or state another"
            if request.compiler == usual
            else f"state another, such as {usual}"
        )
        raise CommandError(f"--compiler: there is no command {request.compiler}; {other}")
    return os.path.abspath(found)


def must_ask(request: Request) -> None:
    """Have the compiler ask models in its process, which the passes bind to their signatures.

    A server is left alone: for that, this would be a compilation like others.
    """
    queries = tuple(
        query
        for query in request.queries
        if all(s == "candidates" or SCHEMES.get(s) in ("model", "name") for s in query.schemes)
    )
    if not queries:
        return
    import subprocess

    compiler = compiler_file(request)
    trial = request._replace(queries=queries, log=None, on_failure="fail")
    is_mlir = request.kind == "mlir"
    level = (request.levels or queries[0].optimization.level).partition(",")[0]
    output = ["-shared", "-nostdlib", "-fPIC"] if request.lto else ["-c"]
    source = [] if is_mlir else [f"-{level}", "-x", "c", *output]
    done = subprocess.run(
        [compiler, *words(trial), *source, "-", "-o", os.devnull],
        input=MLIR_PROGRAM if is_mlir else C_PROGRAM,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        error = next((line for line in lines if "error:" in line), lines[0])
        raise CommandError(
            f"{compiler} can't ask the model: {error.partition('error: ')[2] or error}"
        )
