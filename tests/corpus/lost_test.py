# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Nothing that a build compiles is lost without a word: it is recorded, or named with a reason."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from running import Command, disassembled

from mlbridge import corpus


def names() -> list[str]:
    return sorted(m.source for m in corpus.open("mine"))


def listed(program: Path, *entries: Any) -> tuple[str, ...]:
    """The words that add a compile_commands.json; an entry is a command line, or its arguments."""
    made = [
        {"directory": ".", "file": "f", "command" if isinstance(one, str) else "arguments": one}
        for one in entries
    ]
    (program / "compile_commands.json").write_text(json.dumps(made))
    return ("add", "mine", "--compile-commands", "compile_commands.json")


def test_options_that_clang_lacks_are_left_out_and_named(command: Command, program: Path) -> None:
    of_gcc = (
        "-fconserve-stack -fno-var-tracking-assignments -mpreferred-stack-boundary=3 "
        "-mrecord-mcount -fplugin=./x.so -fplugin-arg-x-y=1"
    )
    done = command(*listed(program, f"gcc -Oz {of_gcc} -c a.c -o a.o"))
    assert "1 modules added" in done.stdout and "0 not recorded" in done.stdout
    [said] = [line for line in done.stderr.splitlines() if "clang does not have" in line]
    assert all(option in said for option in of_gcc.split())
    [module] = corpus.open("mine")
    assert module.flags == ("-Oz",)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("", "f: its command is empty"),
        ([], "f: its command is empty"),
        ("gcc -c 'a.c", "No closing quotation"),
        ("gcc -c gone.c", "no such file or directory: 'gone.c'"),
        ("gcc @gone.rsp", "@gone.rsp: there is no such file"),
        ("gcc -std=nonsense -c a.c", "invalid value 'nonsense' in '-std=nonsense'"),
        ("gcc -include gone.h -c a.c", "'gone.h' file not found"),
        ("gcc -c \0.c", "embedded null byte"),
    ],
)
def test_what_is_not_recorded_is_named(
    command: Command, program: Path, entry: Any, why: str
) -> None:
    done = command(*listed(program, entry), code=1)
    assert why in done.stderr and "1 not recorded" in done.stdout
    done = command(*listed(program, entry, "gcc -Oz -c a.c"))
    assert why in done.stderr and "1 modules added" in done.stdout
    command(*listed(program, entry), code=1)  # also if the program has modules


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("gfortran -c x.f90", "Fortran (x.f90)"),
        ("gcc -c x.F", "Fortran (x.F)"),
        ("gcc -c x.S", "assembler (x.S)"),
        ("aarch64-linux-gnu-as x.s", "assembler (x.s)"),
        ("gcc -x assembler x.c", "assembler (x.c)"),
        ("nvcc -c x.cu", "CUDA (x.cu)"),
        ("gcc -c x.m", "Objective-C (x.m)"),
        ("g++ -x c++-header x.h", "a header (x.h)"),
        ("gcc -E a.c", "only preprocessed (a.c)"),
        ("gcc -fsyntax-only a.c", "only checked (a.c)"),
        ("ar rcs x.a x.o", "nothing is compiled (x.o)"),
        ("ccache", "no compiler is called (ccache)"),
    ],
)
def test_what_is_left_out_is_named(command: Command, program: Path, entry: str, why: str) -> None:
    done = command(*listed(program, entry), code=1)
    assert f"left out: 1 × {why}" in done.stderr
    assert "nothing of program was recorded: all that was seen is left out" in done.stderr


@pytest.mark.parametrize(
    "entry",
    [
        "ccache gcc -Oz -c a.c",
        "env X=1 /usr/bin/ccache /opt/bin/gcc-12 -Oz -c a.c",
        "cmake -E env X=1 -- gcc -Oz -c a.c",
        ["gcc", "@flags", "-c", "./a.c"],
        "gcc -xc -Oz -c a.c",
        "gcc -x c -Oz -c a.c",
        "gcc -Oz -c -emit-llvm a.c",
        "gcc -Oz -S -emit-llvm a.c",
    ],
)
def test_the_same_module_however_it_is_compiled(
    command: Command, program: Path, entry: Any
) -> None:
    (program / "flags").write_text("-Oz '-DNAME=a b'\n")
    command(*listed(program, "gcc -Oz -c a.c"))
    done = command(*listed(program, entry, entry))
    assert "0 modules added, 2 were there" in done.stdout, done.stderr


def test_other_languages_and_targets_of_a_source(command: Command, program: Path) -> None:
    command(
        *listed(
            program,
            "aarch64-linux-gnu-gcc-12 -Oz -c a.c",
            ["riscv64-unknown-elf-gcc", "-Oz", "-c", "a.c"],
            "/usr/bin/g++ -xc++ -Oz -c a.c",
        )
    )
    assert [(m.language, m.target.partition("-")[0]) for m in corpus.open("mine")] == [
        ("c", "aarch64"),
        ("c", "riscv64"),
        ("c++", "x86_64"),
    ]


