# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Hot functions that stock clang compiles a second time for newer processors: one program that runs
on any, with the same results."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from mlbridge import files

PLUGIN = files.plugin("multiversioning")
LINKS = {
    "": (),
    "thin": ("-flto=thin", "-fuse-ld=lld", *files.linker_words([PLUGIN], "multiversioning")),
    "full": ("-flto=full", "-fuse-ld=lld", *files.linker_words([PLUGIN], "multiversioning")),
}
#: Without AVX; with it, but without AVX2; with all of x86-64-v3.
PROCESSORS = ("Nehalem", "SandyBridge", "Haswell")

MAIN = """
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include "shape.h"

template <class Number> Number total(const Number *from, int count) {
  static Number kept = 0;
  for (int i = 0; i < count; ++i)
    kept += from[i] * 3;
  return kept;
}
__attribute__((noinline)) static void scale(float *to, const float *from, int count) {
  for (int i = 0; i < count; ++i)
    to[i] = from[i] * 1.5f + to[i];
}
__attribute__((noinline)) static int checked(int n) {
  if (n % 7 == 3)
    throw std::runtime_error("three");
  return n * n;
}
int main(int, char **words) {
  const int repeats = std::atoi(words[1]);
  static float a[999], b[999];
  static int numbers[999];
  for (int i = 0; i < 999; ++i) {
    b[i] = float(i) / 7;
    numbers[i] = i ^ 85;
  }
  long sum = 0;
  int caught = 0;
  Shape *const shapes[] = {square(), circle()};
  for (int i = 0; i < repeats; ++i) {
    scale(a, b, 999);
    sum += total(numbers, 999) + shapes[i & 1]->area(i, numbers, 999);
    try {
      sum += checked(i);
    } catch (const std::exception &) {
      ++caught;
    }
  }
  std::printf("%.9g %ld %d\\n", a[997], sum, caught);
}
"""
HEADER = """
struct Shape {
  virtual long area(int size, const int *bits, int count) = 0;
  virtual ~Shape() {}
};
Shape *square();
Shape *circle();
template <class Number> Number total(const Number *from, int count);
inline int bits(const int *from, int count) {
  int found = 0;
  for (int i = 0; i < count; ++i)
    found += __builtin_popcount(from[i]);
  return found;
}
"""
SHAPES = """
#include "shape.h"
struct Square : Shape {
  long area(int size, const int *from, int count) override { return size * bits(from, count); }
};
struct Circle : Shape {
  long area(int size, const int *from, int count) override { return 3 * bits(from, count) - size; }
};
Shape *square() { static Square one; return &one; }
Shape *circle() { static Circle one; return &one; }
"""


def output_of(*command: str | Path, folder: Path | None = None) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def constructors(program: Path) -> int:
    """How many the program runs before it begins."""
    size = re.search(r"\.init_array +([0-9a-f]+)", output_of("objdump", "-h", program))
    assert size
    return int(size[1], 16) // 8


def profile_of(program: Path, *arguments: str) -> Path:
    """The profile of a run of a program that counts."""
    folder = program.parent / "counts"
    output_of(program, *arguments, folder=program.parent)
    merged = program.with_suffix(".profdata")
    output_of("llvm-profdata-22", "merge", "-o", merged, *folder.glob("*.profraw"))
    return merged


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    (tmp_path / "shape.h").write_text(HEADER)
    (tmp_path / "main.cpp").write_text(MAIN)
    (tmp_path / "shapes.cpp").write_text(SHAPES)
    return [tmp_path / "main.cpp", tmp_path / "shapes.cpp"]


@pytest.fixture
def profile(sources: list[Path]) -> Path:
    words = ("-O3", f"-fprofile-generate={sources[0].parent / 'counts'}")
    counting = sources[0].parent / "counting"
    output_of("clang++-22", *words, *sources, "-o", counting)
    return profile_of(counting, "500")


