# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small project with its own Makefile, built in parallel with and without the plugin."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from experiments import own_builds
from experiments.own_builds import OwnBuild, asking, compare, load_builds
from mlbridge.decisions import Decisions
from mlbridge.validation import validate
from mlbridge.workspace import PLAIN, Built, Object
from programs.catalog import ProgramsError, load, select

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
    ["Makefile"],
    make="make -j4",
    check="make check",
    cflags="-Wall -Wextra -Werror",
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


def test_c_assembler_and_a_coroutine_with_warnings_as_errors(tree: Path, tmp_path: Path) -> None:
    # Group 31 promotes memory to registers, 5 combines instructions, 22 simplifies the flow.
    policy = asking("function:sequence?actions=31,5,22")
    report = validate([ENTRY.tree()], policy, tmp_path / "out", repeat=1)
    assert report.problems == []
    (found,) = report.programs
    plain, asked = found.baseline[0], found.policy[0]
    assert list(plain.objects) == ["asm.o", "co.o", "main.o", "sum.o"]
    assert plain.decisions == Decisions()
    assert asked.decisions == Decisions(made=12, finished=3, failed=0)
    assert asked.objects["asm.o"] == plain.objects["asm.o"]
    assert asked.bytes > 0


def test_a_model_that_is_gone_leaves_plain_objects(tree: Path, tmp_path: Path) -> None:
    trial = ENTRY.trial()
    plain = trial.build(PLAIN)
    asked = trial.build(asking(f"unix:{tmp_path}/no-such-socket"))
    assert asked.decisions.failed == 3
    assert asked.objects == plain.objects


def test_a_failing_check_shows_the_end_of_its_log(tree: Path) -> None:
    (tree / "sum.c").write_text("int sum(int n) { return n; }\n")
    trial = ENTRY.trial()
    trial.build(PLAIN)
    ran, _ = trial.run(PLAIN, ENTRY.tree().runs[0])
    assert ran.code == 1 and "make" in ran.stdout.text


def test_compare_names_what_is_wrong() -> None:
    plain = Built({"a.o": Object(1, "a"), "b.o": Object(1, "b")}, Decisions(), 1.0)
    good = replace(
        plain, objects=plain.objects | {"a.o": Object(1, "x")}, decisions=Decisions(3, 1, 1)
    )
    assert compare(plain, good) == []
    more = replace(good, objects=plain.objects | {"c.o": Object(1, "c")})
    (text,) = compare(plain, more)
    assert "not the same objects: c.o" in text
    worse = replace(good, objects={"a.o": Object(1, "x"), "b.o": Object(1, "y")})
    (text,) = compare(plain, worse)
    assert "these objects are not plain -Oz: a.o, b.o" in text
    assert len(compare(plain, plain)) == 2


def test_the_shipped_list_is_whole_and_apart_from_the_tuned_programs() -> None:
    builds = load_builds()
    assert len(builds) >= 4
    tuned = {program.package for program in select(load(), ["training", "validation"])}
    assert not {entry.package for entry in builds} & tuned


def test_a_wrong_list_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    path.write_text('[[build]]\nname = "a"\n')
    with pytest.raises(ProgramsError, match=r"list\.toml: a: .*package"):
        load_builds(path)