def test_one_bad_file_of_a_command_does_not_take_the_others(
    command: Command, program: Path
) -> None:
    (program / "bad.c").write_text("int f(\n")
    done = command(*listed(program, "gcc -Oz -c bad.c a.c gone.c"))
    assert "1 modules added" in done.stdout and "2 not recorded" in done.stdout
    assert names() == ["a.c"]


MODULES = """
F = -std=c++20 {level}
all: b.o a.o
a.pcm: a.cppm
\t$(CXX) $F --precompile a.cppm -o a.pcm
a.o: a.pcm
\t$(CXX) $F -c a.pcm -o a.o
b.o: b.cpp a.pcm
\t$(CXX) $F -fmodule-file=a=a.pcm -c b.cpp -o b.o
"""


@pytest.mark.parametrize("level", ["-O0 -g", "-Oz"])
def test_modules_of_cxx20_in_two_steps(command: Command, program: Path, level: str) -> None:
    (program / "a.cppm").write_text("export module a;\nexport int fa(int x) { return x + 1; }\n")
    (program / "b.cpp").write_text("import a;\nint fb(int x) { return fa(x) * 2; }\n")
    (program / "Makefile").write_text(MODULES.format(level=level))
    done = command("add", "mine", "--", "make", "-s")
    assert "2 modules added" in done.stdout and "0 not recorded" in done.stdout
    assert names() == ["a.pcm", "b.cpp"]
    assert "left out: 1 × a module's interface (a.cppm)" in done.stderr
    for module in corpus.open("mine"):
        assert "minsize" in (text := disassembled(corpus.open("mine").extract(module)))
        assert "optnone" not in text


CMAKE = """
cmake_minimum_required(VERSION 3.20)
project(pch LANGUAGES C CXX)
include(CheckTypeSize)
check_type_size(long LONG_SIZE)
add_library(a STATIC a.cpp)
target_precompile_headers(a PRIVATE pch.h)
add_library(u STATIC a.c b.c)
set_target_properties(u PROPERTIES UNITY_BUILD ON)
"""


@pytest.mark.skipif(shutil.which("cmake") is None, reason="CMake is not there")
@pytest.mark.parametrize("kind", ["Debug", "MinSizeRel"])
def test_precompiled_headers_of_cmake(command: Command, program: Path, kind: str) -> None:
    (program / "CMakeLists.txt").write_text(CMAKE)
    (program / "pch.h").write_text("#include <string>\n")
    (program / "a.cpp").write_text("std::string f(int n) { return std::string(n, 'x'); }\n")
    configure = f"cmake -DCMAKE_BUILD_TYPE={kind} -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -S . -B"
    done = command("add", "mine", "--", "sh", "-ec", f"{configure} out; cmake --build out")
    assert "2 modules added" in done.stdout and "0 not recorded" in done.stdout, done.stderr
    assert names() == ["a.cpp", "out/CMakeFiles/u.dir/Unity/unity_0_c.c"]
    assert "× an attempt of a configuration (" in done.stderr
    # Configured, and not built: there is nothing precompiled.
    words = configure.replace("cmake", "env CC=clang-22 CXX=clang++-22 cmake", 1).split()
    subprocess.run([*words, "other"], cwd=program, check=True, capture_output=True)
    done = command("add", "mine", "--compile-commands", "other/compile_commands.json")
    assert "0 not recorded" in done.stdout, done.stderr


def test_a_level_other_than_oz_is_named(command: Command) -> None:
    done = command("add", "mine", "--", "sh", "-ec", "clang-22 -O2 -c a.c; clang-22 -Oz -c b.c")
    assert "not compiled at -Oz: 1 at -O2. " in done.stderr
    done = command("add", "mine", "--", "sh", "-ec", "clang-22 -O0 -c a.c; clang-22 -c b.c")
    assert "not compiled at -Oz" not in done.stderr


def test_the_advice_fits_the_source(command: Command, program: Path) -> None:
    assert "Pass CC=clang-22" in command("add", "mine", "--", "true", code=1).stderr
    done = command(*listed(program), code=1)
    assert "lists no command" in done.stderr and "CC=" not in done.stderr
    (program / "data.c").write_text("const int data[2] = {1, 2};\n")
    done = command("add", "mine", "--", "clang-22", "-c", "data.c", code=1)
    assert "no module has a function" in done.stderr
    command("add", "mine", "--", "clang-22", "-c", "a.c")
    command("add", "mine", "--", "true")  # up to date


def test_a_command_that_has_read_a_corpus_ends_well(command: Command, program: Path) -> None:
    """Arrow's threads may be at work when Python ends; development mode makes that likelier."""
    command("add", "mine", "--", "clang-22", "-c", "a.c")
    again = [sys.executable, "-X", "dev", "-m", "mlbridge", "corpus", "add", "mine", "--", "true"]
    for _ in range(6):
        started = [
            subprocess.Popen(again, cwd=program, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            for _ in range(3)
        ]
        for process in started:
            _, complaint = process.communicate(timeout=60)
            assert process.returncode == 0, complaint
