# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiling, linking, running and corpus making on a small program written here."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from mlbridge.corpus import compile_bitcode
from mlbridge.elf import file_executable_bytes
from programs import corpus
from programs.build import (
    compile_program,
    files_of_executable,
    link_program,
    run_test,
    text_bytes,
)
from programs.catalog import Program, ProgramsError
from programs.fetch import run, source_tree

MAIN = """
#include <stdio.h>
#include <stdlib.h>
int twice(int);
int main(int argc, char **argv) {
  int c, sum = 0;
  while ((c = getchar()) != EOF) sum += twice(c);
  printf("%d %s %s\\n", sum, argc > 1 ? argv[1] : "-", getenv("MODE") ? getenv("MODE") : "none");
  FILE *f = fopen("made.txt", "w");
  fprintf(f, "%d", sum);
  fclose(f);
  f = fopen("scratch/noise.txt", "w");
  fprintf(f, "%p", (void *)f);
  return fclose(f) + CODE;
}
"""
PROGRAM = Program(
    "small",
    "demo",
    "parser",
    "small-src",
    ("*.c", "lib/*.c"),
    flags=("-DCODE=3",),
    test=(
        ("?3", "MODE=fast", "small", "word", "<{src}/input", ">first"),
        ("?3", "small", "<first"),
    ),
)


@pytest.fixture
def build(tmp_path: Path) -> Path:
    tree = source_tree(PROGRAM, tmp_path)
    (tree / "lib").mkdir(parents=True)
    (tree / "main.c").write_text(MAIN)
    (tree / "lib" / "twice.c").write_text("int twice(int x) { return 2 * x; }\n")
    (tree / "table.c").write_text("const int table[3] = {1, 2, 3};\n")
    (tree / "input").write_text("AB")
    (tmp_path / "source" / "small.version").write_text("small-src 1\n")
    return tmp_path


def test_compile_link_and_run(build: Path) -> None:
    compiled = compile_program(PROGRAM, build / "o", build=build)
    assert [item.source for item in compiled] == ["main.c", "table.c", "lib/twice.c"]
    assert text_bytes(compiled) == sum(file_executable_bytes(item.object) for item in compiled) > 0
    link_program(PROGRAM, compiled, build / "bin")
    report = run_test(PROGRAM, build / "bin", build / "work", build)
    assert b"[file first]\n262 word fast\n" in report
    assert b" - none\n" in report and b"[file made.txt]" in report
    assert b"noise" not in report
    assert report == run_test(PROGRAM, build / "bin", build / "work", build)


def test_objects_do_not_depend_on_where_the_tree_lies(build: Path, tmp_path: Path) -> None:
    first = compile_program(PROGRAM, build / "o", build=build)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (build / "source").rename(moved / "source")
    second = compile_program(PROGRAM, moved / "o", build=moved)
    assert [i.object.read_bytes() for i in first] == [i.object.read_bytes() for i in second]


def test_a_compile_error_names_program_file_and_text(build: Path) -> None:
    (source_tree(PROGRAM, build) / "lib" / "twice.c").write_text("int twice(\n")
    with pytest.raises(ProgramsError, match=r"(?s)small: lib/twice\.c: .*error: expected"):
        compile_program(PROGRAM, build / "o", build=build)


def test_a_link_error_and_an_executable_of_unknown_files(build: Path) -> None:
    compiled = compile_program(PROGRAM, build / "o", build=build)
    broken = dataclasses.replace(PROGRAM, executables=(("small", ("main.c",)),))
    with pytest.raises(ProgramsError, match=r"(?s)linking small failed.*twice"):
        link_program(broken, compiled, build / "bin")
    unknown = dataclasses.replace(PROGRAM, executables=(("small", ("other.c",)),))
    with pytest.raises(ProgramsError, match=r"not compiled: other\.c"):
        link_program(unknown, compiled, build / "bin")


def test_a_file_that_not_every_version_has(build: Path) -> None:
    files = (*PROGRAM.files, "?lib/newer.c")
    program = dataclasses.replace(PROGRAM, files=files, executables=(("small", files),))
    before = compile_program(program, build / "o", build=build)
    (source_tree(PROGRAM, build) / "lib/newer.c").write_text("int newer;\n")
    after = compile_program(program, build / "o", build=build)
    assert {i.source for i in after} - {i.source for i in before} == {"lib/newer.c"}
    without = dataclasses.replace(
        PROGRAM, executables=(("small", ("main.c", "lib/twice.c", "?no.c")),)
    )
    assert link_program(without, before, build / "bin")


def test_patterns_of_an_executables_files() -> None:
    every = ["a.c", "lib/b.c", "lib/c.c", "{own}/x.c"]
    assert files_of_executable(["lib/*.c", "!lib/c.c", "a.c"], every) == ["lib/b.c", "a.c"]
    assert files_of_executable(["?no.c", "?a.c", "{own}/*.c"], every) == ["a.c", "{own}/x.c"]
    assert files_of_executable(["*.c", "!lib/*"], every) == ["a.c", "{own}/x.c"]
    assert files_of_executable(["other.c"], every) == ["other.c"]


def test_what_is_redirected_into_scratch_is_not_compared(build: Path) -> None:
    link_program(PROGRAM, compile_program(PROGRAM, build / "o", build=build), build / "bin")
    command = [word for word in PROGRAM.test[0] if not word.startswith(">")]
    hidden = dataclasses.replace(PROGRAM, test=((*command, ">scratch/out"),))
    shown = dataclasses.replace(PROGRAM, test=((*command, ">out"),))
    report = run_test(shown, build / "bin", build / "work", build)
    text = (build / "work" / "out").read_bytes()
    assert text and text in report
    assert text not in run_test(hidden, build / "bin", build / "work", build)
    assert (build / "work" / "scratch" / "out").read_bytes() == text


def test_another_exit_code_than_expected_is_an_error(build: Path) -> None:
    wrong = dataclasses.replace(PROGRAM, test=(("small",),))
    link_program(PROGRAM, compile_program(PROGRAM, build / "o", build=build), build / "bin")
    with pytest.raises(ProgramsError, match="ended with 3, expected 0"):
        run_test(wrong, build / "bin", build / "work", build)


def test_a_process_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import signal; signal.pause()"]
    with pytest.raises(ProgramsError, match=r"did not end within 0\.5 s"):
        run(command, tmp_path, 0.5)
    assert run([sys.executable, "-c", "raise SystemExit(7)"], tmp_path, 30).code == 7


def test_a_missing_compiler_is_named(build: Path) -> None:
    with pytest.raises(ProgramsError, match="no-such-compiler"):
        compile_program(PROGRAM, build / "o", ("no-such-compiler",), build=build)


def test_corpus_keeps_sizes_and_leaves_out_files_without_code(
    build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "BUILD", build)
    monkeypatch.setattr(corpus, "load", lambda: [PROGRAM])
    monkeypatch.setattr(corpus, "fetch", lambda programs, build: None)
    modules = corpus.extracted("demo")
    assert [module.source for module, _ in modules] == ["main.c", "lib/twice.c"]
    plain = {
        item.source: item.object for item in compile_program(PROGRAM, build / "o", build=build)
    }
    for module, path in modules:
        from_bitcode = compile_bitcode(path, build / "again.o")
        from_source = file_executable_bytes(plain[module.source])
        assert from_bitcode == from_source == module.oz_code_bytes
    monkeypatch.setattr(corpus, "source_tree", None)
    assert corpus.extracted("demo") == modules
