# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Candidates are tried in lld's link-time optimization, too: no link is larger, each runs right."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sampling import nightly
from stock import Compiler

KINDS = ("full", "thin")
#: In two files, which makes a COMDAT.
SPLIT = """\
inline std::vector<std::string> split(const std::string &s, char c) {
  std::vector<std::string> parts;
  std::string now;
  for (char x : s)
    if (x == c) { parts.push_back(now); now.clear(); } else now += x;
  parts.push_back(now);
  return parts;
}
"""
#: What a link may have trouble with: an ifunc, symbols in assembly, thread-local, weak and common
#: variables, a COMDAT in two files, exceptions, a constructor, recursion between files.
SOURCES = {
    "main.cpp": """\
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>
thread_local int counter = 3;
extern "C" int chosen(int);
extern "C" int even(unsigned);
@SPLIT@
std::size_t other(const std::string &s);
int thrower(int x) { if (x > 3) throw std::runtime_error("big"); return counter += x; }
int main(int argc, char **) {
  for (auto &s : split("a,b,c", ',')) std::puts(s.c_str());
  try { std::printf("%d\\n", thrower(argc)); thrower(7); }
  catch (std::exception &e) { std::puts(e.what()); }
  std::printf("%d %d %zu\\n", chosen(argc), even(10), other("x,y"));
}
""",
    "other.cpp": """\
#include <string>
#include <vector>
@SPLIT@
std::size_t other(const std::string &s) { return split(s, ',').size(); }
""",
    "symbols.c": """\
int common;
static int one(int x) { return x + 1; }
static int two(int x) { return x * 2; }
static int (*resolve(void))(int) { return common ? one : two; }
int chosen(int) __attribute__((ifunc("resolve")));
__attribute__((weak)) int weak(int x) { return one(x); }
int odd(unsigned n);
int even(unsigned n) { return n == 0 ? 1 : odd(n - 1); }
__attribute__((noinline)) int large(int n) {
  int s = common;
  for (int i = 0; i < n; i++) { s += weak(i) * i; if (s > 100) s -= i; }
  return s;
}
__asm__(".data\\n.globl number\\nnumber: .long 42\\n"
        ".text\\n.globl five\\nfive: mov $5, %eax\\nret\\n");
extern int number;
int five(void);
int sum(void) { return number + five() + large(9); }
""",
    "ends.c": """\
int sum(void);
int even(unsigned n);
int odd(unsigned n) { return n == 0 ? 0 : even(n - 1); }
int all(int x) { return sum() + x; }
__attribute__((constructor)) static void begin(void) { all(1); }
""",
}
LEVERS = ["apply-ext-tsp-for-size", "disable-lsr", "enable-machine-outliner=always"]
AFTER = {
    "name": "after",
    "passes": "function(simplifycfg),mergefunc",
    "after_stock": True,
    "options": LEVERS,
}
INSTEAD = {"name": "instead", "passes": "default<Oz>,mergefunc", "options": LEVERS}
LARGE = {"name": "large", "passes": "no-op-module"}
REMARKS = (
    "-Wl,-mllvm,-pass-remarks=phase-ordering",
    "-Wl,-mllvm,-pass-remarks-missed=phase-ordering",
)


def candidates(folder: Path, *ways: dict[str, Any]) -> str:
    path = folder / "list.json"
    path.write_text(json.dumps({"version": 1, "candidates": ways}))
    return f"candidates:{path}"


def objects(
    compiler: Compiler, flags: Sequence[str], model: str | None, **settings: object
) -> list[Path]:
    """The files of SOURCES, compiled at -Oz."""
    made = []
    for name, text in SOURCES.items():
        source = compiler.folder / name
        source.write_text(text.replace("@SPLIT@\n", SPLIT))
        extra = compiler.options(model, levels=None, **settings) if model else []
        line = ["-Oz", "-w", *flags, *extra, "-c"]
        made.append(compiler.compile(source, f"{source.stem}.o", *line)[0])
    return made


