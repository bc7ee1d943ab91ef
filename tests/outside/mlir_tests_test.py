# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The campaign over MLIR's tests sees what is wrong, on tests of our own."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import mlir_tests
import tally
from mlir_tests import Stage, alike, every_file, integration, parts_of, run_lines, stages
from tally import Tally

SMALL = {"small": "function:constant?size=2&vectorize=0"}
LOWER = (
    "-convert-linalg-to-loops -convert-scf-to-cf -expand-strided-metadata -lower-affine "
    "-finalize-memref-to-llvm -convert-func-to-llvm -convert-arith-to-llvm "
    "-reconcile-unrealized-casts"
)
SUMS = """
func.func private @printF32(f32)
func.func @main() {
  %a = memref.alloc() : memref<4x4xf32>
  %b = memref.alloc() : memref<4xf32>
  %one = arith.constant 1.5 : f32
  linalg.fill ins(%one : f32) outs(%a : memref<4x4xf32>)
  linalg.fill ins(%one : f32) outs(%b : memref<4xf32>)
  linalg.reduce {arith.addf} ins(%a : memref<4x4xf32>) outs(%b : memref<4xf32>) dimensions = [1]
  %zero = arith.constant 0 : index
  %sum = memref.load %b[%zero] : memref<4xf32>
  call @printF32(%sum) : (f32) -> ()
  return
}
"""
TEST = f"""// DEFINE: %{{lower}} = {LOWER}
// DEFINE: %{{run}} = mlir-cpu-runner -e main -entry-point-result=void \\
// DEFINE:   -shared-libs=%mlir_c_runner_utils
// RUN: mlir-opt %s %{{lower}} | \\
// RUN: %{{run}} | FileCheck %s
{SUMS}"""


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tally, "FINDINGS", tmp_path / "outside")
    return tmp_path / "outside"


def own_tests(folder: Path, text: str) -> list[Path]:
    path = folder / "mlir" / "test" / "Integration" / "sums.mlir"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return [path]


def test_commands_of_a_test(tmp_path: Path) -> None:
    (line,) = run_lines(TEST)
    path = tmp_path / "test.mlir"
    first, second = stages(line, path, tmp_path) or []
    assert first.command[:3] == ["mlir-opt-22", str(path), "-convert-linalg-to-loops"]
    library = "-shared-libs=/usr/lib/llvm-22/lib/libmlir_c_runner_utils.so"
    assert second.command == ["mlir-runner-22", "-e", "main", "-entry-point-result=void", library]
    again = "// DEFINE: %{x} = -a\n// RUN: mlir-opt %{x}\n// REDEFINE: %{x} = -b\n// RUN: t %{x}\n"
    assert list(run_lines(again)) == ["mlir-opt -a", "t -b"]
    for other in (
        "mlir-translate %s | FileCheck %s",
        "mlir-opt %s | FileCheck %s",
        "%if x %{ y %}",
    ):
        assert stages(other, path, tmp_path) is None
    assert stages("env A=1 mlir-opt %s | B=2 mlir-runner -e main", path, tmp_path) == [
        Stage(["mlir-opt-22", str(path), *mlir_tests.FINISHING], {"A": "1"}),
        Stage(["mlir-runner-22", "-e", "main"], {"B": "2"}),
    ]


def test_what_is_the_same_but_for_rounding() -> None:
    assert alike("x = 1.00001, 2", "x = 1.00002, 2") and alike("nan 5", "nan 5")
    assert not alike("x = 1.1, 2", "x = 1.2, 2")
    assert not alike("x = 1", "y = 1") and not alike("1, 2", "1, 2, 3")
    assert not alike("nan", str(math.pi))


def test_a_test_that_is_tiled_prints_the_same(tmp_path: Path, kept: Path) -> None:
    paths = own_tests(tmp_path, TEST)
    tallied = Tally("suite", "tiling")
    counts = integration(tallied, paths, tmp_path, SMALL, time.monotonic() + 60)
    assert (tallied.programs, tallied.changed, tallied.wrong, tallied.crashed) == (1, 1, 0, 0)
    assert counts["dense"] == mlir_tests.Counts(tests=1, tiled=1, same=1, own_passes=1)


def test_another_result_is_found(
    tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in for tiling makes another number of one."""
    run = mlir_tests.run

    def wrong(*command: str | Path, **options: object) -> mlir_tests.Done:
        done = run(*command, **options)  # type: ignore[arg-type]
        if any("--load-pass-plugin" in str(word) for word in command):
            return mlir_tests.Done(0, done.out.replace("1.5", "2.5"), done.err)
        return done

    monkeypatch.setattr(mlir_tests, "run", wrong)
    tallied = Tally("suite", "tiling")
    integration(tallied, own_tests(tmp_path, TEST), tmp_path, SMALL, time.monotonic() + 60)
    assert tallied.wrong == 1
    (folder,) = kept.iterdir()
    assert "untiled:\n7.5\ntiled:" in (folder / "why").read_text()
    assert "--only sums.mlir --models small=function:constant" in tallied.found[0]


def test_every_part_of_a_file(tmp_path: Path, kept: Path) -> None:
    text = f"{SUMS}\n// -----\nthis is refused\n// -----\nfunc.func private @f()\n"
    parts = parts_of(own_tests(tmp_path, text), tmp_path)
    assert [part.name.rpartition("#")[2] for part in parts] == ["0", "2"]
    tallied = Tally("suite", "tiling")
    every_file(tallied, parts, SMALL)
    assert (tallied.programs, tallied.changed, tallied.wrong, tallied.crashed) == (2, 1, 0, 0)
    every_file(tallied, parts, {"nobody": "function:nobody"})
    assert (tallied.programs, tallied.wrong) == (4, 1)
    (folder,) = kept.iterdir()
    assert "function:nobody" in (folder / "command").read_text()
    assert "no function is registered" in (folder / "why").read_text()
