# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which functions stock clang and opt compile for size: as the model says, or a profile."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiler import Compiler, serving
from sampling import LLVMS

import mlbridge
from mlbridge.elf import executable_bytes
from mlbridge.recording import Recording

SOURCE = """
#include <stdio.h>
#include <stdlib.h>
static int total(const int *p, int n) {
  int sum = 0;
  for (int i = 0; i < n; ++i)
    sum += p[i] * p[i];
  return sum;
}
__attribute__((noreturn)) void usage(const char *name) {
  fprintf(stderr, "usage: %s NUMBERS\\n", name);
  exit(2);
}
int deep(int n) { return n < 2 ? n : deep(n - 1) + deep(n - 2); }
int never(int n) { return n * 3 + 1; }
int main(int count, char **words) {
  if (count > 9)
    usage(words[0]);
  int numbers[100];
  for (int i = 0; i < 100; ++i)
    numbers[i] = i * count;
  printf("%d %d\\n", total(numbers, 100), deep(12));
  return 0;
}
"""
SIZES = {"speed": 0, "size": 1, "smallest": 2}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "main.c"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def llvm() -> int:
    return 22


@pytest.fixture
def compiler(tmp_path: Path, llvm: int) -> Compiler:
    return Compiler("hotness", tmp_path, llvm)


def sizes(compiler: Compiler, source: Path, *flags: str, **settings: object) -> dict[str, str]:
    """What each function that is left is compiled for, by its attributes."""
    target = source.with_suffix(".ll")
    words = [*compiler.flags, *flags, *compiler.words(**settings)]
    driver = compiler.driver(source)
    made = compiler.run(driver, *words, "-S", "-emit-llvm", source, "-o", target)
    assert "warning" not in made.stderr
    text = target.read_text()
    groups = dict(re.findall(r"^attributes #(\d+) = \{ (.*) \}$", text, re.M))
    found = {}
    for name, number in re.findall(r"^define .*?@([\w.]+)\(.*?\).*? #(\d+)", text, re.M):
        words = groups[number].split()
        found[name] = (
            "smallest" if "minsize" in words else "size" if "optsize" in words else "speed"
        )
    return found


def naming(*cold: str, size: str = "smallest") -> Any:
    """A policy that compiles these functions for size, and no other."""

    def policy(observation: Any, _context: mlbridge.CallContext) -> dict[str, Any]:
        names = [name.rpartition(";")[2] for name in observation["names"]]
        return {"sizes": np.array([SIZES[size] * (name in cold) for name in names], np.int64)}

    return policy


@pytest.mark.parametrize("llvm", LLVMS)
def test_a_model_decides(compiler: Compiler, source: Path) -> None:
    stock = compiler.clang(source)
    plain, printed = stock.object, compiler.output(stock)
    same = compiler.clang(source, model="function:speed")
    assert same.object == plain and not same.stderr
    bytes_of = {}
    for name in SIZES:
        made = compiler.clang(source, model=f"function:{name}")
        bytes_of[name] = executable_bytes(made.object)
        assert not made.stderr and compiler.output(made) == printed
    assert bytes_of["speed"] > bytes_of["size"] > bytes_of["smallest"]
    with serving(naming("usage", "deep"), compiler.folder) as uri:
        assert sizes(compiler, source, model=uri) == {
            "usage": "smallest",
            "deep": "smallest",
            "never": "speed",
            "main": "speed",
        }
    with serving(naming("main", size="size"), compiler.folder) as uri:
        assert sizes(compiler, source, model=uri)["main"] == "size"


@pytest.mark.parametrize("level", ["-O0", "-Os", "-Oz"])
def test_other_levels_are_left_alone(compiler: Compiler, source: Path, level: str) -> None:
    made = compiler.clang(source, level=level, model="function:smallest")
    assert made.object == compiler.clang(source, level=level).object and not made.stderr


@pytest.mark.parametrize("level", ["-O1", "-O2", "-O3"])
def test_levels_of_speed(compiler: Compiler, source: Path, level: str) -> None:
    assert set(sizes(compiler, source, level, model="function:size").values()) == {"size"}
    assert set(sizes(compiler, source, level, model="function:size", levels="Os").values()) == {
        "speed"
    }