def link(
    compiler: Compiler, inputs: Sequence[Path], target: str, *flags: str, plugin: bool = True
) -> str:
    """What the linker says."""
    load = [f"-Wl,--load-pass-plugin={compiler.plugin}", *REMARKS] if plugin else []
    driver = ["clang++", "-fuse-ld=lld", "-Wl,--gc-sections", *flags, *load]
    done = compiler.run(*driver, *inputs, "-o", target)
    return done.stderr + done.stdout  # which has remarks


def code(compiler: Compiler, path: Path) -> int:
    said = compiler.run("llvm-readelf", "-SW", path).stdout
    sections = [line.rpartition("]")[2].split() for line in said.splitlines() if " AX" in line]
    return sum(int(words[4], 16) for words in sections)


def logs(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in folder.glob("*.trials.json")]


FLAGS = (
    "",
    "-g",
    "-fPIC -fvisibility=hidden",
    "-fsanitize=undefined",
    "-fcf-protection=full",
    "-g -gz",
    "-fwhole-program-vtables -fvisibility=hidden",
    "-fprofile-instr-generate -fcoverage-mapping",
    "-march=x86-64-v4 -fstack-protector-all",
)


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        (kind, flags) if flags in ("", "-g") else nightly(kind, flags)
        for kind in KINDS
        for flags in FLAGS
    ],
)
def test_a_link_is_smaller_and_what_was_measured(compiler: Compiler, kind: str, flags: str) -> None:
    model = candidates(compiler.folder, LARGE, AFTER, INSTEAD)
    line = [f"-flto={kind}", *flags.split()]
    made = objects(compiler, line, model, log=f"{compiler.folder}/log")
    said = link(compiler, made, "linked", *line, "-Wl,--save-temps")
    assert "warning" not in said and "bytes of code instead of" in said
    emitted = sum(code(compiler, path) for path in compiler.folder.glob("linked*lto*.o"))
    found = logs(compiler.folder / "log")
    assert len(found) == (1 if kind == "full" else len(SOURCES))
    sizes = [
        min(
            one["stock_bytes"],
            *(run["bytes"] for run in one["trials"] if run["end"] == "measured"),
        )
        for one in found
    ]
    assert emitted == sum(sizes)
    link(compiler, made, "plain", *line, plugin=False)
    plain, linked = (compiler.folder / name for name in ("plain", "linked"))
    assert code(compiler, linked) < code(compiler, plain)
    assert compiler.run(linked).stdout == compiler.run(plain).stdout != ""


def test_a_thin_link_is_the_same_with_any_number_of_jobs(compiler: Compiler) -> None:
    made = objects(compiler, ["-flto=thin"], candidates(compiler.folder, AFTER, INSTEAD))
    for jobs in ("1", "8", "8"):
        link(compiler, made, f"linked-{jobs}", "-flto=thin", f"-Wl,--thinlto-jobs={jobs}")
        first = (compiler.folder / "linked-1").read_bytes()
        assert (compiler.folder / f"linked-{jobs}").read_bytes() == first


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_done_where_nothing_should_be(compiler: Compiler, kind: str) -> None:
    flag = f"-flto={kind}"
    model = candidates(compiler.folder, AFTER)

    def left_alone(made: Sequence[Path], reason: str) -> None:
        said = link(compiler, made, "linked", flag)
        assert reason in said and "bytes of code" not in said
        link(compiler, made, "plain", flag, plugin=False)
        linked, plain = ((compiler.folder / name).read_bytes() for name in ("linked", "plain"))
        assert linked == plain

    left_alone(objects(compiler, [flag], None), "none of its files was compiled for a model")
    at_2 = objects(compiler, [flag, "-O2"], model)
    left_alone(at_2, "-O2 is not one of the levels Os,Oz")
    left_alone(at_2, "less than 95 % of the code was compiled at -Oz or -Os")
    for code in ("aot:/tmp/policy.so", "onnx:policy.onnx?runtime=/tmp/runtime.so"):
        left_alone(objects(compiler, [flag], code), "a model that loads code must be named by")
    if kind == "full":
        made = objects(compiler, [flag], model)
        source = compiler.folder / "ends.c"
        line = compiler.options(model, levels=None, effort=1)
        compiler.compile(source, "ends.o", "-Oz", flag, *line, "-c")
        left_alone(made, "compiled with different options of phase ordering")


