# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The campaign over LLVM's tests, on tests of our own."""

from __future__ import annotations

import os
import subprocess
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

MODULE = """
; RUN: llc < %s -mtriple=x86_64-- -mcpu=atom -stats 2>&1 | FileCheck %s
define i32 @f(i32 %x) {
  ret i32 %x
}
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


def test_files_with_a_marker_that_llvm_itself_gets_wrong_are_no_inputs(tmp_path: Path) -> None:
    """If this fails for LLVM, READS_X29 has had its time."""
    lines = [
        'target triple = "arm64e-apple-iphoneos"',
        "declare ptr @llvm.objc.retainAutoreleasedReturnValue(ptr)",
        "declare void @use(i64)",
        "define void @f(ptr %callee, ptr %from) {",
        '  %r = call ptr %callee() [ "clang.arc.attachedcall"'
        "(ptr @llvm.objc.retainAutoreleasedReturnValue) ]",
    ]
    # More values at once than there are other registers that calls keep.
    for i in range(12):
        lines += [f"  %p{i} = getelementptr i64, ptr %from, i64 {i}"]
        lines += [f"  %v{i} = load volatile i64, ptr %p{i}"]
    lines += [f"  call void @use(i64 %v{i})" for i in range(12)]
    path = tmp_path / "marker.ll"
    path.write_text("\n".join([*lines, "  ret void", "}", ""]))
    stock = ["llc-22", "-verify-machineinstrs", str(path), "-o", "/dev/null"]
    quick = {**os.environ, "LLVM_DISABLE_SYMBOLIZATION": "1"}  # it ends by a crash, which is known
    said = subprocess.run(stock, capture_output=True, text=True, check=False, env=quick).stderr
    assert "Using an undefined physical register" in said and "$fp" in said
    assert llvm_tests.codegen(path, [way("register-allocation", "random", 1)]) == []


def test_what_fails_with_the_plugin_alone_is_found(source: Path) -> None:
    [case] = llvm_tests.codegen(source, [way("register-allocation", "random", 1)])
    [found] = llvm_tests.verdicts([replace(case, asked=case.asked + " -no-such-option")])
    assert found.kind == "crashed" and "no-such-option" in found.said
    refused = replace(case, stock=case.stock + " -no-such-option")
    assert llvm_tests.verdicts([refused]) == []


@pytest.mark.parametrize(
    ("line", "options"),
    [
        (
            "; RUN: llc < %s -mtriple=x86_64-- -mcpu=atom -stats | FileCheck -O1",
            "-mtriple=x86_64-- -mcpu=atom",
        ),
        (
            "; RUN: opt %s -mtriple=a\n; RUN: llc -O1 \\\n; RUN:   -mattr=+v,+f %s",
            "-O1 -mattr=+v,+f",
        ),
        ("; RUN: llc --march arm -mattr=%{all} %s", "--march=arm"),
        ("; RUN: opt -S %s", ""),
    ],
)
def test_options_of_the_machine(line: str, options: str) -> None:
    assert llvm_tests.machine(line) == options


def kinds(text: str, folder: Path) -> dict[str, str]:
    source = folder / "f.ll"
    source.write_text(text)
    ways = [way(optimization, name, 1) for optimization, name in llvm_tests.LLC]
    return {
        f"{verdict.case.optimization} {verdict.case.name}": verdict.kind
        for verdict in llvm_tests.verdicts(llvm_tests.codegen(source, ways))
    }


def test_inputs_are_counted(tmp_path: Path) -> None:
    found = kinds(MODULE, tmp_path)
    assert len(found) == len(llvm_tests.LLC)
    assert set(found.values()) <= {"same", "changed", "refused"}
    elsewhere = kinds(MODULE.replace("x86_64", "riscv64").replace("-mcpu=atom", ""), tmp_path)
    assert elsewhere["register-allocation shipped"] == "refused"
    assert elsewhere["regalloc-eviction shipped"] == "same"
    assert not kinds("not a module", tmp_path)


@pytest.mark.parametrize(
    ("script", "kind"),
    [("exit 1", "crashed"), ("echo Bad machine code >&2; exit 1", "wrong"), (":", "same")],
)
def test_each_fault_is_seen(tmp_path: Path, script: str, kind: str) -> None:
    source = tmp_path / "f.ll"
    source.write_text(MODULE)
    compiler = tmp_path / "compiler"
    compiler.write_text(f"#!/bin/sh\necho made >$3\n{script}\n")
    compiler.chmod(0o755)
    case = llvm_tests.Case("s", "o", "n", source, "true {0}", f"{compiler} {{0}}")
    assert llvm_tests.verdict_of(case, b"made\n", tmp_path).kind == kind
