# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts of instrumented programs, and files that are no profiles."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from mlbridge import profdata
from mlbridge.errors import InvalidArgument, NotFound
from mlbridge.profdata import Counts

MAIN = """
#include <stdlib.h>
#include <unistd.h>
#include <sys/wait.h>
int twice(int);
static int helper(int x) { return x + 1; }
int unused(int x) { return x; }
static int sum;
int main(int argc, char **argv) {
  for (int i = 0; i < 10; ++i) sum += helper(twice(i));
  switch (*argv[1]) {
  case 'e': _exit(0);
  case 'a': abort();
  case 'f':
    for (int i = 0; i < 3; ++i)
      if (!fork()) { sum += twice(1); _exit(0); }
    while (wait(0) > 0) {}
    return 0;
  case 'x': execl(argv[0], argv[0], "e", (char *)0);
  default: return sum == 1;
  }
}
"""
TWICE = "static int helper(int x) { return 2 * x; }\nint twice(int x) { return helper(x); }\n"


def program(folder: Path, flags: tuple[str, ...] = profdata.COMPILE_FLAGS) -> Path:
    (folder / "sub").mkdir()
    (folder / "main.c").write_text(MAIN)
    (folder / "sub/twice.c").write_text(TWICE)
    for source in ("main.c", "sub/twice.c"):
        command = ["clang-22", "-O2", *flags, "-c", source, "-o", f"{Path(source).stem}.o"]
        subprocess.run(command, check=True, cwd=folder)
    link = ["clang-22", *profdata.LINK_FLAGS, "main.o", "twice.o", "-o", "program"]
    subprocess.run(link, check=True, cwd=folder)
    return folder / "program"


def run(program: Path, *words: str, name: str = profdata.RAW_FILE) -> None:
    env = {**os.environ, "LLVM_PROFILE_FILE": str(program.parent / "raw" / name)}
    subprocess.run([program, *words], env=env, check=False)


def test_counts_are_kept_whichever_way_a_program_ends(tmp_path: Path) -> None:
    made = program(tmp_path)
    runs = 0
    for way, several in (("return", 1), ("exit", 1), ("abort", 1), ("x", 2)):
        run(made, way)
        runs += several
        [raw] = (tmp_path / "raw").iterdir()
        found = profdata.counts(raw)
        assert found[None, "main"].entry == runs
        assert found[None, "twice"] == Counts(10 * runs, 10 * runs, 10 * runs)
    assert found["main.c", "helper"] == found["sub/twice.c", "helper"] == found[None, "twice"]
    assert found[None, "unused"] == Counts(0, 0, 0)
    merged = tmp_path / "merged.profdata"
    profdata.merge([raw], merged)
    assert profdata.counts(merged) == found


def test_processes_that_a_program_forks_count_too(tmp_path: Path) -> None:
    run(program(tmp_path), "fork")
    [raw] = (tmp_path / "raw").iterdir()
    assert profdata.counts(raw)[None, "twice"].entry == 13


def test_sources_have_the_path_that_the_compiler_was_given(tmp_path: Path) -> None:
    source = tmp_path / "absolute.c"
    source.write_text(
        "static int f(int x) { return x; }\nint main(int c, char **v) { return f(0); }"
    )
    command = ["clang-22", "-O2", *profdata.COMPILE_FLAGS, str(source), "-o", "program"]
    subprocess.run(command, check=True, cwd=tmp_path)
    run(tmp_path / "program")
    [raw] = (tmp_path / "raw").iterdir()
    assert profdata.counts(raw)[str(source), "f"] == Counts(1, 1, 1)


def test_a_profile_that_does_not_count_entries(tmp_path: Path) -> None:
    run(program(tmp_path, ("-fprofile-generate",)), "return", name="%p")
    [raw] = (tmp_path / "raw").iterdir()
    assert profdata.counts(raw)[None, "main"].entry is None


def test_counters_of_clang_itself_count_entries(tmp_path: Path) -> None:
    flags = ("-fprofile-instr-generate", "-fcoverage-mapping")
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["clang-22", *flags, "a.c", "-o", "program"], check=True, cwd=tmp_path)
    run(tmp_path / "program", name="%p")
    [raw] = (tmp_path / "raw").iterdir()
    assert profdata.counts(raw)[None, "main"].entry == 1


def test_copies_for_constant_arguments_are_the_function(tmp_path: Path) -> None:
    text = tmp_path / "profile.txt"
    record = "{}\n# Func Hash:\n{}\n# Num Counters:\n2\n# Counter Values:\n{}\n{}\n\n"
    names = [("a.c;f", 1, 5, 7), ("a.c;f.specialized.1", 1, 10, 1), ("f", 2, 4, 4), ("f", 3, 1, 9)]
    records = "".join(record.format(*one) for one in names)
    text.write_text(f":ir\n:entry_first\n{records}")
    assert profdata.counts(text) == {
        ("a.c", "f"): Counts(15, 23, 10),
        (None, "f"): Counts(5, 18, 9),
    }


@pytest.mark.parametrize("contents", [b"", b"no profile", bytes(2000), b":ir\nf\n1\n"])
def test_what_is_no_profile(tmp_path: Path, contents: bytes) -> None:
    file = tmp_path / "app.profdata"
    file.write_bytes(contents)
    with pytest.raises(InvalidArgument, match=r"app\.profdata|ended with"):
        profdata.counts(file)
    with pytest.raises(InvalidArgument):
        profdata.merge([file], tmp_path / "merged")


def test_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"none\.profdata is not there"):
        profdata.counts(tmp_path / "none.profdata")
    with pytest.raises(NotFound, match="is not there, or no file"):
        profdata.counts(tmp_path)
    with pytest.raises(InvalidArgument, match="no profile was written"):
        profdata.merge([], tmp_path / "merged")
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(NotFound, match="llvm-profdata-22 is in Debian's llvm-22"):
        profdata.counts(file, tool="no-such-profdata")
    compiler = tmp_path / "clang"
    compiler.write_text('#!/bin/sh\necho \'"/usr/bin/ld" "/no/libclang_rt.profile.a"\' >&2\n')
    compiler.chmod(0o755)
    with pytest.raises(NotFound, match="apt-get install libclang-rt-22-dev"):
        profdata.must_have_runtime(str(compiler))
    profdata.must_have_runtime()