@pytest.mark.parametrize("kind", KINDS)
def test_a_candidate_that_crashes_is_left_out(compiler: Compiler, kind: str) -> None:
    crash = {"name": "crash", "passes": "trigger-crash-module"}
    flag = f"-flto={kind}"
    model = candidates(compiler.folder, crash, AFTER)
    said = link(compiler, objects(compiler, [flag], model), "linked", flag)
    assert "candidate 'crash' is left out: LLVM crashed in it" in said and "warning" not in said
    link(compiler, objects(compiler, [flag], None), "plain", flag, plugin=False)
    linked, plain = (compiler.folder / name for name in ("linked", "plain"))
    assert code(compiler, linked) < code(compiler, plain)


FREESTANDING = """
int total(const int *v, int n) {
  int s = 0;
  for (int i = 0; i < n; i++) s += v[i] * v[i];
  return s;
}
int other(int a, int b) { switch (a % 4) { case 0: return b * 3; case 1: return b - a; }
  return total(&a, 1) + total(&b, 1); }
"""


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_whose_assembly_says_less_is_left_alone(compiler: Compiler, kind: str) -> None:
    source = compiler.folder / "free.c"
    source.write_text(FREESTANDING)
    target = ["--target=riscv64-linux-gnu", "-fPIC", f"-flto={kind}"]
    model = compiler.options(candidates(compiler.folder, INSTEAD), levels=None, effort=1)
    compiler.run("clang", *target, "-Oz", *model, "-c", source, "-o", "free.o")
    command = ["clang", *target, "-fuse-ld=lld", "-shared", "-nostdlib", "free.o", "-o"]
    load = [f"-Wl,--load-pass-plugin={compiler.plugin}", *REMARKS]
    done = compiler.run(*command, "linked", *load)
    said = done.stderr + done.stdout  # which has remarks
    assert "candidates of links are for x86, Arm and AArch64, not for riscv64" in said
    compiler.run(*command, "plain")
    linked, plain = ((compiler.folder / name).read_bytes() for name in ("linked", "plain"))
    assert linked == plain


@pytest.mark.parametrize("version", ["4", "5"])
def test_debug_information_of_a_candidate(compiler: Compiler, version: str) -> None:
    """The line table has the version and the files that it has without the plugin."""
    debug = ["-flto=full", f"-gdwarf-{version}"]
    link(compiler, objects(compiler, debug, None), "plain", "-flto=full", plugin=False)
    made = objects(compiler, debug, candidates(compiler.folder, AFTER))
    assert "bytes of code instead of" in link(compiler, made, "linked", "-flto=full")
    tables = [
        compiler.run("llvm-dwarfdump", "--debug-line", name).stdout for name in ("linked", "plain")
    ]
    for text in tables:
        assert f"  version: {version}\n" in text
        assert all(f'name: "{path}"' in text for path in ("symbols.c", "ends.c", "other.cpp"))


def test_debug_information_of_a_folder_with_an_odd_name(compiler: Compiler) -> None:
    line = ["-flto=full", "-g", '-fdebug-compilation-dir=/é "quoted"\\']
    made = objects(compiler, line, candidates(compiler.folder, AFTER))
    assert "bytes of code instead of" in link(compiler, made, "linked", "-flto=full")
    link(compiler, objects(compiler, line, None), "plain", "-flto=full", plugin=False)
    folders = [
        re.search(r"include_directories\[  0\] = .*", text)
        for name in ("linked", "plain")
        for text in [compiler.run("llvm-dwarfdump", "--debug-line", name).stdout]
    ]
    assert folders[0] and folders[1] and folders[0][0] == folders[1][0]