def test_who_knows_better_is_left_alone(compiler: Compiler, tmp_path: Path) -> None:
    source = tmp_path / "marked.c"
    source.write_text(
        """
        __attribute__((hot)) int hot(int x) { return x * 3; }
        __attribute__((cold)) int cold(int x) { return x * 5; }
        __attribute__((noinline)) int apart(int x) { return x * 7; }
        __attribute__((always_inline)) inline int always(int x) { return x * 9; }
        extern int always(int x);
        __attribute__((target_clones("avx2", "default"))) int cloned(const int *p, int n) {
          int sum = 0;
          for (int i = 0; i < n; ++i) sum += p[i];
          return sum;
        }
        int unrolled(const int *p, int n) {
          int sum = 0;
        #pragma clang loop unroll_count(4)
          for (int i = 0; i < n; ++i) sum += p[i] ^ sum;
          return sum;
        }
        __attribute__((naked)) void bare(void) { __asm__("ret"); }
        int usual(const int *p, int n) {
          int sum = 0;
          for (int i = 0; i < n; ++i) sum += p[i] ^ sum;
          return sum;
        }
        """
    )
    found = sizes(compiler, source, model="function:smallest")
    assert found.pop("usual") == "smallest"
    assert found.pop("cold") == "size"  # LLVM's own decision
    assert set(found.values()) == {"speed"}, found
    alone = compiler.clang(source, "-Rpass-missed=hotness", model="function:smallest")
    for reason in ("marked hot", "marked noinline", "has a pragma", "naked", "of several versions"):
        assert f"left as it is: {reason}" in alone.stderr or reason in alone.stderr


@pytest.mark.parametrize(
    "flags",
    [
        ["-fprofile-generate"],
        ["-fprofile-instr-generate", "-fcoverage-mapping"],
        ["--coverage"],
        ["-fsanitize=address"],
        ["-fsanitize=thread"],
    ],
    ids=" ".join,
)
def test_instrumented_builds_are_as_before(
    compiler: Compiler, source: Path, flags: list[str]
) -> None:
    made = compiler.clang(source, *flags, model="function:smallest")
    assert made.object == compiler.clang(source, *flags).object and not made.stderr


def test_debug_information_changes_no_code(compiler: Compiler, source: Path) -> None:
    with serving(naming("deep", "usage"), compiler.folder) as uri:
        plain = executable_bytes(compiler.clang(source, model=uri).object)
        assert executable_bytes(compiler.clang(source, "-g", model=uri).object) == plain


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("native:/nowhere/policy.onnx", "not found"),
        ("unix:/nowhere/socket", "unavailable"),
        ("function:none", "function:none"),
        ("profile:/nowhere/app.profdata", "there is no such file"),
        ("profile:{source}", "expected a profile of llvm-profdata"),
        ("function:random?share=2", "expected a number from 0 to 1"),
        ("nothing", "expected"),
    ],
)
def test_without_an_answer_nothing_changes(
    compiler: Compiler, source: Path, model: str, words: str
) -> None:
    plain = compiler.clang(source).object
    made = compiler.clang(source, model=model.format(source=source))
    assert made.object == plain
    (warning,) = made.warnings
    assert words in warning and "all functions are compiled as without" in warning
    failed = compiler.clang(source, model=model.format(source=source), on_failure="fail")
    assert failed.code == 1
    assert "error: hotness: " in failed.stderr and words in failed.stderr


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda count: np.full(count, 3, np.int64), "is 3; expected 0, 1 or 2"),
        (lambda count: np.full(count, -1, np.int64), "is -1; expected 0, 1 or 2"),
        (lambda count: np.zeros(count + 1, np.int64), "6 elements; expected one for each of 5"),
        (lambda count: np.zeros(0, np.int64), "0 elements; expected one for each of 5"),
    ],
)
def test_a_wrong_answer_changes_nothing(
    compiler: Compiler, source: Path, answer: Any, words: str
) -> None:
    def policy(observation: Any, _context: mlbridge.CallContext) -> dict[str, Any]:
        return {"sizes": answer(len(observation["names"]))}

    plain = compiler.clang(source).object
    with serving(policy, compiler.folder) as uri:
        made = compiler.clang(source, model=uri)
    assert made.object == plain
    (warning,) = made.warnings
    assert words in warning


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"goal": "O2"}, "-hotness-goal: expected O2-speed, Os-size or Oz-size, got 'O2'"),
        ({"levels": "O2,O9"}, "-hotness-levels"),
        ({"deadline": "soon"}, "-hotness-deadline"),
    ],
)
def test_wrong_options_are_errors(
    compiler: Compiler, source: Path, settings: dict[str, str], words: str
) -> None:
    made = compiler.clang(source, model="function:speed", **settings)
    assert made.code == 1 and words in made.stderr


