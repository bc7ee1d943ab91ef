# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each plugin, for every target that clang has: never an error, no file that stock clang doesn't
make, and stock clang's output where an optimization has nothing to do."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from compiler import printed_flags
from sampling import nightly

SOURCE = """
int mix(int x, int y) { return x * 3 + y; }
int sum(const int *v, int n) {
  int total = 0;
  for (int i = 0; i < n; ++i) total += v[i] * (i & 3);
  return total;
}
int many(int a, int b, int c, int d, int e, int f, int *p) {
  int total = 0;
  for (int i = 0; i < a; ++i) {
    total += p[i] * b + p[i + 1] * c + p[i + 2] * d + p[i + 3] * e + p[i + 4] * f + a * b + c * d;
    p[i] = mix(total, a ^ b ^ c ^ d ^ e ^ f);
    p[i + 5] = total * a + p[i + 6] * b - p[i + 7] * c + p[i + 8] * d;
  }
  return total + a + b + c + d + e + f;
}
"""
TARGETS = """
x86_64-linux-gnu aarch64-linux-gnu riscv64-linux-gnu wasm32 nvptx64-nvidia-cuda i686-linux-gnu
arm-linux-gnueabihf armeb-none-eabi thumbv7m-none-eabi aarch64_be-linux-gnu riscv32-unknown-elf
powerpc64le-linux-gnu powerpc-linux-gnu mips-linux-gnu mips64el-linux-gnuabi64 s390x-linux-gnu
sparc-linux-gnu sparc64-linux-gnu wasm64 amdgcn-amd-amdhsa bpf hexagon-unknown-elf
loongarch64-linux-gnu avr msp430 lanai ve-linux-gnu spirv64-unknown-unknown r600
x86_64-apple-darwin arm64-apple-macos x86_64-pc-windows-msvc aarch64-pc-windows-msvc
i686-w64-mingw32 m68k-linux-gnu xcore
""".split()
#: Those for which agents allocate registers.
ALLOCATES = ("x86_64", "aarch64", "arm64")
#: In which file the output lies, and how it is asked for.
FORMS = {
    "-c": ["-c", "-o", "made"],
    "-S": ["-S", "-o", "made"],
    "-emit-llvm": ["-c", "-emit-llvm", "-o", "made"],
    "-o -": ["-c", "-o", "-"],
    "-save-temps": ["-c", "-save-temps", "-o", "made"],
}
RANDOM = ("--model", "function:random?seed=5")


@dataclass(frozen=True)
class Configuration:
    """An optimization as it is asked for."""

    optimization: str
    options: tuple[str, ...] = ()
    level: str = "-O2"

    def __str__(self) -> str:
        return " ".join((self.optimization, *self.options))

    @property
    def flags(self) -> tuple[str, ...]:
        return printed_flags(self.optimization, *self.options)


WAYS = [
    Configuration("register-allocation"),
    Configuration("register-allocation", (*RANDOM, "--effort", "1")),
    Configuration("register-allocation", (*RANDOM, "--effort", "0")),
    Configuration("regalloc-eviction", level="-Oz"),
    Configuration("phase-ordering", ("--effort", "3"), "-Oz"),
    Configuration("phase-ordering", ("--effort", "0"), "-Oz"),
    Configuration("inliner", level="-Oz"),
    Configuration("loop-distribution", RANDOM),
    Configuration("polly-tiling"),
]


@dataclass
class Made:
    code: int
    said: str
    printed: bytes
    files: dict[str, bytes]


def compiled(folder: Path, *arguments: str) -> Made:
    """What clang leaves in a folder of its own."""
    folder.mkdir()
    (folder / "f.c").write_text(SOURCE)
    command = ["clang-22", *arguments, "f.c"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, timeout=300, check=False
    )
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    return Made(done.returncode, done.stderr.decode(), done.stdout, files)


