# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small project with its own Makefile, built in parallel with and without the plugin."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from programs import own_builds
from programs.catalog import ProgramsError, load
from programs.own_builds import Outcome, OwnBuild, build, compare, load_builds, objects_in
from programs.plugin import LOG, Decisions, plugin_flags

FILES = {
    "Makefile": """
all: prog
prog: main.o sum.o asm.o co.o
\t$(CXX) $(CXXFLAGS) -o $@ $^
%.o: %.S
\t$(CC) $(CFLAGS) -c -o $@ $<
co.o: co.cpp
\t$(CXX) -std=c++20 $(CXXFLAGS) -c -o $@ $<
check: prog
\t./prog 10 > out && test "$$(cat out)" = "45 42 285"
""",
    "main.c": """
#include <stdio.h>
#include <stdlib.h>
int sum(int n); int answer(void); int squares(int n);
int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 0;
  printf("%d %d %d\\n", sum(n), answer(), squares(n));
  return 0;
}
""",
    "sum.c": "int sum(int n) { int s = 0; for (int i = 0; i < n; ++i) s += i; return s; }\n",
    "asm.S": """
#define ANSWER 42
  .text
  .globl answer
answer:
#if defined(__x86_64__)
  movl $ANSWER, %eax
  ret
#else
  mov w0, #ANSWER
  ret
#endif
  .section .note.GNU-stack,"",@progbits
""",
    "co.cpp": """
#include <coroutine>
struct Numbers {
  struct promise_type {
    int value = 0;
    Numbers get_return_object() { return {Handle::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(int v) { value = v; return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
  using Handle = std::coroutine_handle<promise_type>;
  Handle handle;
  ~Numbers() { handle.destroy(); }
};
static Numbers generate(int n) { for (int i = 0; i < n; ++i) co_yield i * i; }
extern "C" int squares(int n) {
  int total = 0;
  Numbers numbers = generate(n);
  for (numbers.handle.resume(); !numbers.handle.done(); numbers.handle.resume())
    total += numbers.handle.promise().value;
  return total;
}
""",
}
ENTRY = OwnBuild(
    "own",
    "own-src",
    ("Makefile",),
    make=("make", "-j{jobs}"),
    check=("make", "check"),
    cflags=("-Wall", "-Wextra", "-Werror"),
)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    source = tmp_path / "source"
    source.mkdir()
    for name, text in FILES.items():
        (source / name).write_text(text)
    monkeypatch.setattr(own_builds, "OUTPUT", tmp_path / "out")
    monkeypatch.setattr(own_builds, "source_tree", lambda program: source)
    return source


def test_c_assembler_and_a_coroutine_with_warnings_as_errors(tree: Path) -> None:
    plain = build(ENTRY, "oz", (), 4)
    assert sorted(plain.objects) == ["asm.o", "co.o", "main.o", "sum.o"]
    assert plain.decisions == Decisions()
    # Group 31 promotes memory to registers, 5 combines instructions, 22 simplifies the flow.
    asked = build(
        ENTRY, "model", plugin_flags("function:sequence?actions=31,5,22", "--log", LOG), 4
    )
    assert compare(ENTRY, "model", plain, asked) == []
    assert asked.decisions == Decisions(made=12, finished=3, failed=0)
    assert asked.objects["asm.o"] == plain.objects["asm.o"]
    assert asked.text > 0


def test_a_model_that_is_gone_leaves_plain_objects(tree: Path, tmp_path: Path) -> None:
    plain = build(ENTRY, "oz", (), 4)
    flags = plugin_flags(f"unix:{tmp_path}/no-such-socket", "--log", LOG)
    asked = build(ENTRY, "killed", flags, 4)
    assert asked.decisions.failed == 3
    assert asked.objects == plain.objects


def test_a_failing_check_shows_the_end_of_the_log(tree: Path) -> None:
    (tree / "sum.c").write_text("int sum(int n) { return n; }\n")
    with pytest.raises(ProgramsError, match=r"(?s)own oz: check ended with 2.*make"):
        build(ENTRY, "oz", (), 2)


def test_compare_names_what_is_wrong() -> None:
    plain = Outcome({"a.o": b"a", "b.o": b"b"}, Decisions(), 1.0)
    good = Outcome({"a.o": b"x", "b.o": b"b"}, Decisions(3, 1, 1), 1.0)
    assert compare(ENTRY, "killed", plain, good) == []
    (text,) = compare(ENTRY, "model", plain, good)
    assert "1 compilers fell back" in text
    more = dataclasses.replace(good, objects=plain.objects | {"c.o": b"c"})
    (text,) = compare(ENTRY, "killed", plain, more)
    assert "not the same objects: c.o" in text
    worse = dataclasses.replace(good, objects={"a.o": b"x", "b.o": b"y"})
    (text,) = compare(ENTRY, "killed", plain, worse)
    assert "these objects are not plain -Oz: a.o, b.o" in text
    silent = Outcome(plain.objects, Decisions(), 1.0)
    assert len(compare(ENTRY, "killed", plain, silent)) == 2


def test_the_shipped_list_is_whole_and_apart_from_the_tuned_programs() -> None:
    builds = load_builds()
    assert len(builds) >= 4
    assert not {entry.package for entry in builds} & {program.package for program in load()}


def test_a_wrong_list_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    path.write_text('[[build]]\nname = "a"\n')
    with pytest.raises(ProgramsError, match=r"list\.toml: a: .*package"):
        load_builds(path)


def test_only_objects_are_found(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.o").write_bytes(b"\x7fELF\x02\x01rest")
    (tmp_path / "b.o").write_bytes(b"text")
    assert list(objects_in(tmp_path)) == ["sub/a.o"]
