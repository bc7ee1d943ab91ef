# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts of a program's functions in workloads, joined to the modules of a corpus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import Command

from mlbridge import corpus
from mlbridge.corpus import FunctionCounts
from mlbridge.corpus.profiles import Function, Join, functions_of, read
from mlbridge.corpus.store import Module
from mlbridge.errors import InvalidModel
from mlbridge.profdata import Counts, Key

SOURCES = {
    "main.c": """
#include <stdlib.h>
#include <unistd.h>
int twice(int), cc(int);
static int helper(int x) { return x + 1; }
int unused(int x) { return x; }
int main(int argc, char **argv) {
  int sum = 0;
  for (int i = 0; i < 100; ++i) sum += helper(twice(i));
  if (argc < 2) return cc(sum) == 1;
  if (*argv[1] == 'a') abort();
  if (*argv[1] == 's') for (;;) pause();
  _exit(3);
}
""",
    "sub/main.c": """
static int helper(int x) { return x * 2; }
int twice(int x) { return x % 2 ? helper(x) : x; }
""",
    "tool.c": "static int once(void) { return 0; }\nint main(void) { return once(); }\n",
    "a.cc": """
template <class T> T add(T a, T b) { return a + b; }
namespace { int hidden(int x) { return add(x, 1); } }
extern "C" int cc(int x) { return hidden(x); }
""",
    "b.cc": "template <class T> T add(T a, T b) { return a + b; }\n"
    "int other(int x) { return add(x, 2); }\n",
    "left.c": "int left_out(void) { return 0; }\n",
    "Makefile": """
all: prog tool left.o
prog: main.o sub/main.o a.o b.o
\t$(CXX) main.o sub/main.o a.o b.o -o prog
sub/main.o: sub/main.c
\tcd sub && $(CC) -O2 -Werror -MMD -c main.c
tool: tool.c
\t$(CC) -O2 -Werror tool.c -o tool
%.o: %.cc
\t$(CXX) -O2 -Werror -c $< -o $@
%.o: %.c
\t$(CC) -O2 -Werror -c $< -o $@
""",
}
MAKE = ("--", "make", "-s")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A folder with sources."""
    folder = tmp_path / "program"
    (folder / "sub").mkdir(parents=True)
    for name, text in SOURCES.items():
        (folder / name).write_text(text)
    return folder


def add(command: Command, program: Path) -> None:
    command("add", "mine", *MAKE)
    for made in (program / "prog", program / "tool", *program.rglob("*.o")):
        made.unlink()


def rows(workload: str) -> dict[tuple[str, str], FunctionCounts]:
    found = [row for row in corpus.open("mine").profiles() if row.workload == workload]
    named = {(row.source, row.function): row for row in found}
    assert len(named) == len(found)
    return named


def test_counts_of_each_workload(command: Command, program: Path) -> None:
    add(command, program)
    before = sorted(program.iterdir())
    runs = ("--run", "plain=./prog", "--run", "tool=./tool", "--run", "both=sh -c './prog; ./tool'")
    done = command("profile", "mine", *runs, *MAKE)
    assert done.stdout.splitlines()[0].split() == [
        *("name", "exit", "seconds", "ran", "never", "ran", "unknown")
    ]
    assert done.stderr == "" and sorted(program.iterdir()) == before
    plain = rows("plain")
    assert plain["main.c", "helper"][6:9] == (100, 100, 100)
    assert plain["sub/main.c", "helper"][6:9] == (50, 50, 50)
    assert plain["main.c", "main"].entry == 1 and plain["sub/main.c", "twice"].entry == 100
    assert plain["a.cc", "_ZN12_GLOBAL__N_16hiddenEi"].entry == 1
    # One of the two is linked, and counts for both.
    template = [plain[file, "_Z3addIiET_S0_S0_"] for file in ("a.cc", "b.cc")]
    assert [(row.shared, row.entry) for row in template] == [(True, 1)] * 2
    assert plain["main.c", "unused"][6:] == plain["b.cc", "_Z5otheri"][6:] == (0, 0, 0, 0.0)
    for key in (("left.c", "left_out"), ("tool.c", "main"), ("tool.c", "once")):
        assert plain[key][6:] == (None, None, None, None)
    shares = [row.share or 0 for key, row in plain.items() if key[0] != "b.cc"]
    assert sum(shares) == pytest.approx(1)
    tool = rows("tool")
    assert tool["tool.c", "main"].entry == 1 and tool["main.c", "main"].entry is None
    both = rows("both")
    assert both["tool.c", "main"].entry == both["main.c", "main"].entry == 1
    shown = command("show", "mine").stdout
    assert "program was profiled: plain, tool, both\n" in shown
    assert json.loads(command("show", "mine", "--json").stdout)["profiles"] == {
        "program": ["plain", "tool", "both"]
    }


def test_a_part_has_the_profiles_of_its_programs(command: Command, program: Path) -> None:
    add(command, program)
    command("profile", "mine", "--run", "a=./prog", *MAKE)
    (program / "left.c").write_text("int of_another(void) { return 1; }\n")
    command("add", "mine", "--program", "another", "--", "clang-22", "-O2", "-c", "left.c")
    made = corpus.open("mine").split({"one": 1, "two": 1}, seed=1)
    counted = {part: [*made.part(part).profiles()] for part in ("one", "two")}
    assert sorted(map(bool, counted.values())) == [False, True]
    assert {r.program for part in counted.values() for r in part} == {"program"}


@pytest.mark.parametrize(
    ("run", "code", "said"),
    [
        ("./prog exit", 3, "`./prog exit` ended with 3: it said nothing; its counts are kept"),
        ("./prog abort", -6, "ended by signal 6: it said nothing; its counts are kept"),
        ("./prog server", None, "was ended after 2 s; its counts are kept"),
    ],
)
def test_a_run_that_ends_in_another_way_has_counts(
    command: Command, program: Path, run: str, code: int | None, said: str
) -> None:
    add(command, program)
    words = ("profile", "mine", "--timeout", "2s", "--json", "--run", f"one={run}", *MAKE)
    done = command(*words)
    assert said in done.stderr
    made = json.loads(done.stdout)
    assert made["workloads"][0]["code"] == code and made["program"] == "program"
    assert rows("one")["main.c", "helper"].entry == 100


def test_a_program_that_changed_since_it_was_added(command: Command, program: Path) -> None:
    add(command, program)
    main = SOURCES["main.c"].replace("helper", "renamed")
    (program / "main.c").write_text(main)
    done = command("profile", "mine", "--run", "one=./prog", *MAKE)
    assert "of 1 functions, such as renamed of main.c, that no module of the program" in done.stderr
    assert rows("one")["main.c", "helper"].entry is None


ONE = ("--run", "one=./prog")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("mine", *ONE), "expected a build"),
        (("mine", "--build", "make", *ONE, *MAKE), "expected a build"),
        (("mine", "--build", "make '", *ONE), "--build: No closing quotation"),
        (("mine", *MAKE), "expected a command to run"),
        (("mine", "--run", "./prog", *MAKE), "expected WORKLOAD=COMMAND"),
        (("mine", *ONE, *ONE, *MAKE), "several workloads are called one"),
    ],
)
def test_wrong_usage(command: Command, words: tuple[str, ...], why: str) -> None:
    assert why in command("profile", *words, code=2).stderr


def test_what_cannot_be_profiled(command: Command, program: Path) -> None:
    (program / "x.c").write_text("static int x(void) { return 0; }\nint main(void) {return x();}\n")
    assert "no corpus" in command("profile", "mine", *ONE, *MAKE, code=1).stderr
    command("add", "mine", "--", "clang-22", "-O2", "-c", "b.cc", "left.c")
    for words, why in (
        (("--program", "x", *ONE, *MAKE), "no program 'x'; there are: program"),
        (("--run", "one='", *MAKE), "the command of one: No closing quotation"),
        ((*ONE, "--", "no-such-make"), "no-such-make: cannot be run"),
        ((*ONE, "--", "make", "none"), "`make none`, which builds a copy"),
        ((*ONE, "--", "true"), "no compilation by clang was seen"),
        (("--run", "one=./none", *MAKE), "`./none` can't be started"),
        (("--run", "one=true", *MAKE), "one: `true` ran no program of the build"),
        (("--run", "one=./a", "--", "clang-22", "x.c", "-o", "a"), "is it another program?"),
    ):
        done = command("profile", "mine", *words, code=1)
        assert why in done.stderr and "Traceback" not in done.stderr
    assert [*corpus.open("mine").profiles()] == []


def test_a_damaged_profile(command: Command, program: Path, home: Path) -> None:
    add(command, program)
    command("profile", "mine", *ONE, "--build", "make -s")
    [file] = (home / "mine" / "profiles").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    with pytest.raises(InvalidModel, match="cannot be read"):
        [*corpus.open("mine").profiles()]
    file.write_bytes((home / "mine" / "manifest.parquet").read_bytes())
    with pytest.raises(InvalidModel, match="not a profile of version 1"):
        [*corpus.open("mine").profiles()]
    assert [*read(home / "mine", "of nobody")] == []


def test_functions_of_a_module(command: Command, program: Path, tmp_path: Path) -> None:
    (program / "f.c").write_text("""