@pytest.mark.parametrize(
    "more", [(), ("-g", "-fPIC", "-fuse-ld=lld"), ("-fstack-protector-all", "-mtune=znver3")]
)
@pytest.mark.parametrize("link", LINKS)
def test_a_program_runs_on_any_processor(
    sources: list[Path], profile: Path, link: str, more: tuple[str, ...], tmp_path: Path
) -> None:
    words = ("-O3", f"-fprofile-use={profile}", *more)
    flags = (*files.clang_words(PLUGIN), *LINKS[link], "-Wno-unused-command-line-argument")
    usual, made = tmp_path / "usual", tmp_path / "made"
    output_of("clang++-22", *words, *sources, "-o", usual)
    said = output_of("clang++-22", *words, *flags, *sources, "-o", made)
    assert "warning" not in said
    expected = output_of(usual, "900")
    assert output_of(made, "900") == expected
    for processor in PROCESSORS:
        assert output_of("qemu-x86_64", "-cpu", processor, made, "900").startswith(expected)
    shown = output_of("objdump", "-d", "--no-show-raw-insn", made)
    assert "%ymm" in shown and "popcnt" in shown
    names = output_of("nm", made)
    assert re.search(r"t .*scale.*\.x86_64_v3", names)
    assert re.search(r"scale.*\.x86_64$", names, re.M)
    added = constructors(made) - constructors(usual)
    assert added == 1 or (link == "thin" and added == len(sources))
    if "-g" in more:
        assert "No errors" in output_of("llvm-dwarfdump-22", "--verify", made)


def test_new_processors_run_the_new_version(
    sources: list[Path], profile: Path, tmp_path: Path
) -> None:
    """With traps in the usual versions, only old processors meet them."""
    module = tmp_path / "shapes.s"
    words = ("-O3", f"-fprofile-use={profile}", *files.clang_words(PLUGIN))
    output_of("clang++-22", *words, "-S", sources[1], "-o", module)
    text, count = re.subn(
        r"(?m)^(\S*bits\S*\.x86_64|\S*area\S*\.x86_64):", r"\1:\n ud2", module.read_text()
    )
    assert count
    module.write_text(text)
    made = tmp_path / "made"
    output_of("clang++-22", *words, sources[0], module, "-o", made)
    output_of("qemu-x86_64", "-cpu", "Haswell", made, "9")
    old = subprocess.run(["qemu-x86_64", "-cpu", "Nehalem", made, "9"], capture_output=True)
    assert old.returncode != 0


def test_files_with_and_without_versions_are_linked(
    sources: list[Path], profile: Path, tmp_path: Path
) -> None:
    """Either's inline functions may be kept, in a program and in a shared object."""
    words = ("-O3", "-fPIC", "-fno-inline", f"-fprofile-use={profile}")
    expected = ""
    for first, second in [((), ()), ((PLUGIN,), ()), ((), (PLUGIN,)), ((PLUGIN,), (PLUGIN,))]:
        objects = []
        for source, plugins in zip(sources, (first, second), strict=True):
            objects.append(source.with_suffix(".o"))
            load = [word for one in plugins for word in files.clang_words(one)]
            output_of("clang++-22", *words, *load, "-c", source, "-o", objects[-1])
        for order in (objects, objects[::-1]):
            output_of("clang++-22", *order, "-o", tmp_path / "made")
            expected = expected or output_of(tmp_path / "made", "300")
            assert output_of(tmp_path / "made", "300") == expected
        output_of("clang++-22", "-shared", objects[1], "-o", tmp_path / "libshapes.so")
        where = ("-L", tmp_path, "-lshapes", f"-Wl,-rpath,{tmp_path}")
        output_of("clang++-22", objects[0], *where, "-o", tmp_path / "made")
        assert output_of(tmp_path / "made", "300") == expected


def test_control_flow_integrity_knows_the_functions(
    sources: list[Path], profile: Path, tmp_path: Path
) -> None:
    strict = ("-fsanitize=cfi", "-fvisibility=hidden")
    words = ("-O3", f"-fprofile-use={profile}", *strict, *files.clang_words(PLUGIN))
    output_of("clang++-22", *words, *LINKS["full"], *sources, "-o", tmp_path / "made")
    output_of("clang++-22", "-O3", *sources, "-o", tmp_path / "usual")
    assert "x86_64_v3" in output_of("nm", tmp_path / "made")
    assert output_of(tmp_path / "made", "900") == output_of(tmp_path / "usual", "900")


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("checked", ["-fsanitize=thread", "-fsanitize=address", "-pg"])
def test_what_a_compiler_adds_to_functions(
    sources: list[Path], profile: Path, checked: str, link: str, tmp_path: Path
) -> None:
    """A function that chooses calls more than its versions then, also where files are merged."""
    words = ("-O3", f"-fprofile-use={profile}", checked, *files.clang_words(PLUGIN))
    flags = (*LINKS[link], "-Wno-unused-command-line-argument")
    output_of("clang++-22", *words, *flags, *sources, "-o", tmp_path / "made")
    output_of("clang++-22", "-O3", *sources, "-o", tmp_path / "usual")
    assert "x86_64_v3" in output_of("nm", tmp_path / "made")
    made = output_of(tmp_path / "made", "900", folder=tmp_path)
    assert made == output_of(tmp_path / "usual", "900")