def test_split_debug_information_is_left_alone(compiler: Compiler) -> None:
    line = ["-flto=full", "-g", "-gsplit-dwarf"]
    made = objects(compiler, line, candidates(compiler.folder, AFTER))
    said = link(compiler, made, "linked", *line)
    assert "with -gsplit-dwarf debug information is written to files of its own" in said
    assert list(compiler.folder.glob("linked-dwo/*.dwo"))


@pytest.mark.parametrize("kind", KINDS)
def test_ways_to_link(compiler: Compiler, kind: str) -> None:
    flag = f"-flto={kind}"
    model = candidates(compiler.folder, AFTER, INSTEAD)
    made = objects(compiler, [flag, "-fPIC"], model)
    link(compiler, made, "plain", flag, plugin=False)
    expected = compiler.run(compiler.folder / "plain").stdout

    smaller = "bytes of code instead of"
    assert smaller in link(compiler, made, "shared.so", flag, "-shared")
    assert smaller in link(compiler, made, "wrapped", flag, "-Wl,--wrap=weak", "-shared")
    assert smaller in link(compiler, made, "one.o", flag, "-r", "-nostdlib", "-Wl,--no-gc-sections")
    link(compiler, [compiler.folder / "one.o"], "linked", plugin=False)
    assert compiler.run(compiler.folder / "linked").stdout == expected

    # A native file, an archive with a member twice, sections of garbage.
    native = compiler.compile(compiler.folder / "symbols.c", "symbols.o", "-Oz", "-w", "-c")[0]
    (compiler.folder / "all.a").unlink(missing_ok=True)
    compiler.run("llvm-ar", "qc", "all.a", *made[1:], made[3])
    mixed = [made[0], compiler.folder / "all.a"]
    assert smaller in link(compiler, mixed, "linked", flag)
    assert native in made
    assert compiler.run(compiler.folder / "linked").stdout == expected

    # Bitcode and assembly are asked for in place of code; pieces are made by several threads.
    made = objects(compiler, [flag], model)
    said = link(compiler, made, "linked.bc", flag, "-Wl,--lto-emit-llvm")
    assert "with --lto-emit-llvm no code is generated, so no candidate is tried" in said
    link(compiler, made, "linked.s", flag, "-Wl,--lto-emit-asm")
    said = link(compiler, made, "linked", flag, "-Wl,--lto-partitions=2")
    assert (smaller in said) == (kind == "thin")
    assert ("with --lto-partitions=2 code is generated for pieces" in said) == (kind == "full")
    (compiler.folder / "words").write_text("--plugin-opt=lto-partitions=3")
    said = link(compiler, made, "linked", flag, "-Wl,@words")
    assert ("with --lto-partitions=3 code is generated for pieces" in said) == (kind == "full")
    assert compiler.run(compiler.folder / "linked").stdout == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_library_exports_nothing_that_candidates_make(compiler: Compiler, kind: str) -> None:
    """Prologues that functions of AArch64 share are weak symbols of LLVM's."""
    shared = {"name": "shared", "passes": "default<Oz>", "options": ["homogeneous-prolog-epilog"]}
    line = ["-Oz", "--target=aarch64-linux-gnu", f"-flto={kind}", "-fPIC"]
    line += compiler.options(candidates(compiler.folder, shared), levels=None, effort=1)
    body = "{ int s = a; for (; n--; a += b ^ s) s += g(a * b) + g(s + n) - c; return s ^ a; }"
    made = []
    for number in range(2):
        of = (f"int f{number}{i}(int a, int b, int c, int n) {body}\n" for i in range(8))
        source = compiler.folder / f"{number}.c"
        source.write_text("int g(int);\n" + "".join(of))
        made.append(compiler.compile(source, f"{number}.o", *line, "-c")[0])
    words = [*line[1:3], "-shared", "-nostdlib"]
    assert "instead of" in link(compiler, made, "library.so", *words)
    library = compiler.folder / "library.so"
    assert "OUTLINED_FUNCTION_PROLOG" in compiler.run("llvm-nm", library).stdout
    exported = compiler.run("llvm-nm", "-D", "--defined-only", library).stdout
    assert len(exported.splitlines()) == 16 and "OUTLINED" not in exported