@pytest.fixture
def profdata(compiler: Compiler, source: Path) -> Path:
    """The profile of one run of the program."""
    folder = compiler.folder / "raw"
    program = compiler.folder / "counted"
    compiler.run("clang-22", "-O2", "-fprofile-generate", source, "-o", program)
    compiler.run(program, environment={"LLVM_PROFILE_FILE": str(folder / "app.profraw")})
    merged = compiler.folder / "app.profdata"
    compiler.run("llvm-profdata-22", "merge", folder / "app.profraw", "-o", merged)
    return merged


def test_a_profile_decides(compiler: Compiler, source: Path, profdata: Path) -> None:
    found = sizes(compiler, source, model=f"profile:{profdata}")
    assert (found["deep"], found["usage"], found["never"]) == ("speed", "smallest", "smallest")
    wanted = sizes(compiler, source, model=f"profile:{profdata}", goal="Oz-size")
    assert (wanted["deep"], wanted["never"]) == ("speed", "smallest")


def test_a_profile_of_another_program_changes_nothing(
    compiler: Compiler, source: Path, profdata: Path
) -> None:
    other = source.with_name("other.c")
    other.write_text("int a(int x) { return x * 3; }\nint b(int x) { return a(x) + a(x + 1); }\n")
    made = compiler.clang(other, model=f"profile:{profdata}")
    assert made.object == compiler.clang(other).object
    (warning,) = made.warnings
    assert "knows 0 of 2 functions; expected a profile of this program" in warning


def test_a_profile_in_which_nothing_ran(compiler: Compiler, source: Path, tmp_path: Path) -> None:
    text = tmp_path / "empty.txt"
    text.write_text(":ir\nmain\n1\n1\n0\n")
    merged = tmp_path / "empty.profdata"
    compiler.run("llvm-profdata-22", "merge", text, "-o", merged)
    made = compiler.clang(source, model=f"profile:{merged}")
    assert "nothing ran" in made.stderr and made.object == compiler.clang(source).object


def rows(compiler: Compiler, source: Path, *flags: str) -> dict[str, dict[str, float]]:
    """The features of each function, by its name."""
    folder = compiler.folder / "recorded"
    compiler.clang(source, *flags, model=f"function:speed?record={folder}").checked()
    columns = re.findall(r"X\((\w+)\)", FEATURES.read_text())
    (file,) = folder.iterdir()
    (asked,) = (r for r in Recording(file).records() if r.kind == "request")
    table = asked.tensors["functions"]
    assert table.shape[1] == len(columns)
    assert asked.fields["context"] == str(source)
    return {
        str(name): dict(zip(columns, map(float, row), strict=True))
        for name, row in zip(asked.tensors["names"], table, strict=True)
    }


FEATURES = Path(__file__).parents[1] / "features.h"


def test_what_a_model_learns_of_functions(compiler: Compiler, source: Path) -> None:
    found = rows(compiler, source)
    total, main, deep = found[f"{source};total"], found["main"], found["deep"]
    assert (total["loops"], total["deepest_loop"], total["internal"]) == (1, 1, 1)
    assert total["loads_in_loops"] == 1  # of p[i], which is squared
    assert (total["callers"], total["call_sites"], total["reductions"]) == (1, 1, 1)
    assert (main["is_main"], main["distance"], total["distance"]) == (1, 0, 1)
    assert (deep["recursive"], deep["self_calls"], main["recursive"]) == (1, 2, 0)
    assert found["usage"]["printing_calls"] == found["usage"]["ending_calls"] == 1
    assert found["usage"]["formats"] == 1 and found["usage"]["unlikely_calls"] == 1
    assert found["never"]["callers"] == 0 and main["module_functions"] == 5
    assert total["frequency_times_work"] > found["usage"]["frequency_times_work"]


