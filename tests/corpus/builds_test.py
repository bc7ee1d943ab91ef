# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds that are recorded: they do what they did before, and nothing that they compile is lost."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from running import MLBRIDGE, Command, disassembled

from mlbridge import corpus

MAKEFILE = """
prog: a.o b.o c.o
\t$(CXX) a.o b.o c.o -o prog
%.o: %.c
\t$(CC) -O2 -g -MMD -Wall -c $< -o $@
%.o: %.cc
\t$(CXX) -O2 -g -Wall -c $< -o $@
"""


def sources(name: str = "mine") -> list[str]:
    return sorted(m.source for m in corpus.open(name))


def text_of(source: str) -> str:
    made = corpus.open("mine")
    [module] = [m for m in made if m.source == source]
    return disassembled(made.extract(module))


def test_the_modules_of_a_build(command: Command, program: Path) -> None:
    (program / "Makefile").write_text(MAKEFILE)
    done = command("add", "mine", "--version", "1.2", "--", "make", "-j2", "CC=clang-22")
    assert "mine: 3 modules added, 0 were there" in done.stdout
    assert "clang-22 -O2 -g -MMD -Wall -c a.c -o a.o" in done.stdout
    made = corpus.open("mine")
    assert {(m.program, m.version, m.source, m.language) for m in made} == {
        ("program", "1.2", "a.c", "c"),
        ("program", "1.2", "b.c", "c"),
        ("program", "1.2", "c.cc", "c++"),
    }
    for module in made:
        assert module.flags == ("-O2", "-g", "-Wall") and module.target.startswith("x86_64-")
        text = disassembled(made.extract(module))
        assert "alloca" in text  # no pass has run
        assert "optnone" not in text and "minsize" not in text and "DICompileUnit" not in text
    done = command("add", "mine", "--", "make", "-B")
    assert "0 modules added, 3 were there" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["clang-22", "-O2", "-g", "-MMD", "-Wall", "-c", "a.c", "b.c"],
        ["clang-22", "-Wall", "-c", "warns.c"],
        ["clang-22", "-c", "broken.c"],
        ["clang-22", "-c", "a.c", "-o", "nowhere/a.o"],
        ["clang++-22", "c.cc", "b.c", "-save-temps", "-o", "prog"],
        ["clang-22", "--no-such-option"],
        ["clang-22"],
        ["sh", "-c", "echo 'int x;' | clang-22 -x c -c - -o x.o && kill -TERM $$"],
        ["sh", "-c", "clang-22 -E a.c; clang-22 -O1 -flto -c b.c; exit 3"],
    ],
)
def test_a_build_does_what_it_does_without(
    command: Command, program: Path, tmp_path: Path, words: list[str]
) -> None:
    (program / "warns.c").write_text("int f(void) { int unused; return 1; }\n")
    (program / "broken.c").write_text("int f(\n")
    plain = subprocess.run(words, cwd=program, capture_output=True, text=True, check=False)
    expected = {p.name: p.read_bytes() for p in program.iterdir()}
    for path in program.iterdir():
        if path.suffix in (".o", ".d", "") or "save-temps" in str(words):
            path.unlink()
    for name in ("a.c", "b.c", "c.cc", "warns.c", "broken.c"):
        (program / name).write_bytes(expected[name])
    code = 128 - plain.returncode if plain.returncode < 0 else plain.returncode
    (tmp_path / "build.sh").write_text('exec "$@" 2>"$ERRORS"\n')
    errors = tmp_path / "errors"
    line = [*MLBRIDGE, "corpus", "add", "mine", "--", "sh", str(tmp_path / "build.sh"), *words]
    env = {**os.environ, "ERRORS": str(errors)}
    done = subprocess.run(line, cwd=program, capture_output=True, text=True, check=False, env=env)
    assert errors.read_text() == plain.stderr
    assert done.stdout.startswith(plain.stdout)
    nothing = "no compilation by clang was seen" in done.stderr
    assert done.returncode == (code or int(nothing or "1 not recorded" in done.stdout))
    assert {p.name: p.read_bytes() for p in program.iterdir()} == expected


def test_what_counts_as_a_compilation(command: Command, program: Path) -> None:
    (program / "asm.S").write_text(".text\n")
    (program / "conftest.c").write_text("int tried;\nint main(void) { return tried; }\n")
    (program / "data.c").write_text("const int data[2] = {1, 2};\n")
    (program / "arguments").write_text('-O1 "-DNAME=a b" a.c\n')
    script = """
    clang-22 -O0 b.c c.cc -o prog -lstdc++
    clang-22 -c asm.S
    clang-22 -c conftest.c
    clang-22 -fsyntax-only b.c
    clang-22 -S @arguments
    clang-22 -c data.c
    """
    done = command("add", "mine", "--", "sh", "-ec", script)
    assert "3 modules added, 0 were there, 1 have no code, 0 not recorded" in done.stdout
    assert sources() == ["a.c", "b.c", "c.cc"]
    assert "optnone" not in text_of("b.c") and "minsize" in text_of("b.c")
    [module] = [m for m in corpus.open("mine") if m.source == "a.c"]
    assert module.flags == ("-O1", "-DNAME=a b")
    assert [m.language for m in corpus.open("mine") if m.source == "c.cc"] == ["c++"]