def line(target: str, level: str) -> list[str]:
    fixed = ["-mno-incremental-linker-compatible"] if "windows" in target or "w64" in target else []
    # COFF's modules name the folder.
    fixed.append("-ffile-compilation-dir=.")
    return [f"--target={target}", level, *fixed, "-Wno-avr-rtlib-linking-quirks"]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize(
    ("target", "form"),
    [
        (target, form)
        # In `make test` one form of the targets that differ most; for nvptx clang needs ptxas.
        if i < 5 and form == ("-S" if target.startswith(("aarch64", "nvptx")) else "-c")
        else nightly(target, form)
        for i, target in enumerate(TARGETS)
        for form in FORMS
    ],
)
def test_no_target_is_an_error(way: Configuration, target: str, form: str, tmp_path: Path) -> None:
    command = [*line(target, way.level), *FORMS[form]]
    stock = compiled(tmp_path / "stock", *command)
    made = compiled(tmp_path / "made", *command, *way.flags)
    assert made.code == stock.code, made.said
    assert sorted(made.files) == sorted(stock.files)
    if stock.code:  # LLVM can't write such a file
        return
    assert made.said == stock.said
    if way.optimization == "register-allocation" and not target.startswith(ALLOCATES):
        assert (made.files, made.printed) == (stock.files, stock.printed)


@pytest.mark.parametrize("target", ["riscv64-linux-gnu", "wasm32", "nvptx64-nvidia-cuda"])
def test_an_unsupported_target_is_remarked_once(target: str, tmp_path: Path) -> None:
    way = WAYS[0]
    remarks = ["-Rpass-missed=register-allocation", "-fno-caret-diagnostics", "-S", "-o", "made"]
    made = compiled(tmp_path / "made", *line(target, way.level), *remarks, *way.flags)
    assert made.code == 0
    assert made.said.count("remark: ") == 1
    assert "left to LLVM's own allocator: no target is supported but x86-64" in made.said


#: Outputs besides the object, some of which clang opens only after the passes.
OUTPUTS = [
    ["-c", "-gsplit-dwarf", "-g"],
    ["-c", "-MD", "-MF", "made.d"],
    ["-c", "-ftime-trace", "-ftime-trace-granularity=1000000"],
    ["-c", "-fsave-optimization-record"],
    ["-c", "-fstack-usage"],
    ["-c", "-save-stats"],
    ["-c", "-fno-integrated-cc1"],
    ["-c", "-no-integrated-as"],
    ["-c", "-Xclang", "-emit-llvm-only"],
    ["-c", "-Xclang", "-emit-codegen-only"],
    ["-c", "-flto=thin"],
    ["-c", "-flto", "-ffat-lto-objects"],
    ["-c", "--coverage"],
    ["-c", "-fprofile-generate"],
    ["-c", "-mllvm", "-print-after=loop-rotate", "-mllvm", "-ir-dump-directory=dump"],
    ["-c", "-mllvm", "-regalloc=basic"],
    ["-c", "-mllvm", "-regalloc=pbqp"],
    ["-c", "-mllvm", "-regalloc=fast"],
    ["-c", "-mllvm", "-verify-machineinstrs"],
    ["-fsyntax-only"],
    ["-x", "c-header", "-Xclang", "-fmodules-codegen"],
]
#: Several at once, with processes within processes.
TOGETHER = Configuration(
    "register-allocation", ("regalloc-eviction", "phase-ordering", "inliner"), "-Oz"
)


@pytest.mark.parametrize("way", [WAYS[1], TOGETHER, WAYS[4], WAYS[3], WAYS[6]], ids=str)
@pytest.mark.parametrize(
    "options",
    [one if i in (0, 8, 15) else nightly(one) for i, one in enumerate(OUTPUTS)],
    ids=" ".join,
)
def test_trials_leave_no_files(way: Configuration, options: list[str], tmp_path: Path) -> None:
    """What tries something in a process of its own ends before anything is written."""
    command = [way.level, *options, *([] if "-emit-llvm-only" in options else ["-o", "made"])]
    stock = compiled(tmp_path / "stock", *command)
    made = compiled(tmp_path / "made", *command, *way.flags)
    assert made.code == stock.code == 0, made.said
    if "-ir-dump-directory=dump" not in options:  # file names count the process's passes
        assert sorted(made.files) == sorted(stock.files)
    assert "error" not in made.said and "crashed" not in made.said and "too early" not in made.said
    if way is WAYS[1] and "-mllvm" in options and f"-regalloc={options[2][-4:]}" == options[2]:
        assert made.files["made"] == stock.files["made"]