def test_odd_modules(compiler: Compiler, tmp_path: Path) -> None:
    """Chains of calls of any length, recursion through everything, only declarations, an ifunc, an
    assembly with labels, a coroutine and exceptions."""
    count = 3000
    odd = {
        "declared.c": "int f(int); extern int g;",
        "one.c": "int f(int x) { return x + 1; }",
        "chain.c": "int f0(int x) { return x; }\n"
        + "".join(f"int f{n}(int x) {{ return f{n - 1}(x) + 1; }}\n" for n in range(1, count)),
        "ring.c": "".join(f"int f{n}(int);\n" for n in range(100))
        + "".join(
            f"int f{n}(int x) {{ return x ? f{(n + 1) % 100}(x - 1) + f{n * 7 % 100}(x) : 0; }}\n"
            for n in range(100)
        ),
        "labels.c": 'int f(int x) { asm goto("test %0, %0; jz %l1" :: "r"(x) :: out);'
        " return 1; out: return 2; }",
        "choice.c": "static int a(int x) { return x; }\n"
        "static void *choose(void) { return a; }\n"
        'int f(int) __attribute__((ifunc("choose")));',
        "thrown.cpp": "struct S { ~S(); int x; };\nint g(S &);\n"
        "int f(int x) { S s{x}; try { if (g(s) > 3) throw x; } catch (int y) { return y; }"
        " return g(s); }",
    }
    for name, text in odd.items():
        source = tmp_path / name
        source.write_text(text)
        for model in ("function:smallest", "function:frequencies"):
            made = compiler.clang(source, model=model).checked()
            assert not made.stderr, name


def test_the_linker_decides_anew(compiler: Compiler, source: Path, tmp_path: Path) -> None:
    objects = tmp_path / "main.lto.o"
    words = ["-O2", "-flto", *compiler.words(model="function:smallest")]
    compiler.run("clang-22", *words, "-c", source, "-o", objects)

    def linked(model: str) -> int:
        program = tmp_path / "linked"
        load = [f"-Wl,--load-pass-plugin={compiler.plugin}"]
        compiler.run(
            "clang-22",
            "-O2",
            "-flto",
            "-fuse-ld=lld",
            *load,
            objects,
            "-o",
            program,
            environment={"MLBRIDGE_HOTNESS_MODEL": model},
        )
        assert subprocess.run([program], capture_output=True, check=True, text=True).stdout
        return executable_bytes(program.read_bytes())

    assert linked("function:speed") > linked("function:smallest")


def test_remarks_say_what_is_compiled_for_what(compiler: Compiler, source: Path) -> None:
    with serving(naming("usage"), compiler.folder) as uri:
        made = compiler.clang(source, "-Rpass=hotness", model=uri)
    assert made.remarks("compiled for the smallest size, as at -Oz") == 1


def test_opt_too(compiler: Compiler, source: Path, tmp_path: Path) -> None:
    ir = tmp_path / "main.ll"
    front = ["-O2", "-Xclang", "-disable-llvm-passes", "-S", "-emit-llvm"]
    compiler.run("clang-22", *front, source, "-o", ir)
    load = [f"-load-pass-plugin={compiler.plugin}", "-hotness-model=function:smallest"]
    for passes in ("default<O2>", "mlbridge-hotness"):
        made = compiler.run("opt-22", *load, f"-passes={passes}", "-S", ir, "-o", "-").stdout
        assert "minsize" in made


def test_two_compilations_decide_alike(compiler: Compiler, source: Path) -> None:
    model = "function:random?share=0.5&seed=3"
    first = compiler.clang(source, model=model).object
    assert compiler.clang(source, model=model).object == first