LEFT = """
#include <setjmp.h>
#include <stdarg.h>
#include <immintrin.h>
typedef struct { long values[9]; } Large;
typedef float Wide __attribute__((vector_size(32)));
static jmp_buf place;
static int cold;
int numbers[64];
#define LOOP for (int i = 0; i < 64; ++i) numbers[i] = numbers[i] * 3 + n;
#define KEPT __attribute__((noinline))
KEPT void fine(int n) { LOOP }
KEPT void seldom(int n) { LOOP }
KEPT void labels(int n) { static void *to[] = {&&a, &&b}; goto *to[n & 1];
  a: LOOP return;
  b: cold = n; }
KEPT void many(int n, ...) { va_list all; va_start(all, n); LOOP
  numbers[0] += va_arg(all, int); va_end(all); }
KEPT void large(Large n_, int n) { LOOP numbers[1] += n_.values[n & 7]; }
KEPT __attribute__((target("avx2"))) void stated(int n) { LOOP }
KEPT __attribute__((minsize)) void small(int n) { LOOP }
KEPT __attribute__((section("kept"))) void placed(int n) { LOOP }
KEPT void jumps(int n) { if (!setjmp(place)) LOOP }
KEPT void assembles(int n) { LOOP __asm__("nop"); }
KEPT __attribute__((weak)) void weak(int n) { LOOP }
KEPT __attribute__((preserve_all)) void keeps(int n) { cold += n; }
KEPT void calls(int n) { LOOP keeps(n); }
int main(void) {
  Large one = {{1, 2, 3}};
  for (int n = 0; n < 3000; ++n) {
    fine(n); labels(n); labels(n + 1); many(n, n); large(one, n); small(n); placed(n);
    jumps(n); assembles(n); weak(n); calls(n);
    if (__builtin_cpu_supports("avx2")) stated(n);
    if (n % 4 == 0) seldom(n);
  }
  return numbers[5] == 1;
}
"""


def test_what_cannot_be_there_twice_is_left_alone(tmp_path: Path) -> None:
    source = tmp_path / "left.c"
    source.write_text(LEFT)
    counting = ("-O3", f"-fprofile-generate={tmp_path / 'counts'}")
    output_of("clang-22", *counting, source, "-o", tmp_path / "counting")
    profile = profile_of(tmp_path / "counting")
    words = ("-O3", f"-fprofile-use={profile}", *files.clang_words(PLUGIN))
    remarks = "-Rpass-missed=multiversioning"
    said = output_of("clang-22", *words, remarks, source, "-o", tmp_path / "made")
    names = output_of("nm", tmp_path / "made")
    assert set(re.findall(r"(\w+)\.x86_64_v3", names)) <= {"fine", "main"}
    assert "fine.x86_64_v3" in names
    for why in (
        "the address of a label is taken",
        "what it is",
        "an argument is in memory",
        "for a processor that the source or a flag states",
        "a call that can't be there twice",
        "another definition may be used",
        "a call of another convention",
    ):
        assert re.search(f"one version: .*{why}", said), said
    output_of("qemu-x86_64", "-cpu", "Nehalem", tmp_path / "made")


def test_the_object_file_is_the_usual_one(tmp_path: Path) -> None:
    """Without a profile, for size, and for other processors."""
    source = tmp_path / "plain.c"
    source.write_text(
        "int a[99]; void f(int n) { for (int i = 0; i < 99; ++i) a[i] += n; }\n"
        "int main(void) { for (int n = 0; n < 999; ++n) f(n); return 0; }\n"
    )
    counting = ("-O3", f"-fprofile-generate={tmp_path / 'counts'}")
    output_of("clang-22", *counting, source, "-o", tmp_path / "counting")
    profile = f"-fprofile-use={profile_of(tmp_path / 'counting')}"
    made = tmp_path / "made.o"

    def is_usual(*flags: str) -> bool:
        contents = []
        for load in ([], files.clang_words(PLUGIN)):
            output_of("clang-22", *flags, *load, "-c", source, "-o", made)
            contents.append(made.read_bytes())
        return contents[0] == contents[1]

    assert not is_usual("-O3", profile) and not is_usual("-O2", profile)
    assert is_usual("-O3")
    for level in ("-O1", "-Os", "-Oz"):
        assert is_usual(level, profile)
    for target in ("-march=x86-64-v3", "--target=aarch64-linux-gnu", "-mno-sse2", "-m32"):
        assert is_usual("-O3", profile, target)