CALLS = """\
#include <cstdio>
struct A { virtual void f() { std::puts("A"); } virtual ~A() {} };
struct B { virtual void g() { std::puts("B"); } virtual ~B() {} };
int one(int x) { return x + 1; }
void other(const char *s, double d) { std::printf("%s %f\\n", s, d); }
__attribute__((noinline)) void call(A *a) { a->f(); }
__attribute__((noinline)) int call(int (*f)(int)) { return f(3); }
int main(int argc, char **) {
  A a;
  call(&a);
  std::printf("%d\\n", call(one));
  if (argc == 2) { B b; call((A *)(void *)&b); }
  if (argc == 3) call((int (*)(int))(void *)other);
}
"""


@pytest.mark.parametrize("kind", KINDS)
def test_control_flow_integrity_is_kept(compiler: Compiler, kind: str) -> None:
    source = compiler.folder / "calls.cpp"
    source.write_text(CALLS)
    flags = [f"-flto={kind}", "-fsanitize=cfi", "-fvisibility=hidden"]
    line = compiler.options(candidates(compiler.folder, INSTEAD), levels=None)
    made, _ = compiler.compile(source, "calls.o", "-Oz", "-w", *flags, *line, "-c")
    link(compiler, [made], "calls", *flags)
    program = compiler.folder / "calls"
    assert compiler.run(program).stdout == "A\n4\n"
    for wrong in (["1"], ["1", "2"]):
        ended = subprocess.run([program, *wrong], capture_output=True, check=False)
        assert ended.returncode == -signal.SIGILL, "a wrong call isn't stopped"


def test_fat_objects(compiler: Compiler) -> None:
    made = objects(compiler, ["-flto", "-ffat-lto-objects"], candidates(compiler.folder, AFTER))
    fat = ("-flto", "-ffat-lto-objects", "-Wl,--fat-lto-objects")
    assert "bytes of code instead of" in link(compiler, made, "linked", *fat)
    link(compiler, made, "plain", *fat, plugin=False)
    outputs = [compiler.run(compiler.folder / name).stdout for name in ("linked", "plain")]
    assert outputs[0] == outputs[1] != ""


def test_a_link_that_is_killed_leaves_no_process(compiler: Compiler) -> None:
    endless = {"name": "endless", "passes": "function(" + ",".join(["instcombine"] * 3000) + ")"}
    made = objects(
        compiler, ["-flto"], candidates(compiler.folder, endless, endless | {"name": "2"})
    )
    end, write = os.pipe()  # candidates keep what is open for reading
    line = [compiler.tool("clang++"), "-###", "-flto", "-fuse-ld=lld", *map(str, made), "-o", "x"]
    said = subprocess.run(line, cwd=compiler.folder, capture_output=True, text=True, check=True)
    words = [word.strip('"') for word in said.stderr.splitlines()[-1].split()]
    command = [*words, f"--load-pass-plugin={compiler.plugin}"]
    with subprocess.Popen(command, cwd=compiler.folder, pass_fds=[end]) as linker:
        os.close(end)
        children = Path(f"/proc/{linker.pid}/task/{linker.pid}/children")
        while linker.poll() is None and not children.read_text():
            pass
        assert linker.poll() is None, "it ended before it had tried anything"
        linker.kill()
    gone = select.poll()
    gone.register(write, 0)
    assert gone.poll(20_000), "a candidate still runs"
    os.close(write)