def test_names_that_are_no_text(command: Command, program: Path) -> None:
    name = os.fsdecode(b"\xff 'a\n$(touch x)\"\\.c")
    (program / name).write_text("int f(void) { return 1; }\n")
    (program / os.fsdecode(b"\xfe.c")).write_text("int f(\n")
    script = 'for f in *a*.c; do clang-22 -c "$f" -o o; done; clang-22 -c ?.c || true'
    (program / "a.c").unlink()
    (program / "b.c").unlink()
    done = command("add", "mine", "--", "sh", "-ec", script, errors="replace")
    assert "1 modules added" in done.stdout and "1 not recorded" in done.stdout
    assert sources() == ["? 'a\n$(touch x)\"\\.c"]
    assert not (program / "x").exists()


def test_what_cannot_be_recorded_is_a_warning(command: Command, program: Path) -> None:
    (program / "a.c").write_text(
        "#ifdef __OPTIMIZE__\n#error not so\n#endif\nint a(void) { return 1; }"
    )
    done = command("add", "mine", "--", "sh", "-ec", "clang-22 -c a.c; clang-22 -c b.c")
    assert "1 modules added" in done.stdout and "1 not recorded" in done.stdout
    assert "not recorded: a.c: a.c:2:2: error: not so" in done.stderr
    assert (program / "a.o").is_file() and sources() == ["b.c"]


def test_a_build_without_clang_is_an_error(command: Command) -> None:
    done = command("add", "mine", "--", "true", code=1)
    assert "no compilation by clang was seen. Pass CC=clang-22" in done.stderr
    done = command("add", "other", "--", "no-such-program", code=1)
    assert "no-such-program: cannot be run: No such file" in done.stderr
    assert command("list").stdout.split()[-1] == "0" or "other" not in command("list").stdout


def test_the_compilers_go_on_working_after_the_build(command: Command, program: Path) -> None:
    script = "command -v clang-22 >cc; clang-22 -c a.c"
    command("add", "mine", "--", "sh", "-ec", script)
    compiler = (program / "cc").read_text().strip()
    subprocess.run([compiler, "-c", "b.c"], cwd=program, check=True)
    assert (program / "b.o").is_file() and sources() == ["a.c"]


def test_modules_do_not_say_where_they_were_built(command: Command, program: Path) -> None:
    text = "const char *where(void) { return __FILE__; }\nconst char when[] = __TIME__;\n"
    (program / "a.c").write_text(text)
    moved = program.with_name("moved elsewhere")
    script = 'clang-22 -g -c "$PWD/a.c"'
    command("add", "mine", "--", "sh", "-ec", script)
    program.rename(moved)
    done = command("add", "mine", "--program", "copy", "--", "sh", "-ec", script, cwd=moved)
    assert "0 modules added, 1 were there" in done.stdout
    assert 'c"a.c\\00"' in text_of("a.c")


def test_a_killed_build_goes_on(command: Command, program: Path) -> None:
    script = "clang-22 -c a.c; echo compiled; read line"
    line = [*MLBRIDGE, "corpus", "add", "mine", "--", "sh", "-c", script]
    with subprocess.Popen(
        line, cwd=program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None and first.stdin is not None
        assert first.stdout.readline() == "compiled\n"
        # Another one meanwhile takes nothing from it, and isn't hindered.
        command("add", "mine", "--program", "other", "--", "clang-22", "-c", "c.cc")
        assert sources() == ["c.cc"]
        first.send_signal(signal.SIGKILL)
        first.wait()
        incoming = corpus.open("mine").path / "incoming"
        (incoming / "0123456789ab").mkdir()  # of one that has just begun
        (incoming / "mine").mkdir()
    assert sources() == ["c.cc"]
    done = command("add", "mine", "--", "clang-22", "-c", "b.c")
    assert "2 modules added" in done.stdout
    assert [(m.program, m.source) for m in corpus.open("mine")][1:] == [
        ("program", "a.c"),
        ("program", "b.c"),
    ]
    assert [folder.name for folder in incoming.iterdir()] == ["mine"]


def test_two_at_once(command: Command, program: Path) -> None:
    (program / "d.c").write_text("int d(int x) { return x - 1; }\n")
    builds = []
    for files in ("a.c b.c c.cc", "c.cc d.c a.c"):
        script = f"echo begun; read line; for f in {files}; do clang-22 -c $f -o $f.$$; done"
        line = [*MLBRIDGE, "corpus", "add", "mine", "--", "sh", "-ec", script]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        builds.append(subprocess.Popen(line, cwd=program, **pipes))  # type: ignore[call-overload]
    for one in builds:
        assert one.stdout.readline() == "begun\n"
    for one in builds:
        one.stdin.write("go\n")
        one.stdin.flush()
    said = [one.communicate(timeout=300)[0] for one in builds]
    assert all(one.returncode == 0 for one in builds), said
    assert sources() == ["a.c", "b.c", "c.cc", "d.c"]
    made = corpus.open("mine")
    assert all(len(made.read(m)) == m.bytes for m in made)
