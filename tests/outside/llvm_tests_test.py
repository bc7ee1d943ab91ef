# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The campaign over LLVM's tests, on tests of our own."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import llvm_tests
from ways import way

TEXT = """; RUN: llc < %s -mtriple=aarch64-linux-gnu -mattr=+sve | FileCheck %s
; RUN: llc < %s -mtriple=arm64-apple-macosx | FileCheck %s
define i32 @f(i32 %a, i32 %b) #0 {
  %c = mul i32 %a, %b
  %d = add i32 %c, %b
  ret i32 %d
}
attributes #0 = { optsize minsize }
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "f.ll"
    path.write_text(TEXT)
    return path


def test_the_machine_is_that_of_the_first_run_line() -> None:
    assert llvm_tests.machine(TEXT) == "-mtriple=aarch64-linux-gnu -mattr=+sve"
    assert llvm_tests.machine("; RUN: opt -S %s") == ""


def test_what_is_right_is_not_found(source: Path) -> None:
    cases = llvm_tests.codegen(source, [way("register-allocation", "random", 1)])
    cases += llvm_tests.transforms(source, [(way("phase-ordering", "shipped", 1), "Oz")])
    found = llvm_tests.verdicts(cases)
    assert len(found) == 2, "stock llc and opt take it"
    assert {one.kind for one in found} <= {"same", "changed"}, found


def test_what_fails_with_the_plugin_alone_is_found(source: Path) -> None:
    [case] = llvm_tests.codegen(source, [way("register-allocation", "random", 1)])
    [found] = llvm_tests.verdicts([replace(case, asked=case.asked + " -no-such-option")])
    assert found.kind == "crashed" and "no-such-option" in found.said
    refused = replace(case, stock=case.stock + " -no-such-option")
    assert llvm_tests.verdicts([refused]) == []
