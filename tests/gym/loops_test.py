# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Costs of an iteration of loops."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mlbridge import InvalidArgument
from mlbridge.files import plugin
from mlbridge.rewards.loops import iteration_cycles

# The recurrence of the first array keeps LLVM from vectorizing the others.
LOOP = """
void f(float *restrict a, float *restrict b, float *restrict c, const float *restrict x, int n) {
  for (int i = 1; i < n; ++i) {
    a[i] = a[i - 1] + x[i];
    b[i] = (x[i] * 3 + 1) / (x[i] * x[i] + 2);
    c[i] = (x[i] * 5 + 1) / (x[i] * x[i] + 7);
  }
}
"""
SUM = """
int f(const int *a, int n) {
  int sum = 0;
  for (int k = 0; k < n; ++k)
    for (int i = 0; i < n; ++i)
      sum += a[i] * k;
  return sum;
}
"""


def vectorized(source: str, folder: Path, *options: str, passes: str = "loop-vectorize") -> Path:
    (folder / "f.c").write_text(source)
    front_end = ["clang-22", "-O1", "-fno-unroll-loops", "-emit-llvm", "-c", "f.c", "-o", "f.bc"]
    subprocess.run(front_end, cwd=folder, check=True)
    pipeline = (
        f"-passes=loop-simplify,lcssa,loop(loop-rotate),instnamer,{passes},instcombine,instnamer"
    )
    opt = ["opt-22", "-S", pipeline, *options, "f.bc", "-o", "f.ll"]
    subprocess.run(opt, cwd=folder, check=True)
    return folder / "f.ll"


def test_a_vector_does_several_iterations(tmp_path: Path) -> None:
    scalar = iteration_cycles(vectorized(SUM, tmp_path, passes="instcombine"))
    assert 0 < iteration_cycles(vectorized(SUM, tmp_path)) < scalar / 2


@pytest.mark.parametrize("source", [LOOP, LOOP.replace("restrict ", "")], ids=["", "compared"])
def test_what_distribution_gains(source: str, tmp_path: Path) -> None:
    """Without the loop for when comparisons of addresses fail, and the rest of iterations."""

    def cost(agents: str) -> float:
        options = ["-load-pass-plugin", plugin("loop-distribution")]
        options.append(f"-loop-distribution-model=function:{agents}")
        passes = "mlbridge-loop-distribution,loop-vectorize"
        return iteration_cycles(vectorized(source, tmp_path, *options, passes=passes))

    assert cost("heuristic") < 0.8 * cost("never")
    assert cost("never") == iteration_cycles(vectorized(source, tmp_path))


def test_a_module_without_loops(tmp_path: Path) -> None:
    assert iteration_cycles(vectorized("int f(int x) { return x; }", tmp_path)) == 0


def test_a_module_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "f.ll").write_text("garbage")
    with pytest.raises(InvalidArgument, match=r"f\.ll: llc-22 ended with 1"):
        iteration_cycles(tmp_path / "f.ll")