inline int inlined(int x) { return x; }
static int kept(int x) { return x; }
int named(int x) __asm__("other name");
int named(int x) { return kept(x) + inlined(x); }
__attribute__((weak)) int weak(void) { return 1; }
int declared(void);
""")
    command("add", "mine", "--", "clang-22", "-O2", "-c", "f.c")
    [module] = corpus.open("mine")
    found = {one.name: one[1:] for one in functions_of(corpus.open("mine").extract(module))}
    assert found == {"other name": (False, False), "kept": (True, False), "weak": (False, True)}


def module(source: str) -> Module:
    return Module(source, "p", "", source, "c", (), "", 0, None, "", 0)


def test_two_executables_that_define_a_function_each() -> None:
    main = Function("main", static=False, shared=False)
    modules = {
        source: (module(source), [main, *more])
        for source, more in {
            "a.c": [Function("f", static=True, shared=False)],
            "b.c": [Function("g", static=False, shared=False)],
            "c.c": [],
        }.items()
    }
    one, two = Counts(1, 1, 1), Counts(2, 2, 2)
    join = Join(modules)
    first: dict[Key, Counts] = {(None, "main"): one, ("a.c", "f"): one}
    second: dict[Key, Counts] = {(None, "main"): two, (None, "g"): two}
    found, used = join.counts([first, second])
    by = {(digest, function.name): counts for digest, function, counts in found}
    assert by["a.c", "main"] == one and by["b.c", "main"] == two and by["c.c", "main"] is None
    assert used == {*first, *second}
    # Nothing says whose this is.
    found, _ = join.counts([{(None, "main"): one}])
    assert {counts for _, _, counts in found} == {None}
