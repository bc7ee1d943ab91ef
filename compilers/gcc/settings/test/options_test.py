# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A setting changes what GCC chooses by itself, and nothing that the command line says.

A second plugin (options_in_force.cpp) writes the options that are in force in each function. Every
option that gcc-12 lists is tried: a function with a setting has the value of the command line, or,
of options that the setting's level decides, the one that it has with the setting's options on the
command line.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from building import attempt, run
from sampling import nightly
from settings_programs import SETTINGS, network

from mlbridge import files

PLUGIN = files.gcc_plugin("gcc_settings")
HERE = Path(__file__).parent
#: No headers, which other targets lack; `own` and `later` have options of the source's.
PROGRAM = """
int printf(const char *, ...);
int __attribute__((noipa)) change(int *i, float *f) { *i = 1; *f = 0.0f; return *i; }
double __attribute__((noipa)) sum(const double *x, int n) {
  double s = 0;
  for (int i = 0; i < n; ++i) s += x[i] * x[i] + 1 / x[i];
  return s;
}
int __attribute__((noipa, optimize("wrapv"))) own(int x) { return x + 1 > x; }
int __attribute__((noipa, target("sse3"))) aimed(int x) { return printf("%d", x); }
int main(void) {
  double x[4] = {1, 2, 3, 4};
  int i;
  return change(&i, (float *)&i) + (int)sum(x, 4) + own(i) + aimed(i);
}
#pragma GCC optimize("no-tree-pre", "O1")
int __attribute__((noipa)) later(int x) { return x * 5; }
"""
ASKED = {"change", "sum", "aimed", "main"}
#: As the README lists them.
MEANS = {
    "size": ["-Os"],
    "speed": ["-O3"],
    "inline-less": ["-fno-inline-small-functions", "-fno-inline-functions-called-once"],
    "inline-more": ["-finline-functions", "--param=max-inline-insns-auto=60"],
    "unroll": ["-funroll-loops"],
    "keep-loops": ["-fno-tree-vectorize", "-fno-peel-loops", "--param=max-completely-peel-times=1"],
}
#: On each of them GCC's attribute optimize("Os"), or the level, has something to reset.
KNOWN = [
    "-fno-strict-aliasing",
    "-fwrapv -fwrapv-pointer",
    "-ftrapv",
    "-fno-delete-null-pointer-checks",
    "-ffast-math",
    "-funsafe-math-optimizations -fno-signed-zeros -fno-trapping-math -fassociative-math",
    "-ffinite-math-only -freciprocal-math -fcx-limited-range -fno-math-errno",
    "-frounding-math -fsignaling-nans -ffp-contract=off -fexcess-precision=standard",
    "-fno-builtin -fno-common -fnon-call-exceptions",
    "-fsanitize=address,undefined -fno-sanitize-recover",
    "-mno-sse3 -mtune=atom -mno-red-zone",
    "-m32 -mno-sse",
    "-m32 -mfpmath=387 -fomit-frame-pointer",
    "-march=haswell -mprefer-vector-width=256 -mcmodel=large",
    "-fstack-protector-strong -fno-omit-frame-pointer",
    "-fcf-protection=full -fstack-clash-protection",
    "-fpatchable-function-entry=4,2 -pg -mfentry",
    "-fprofile-generate -fprofile-update=atomic",
    "-fprofile-use -Wno-missing-profile",
    "-fno-inline -fno-ipa-cp -fno-ipa-icf -fno-optimize-sibling-calls -fno-jump-tables",
    "-fno-tree-vectorize",
    "-ftree-vectorize",
    "-fvect-cost-model=unlimited -fsimd-cost-model=unlimited",
    "-falign-functions=64 -falign-loops=32 -fno-align-jumps",
    "-fno-align-functions -fno-optimize-strlen",
    "-ftree-parallelize-loops=2 -floop-nest-optimize",
    "-fopenmp -fopenacc",
    "-flto -ffat-lto-objects",
    "-g -fvar-tracking-assignments-toggle",
    "-fselective-scheduling2 -fvar-tracking-assignments -g -Werror",
    "-fsplit-stack -freorder-blocks-and-partition",
    "-flive-patching=inline-clone",
    "-fno-toplevel-reorder -fno-unit-at-a-time",
    "-funroll-all-loops -fno-web",
    "-fprefetch-loop-arrays -fno-peel-loops",
    "--param=min-crossjump-insns=3 --param=max-inline-insns-auto=7",
    "-fconserve-stack",
    "-fPIC -fno-semantic-interposition",
    "-fPIE -fvisibility=hidden",
]
LEVELS = ["-O2", "-O3", "-Os", "-Ofast", "-O1"]

Values = dict[str, dict[str, str]]


@dataclass
class Witness:
    plugin: Path
    folder: Path

    def values(self, *words: str) -> Values | str:
        """Every option's value in each function, or what GCC says if it refuses."""
        out = self.folder / "values"
        command = ["gcc-12", "-w", *words, f"-fplugin={self.plugin}"]
        command += [f"-fplugin-arg-{self.plugin.stem}-file={out}", "-c", "program.c"]
        done = attempt(*command, "-o", "made.o", cwd=self.folder, timeout=100)
        if done.returncode != 0:
            return done.stderr
        assert done.stderr == "" or "gcc-settings" not in done.stderr, done.stderr
        found: Values = {}
        for line in out.read_text().splitlines():
            name, _, rest = line.partition("\t")
            if name:
                function = found.setdefault(name, {})
            else:
                option, _, value = rest.partition("\t")
                if option != "-o":
                    function[option] = value
        return found


@pytest.fixture
def witness(shared_build: Callable[[str, Callable[[Path], None]], Path], tmp_path: Path) -> Witness:
    def build(folder: Path) -> None:
        headers = Path(run("gcc-12", "-print-file-name=plugin").strip()) / "include"
        run(
            *("g++", "-std=c++17", "-O0", "-fno-rtti", "-fno-exceptions", "-fPIC", "-shared"),
            *(f"-isystem{headers}", HERE / "options_in_force.cpp"),
            *("-o", folder / "witness.so"),
        )

    (tmp_path / "program.c").write_text(PROGRAM)
    return Witness(shared_build("options-in-force", build) / "witness.so", tmp_path)


def listed() -> list[str]:
    """Each option that gcc-12 lists, with another value than it has at -O2."""
    text = run(
        *("gcc-12", "-O2", "-Q", "--help=optimizers", "--help=common", "--help=target"),
        "--help=params",
    )
    found: dict[str, None] = {}
    for line in text.splitlines():
        words = line.split()
        if not words or not words[0].startswith("-"):
            continue
        option, value = words[0], words[-1]
        choices = re.search(r"=\[([^]]+)\]$", option)
        limits = re.search(r"=<(-?\d+),(-?\d+)>$", option)
        if choices:
            name = option[: choices.start()]
            other = [word for word in choices[1].split("|") if word != value]
            found[f"{name}={other[len(found) % len(other)]}"] = None
        elif limits:
            name = option[: limits.start()]
            found[f"{name}={next(limit for limit in limits.groups() if limit != value)}"] = None
        elif option.startswith("--param=") and value.isdigit():
            found[f"{option.partition('=<')[0].rstrip('=')}={int(value) + 1}"] = None
        elif value == "[enabled]" and option.startswith(("-f", "-m")):
            found[option[:2] + "no-" + option[2:]] = None
        elif value == "[disabled]" and option.startswith(("-f", "-m")):
            found[option] = None
    return list(found)


def compare(witness: Witness, level: str, line: Sequence[str], setting: str) -> str:
    """What became of a command line: held, or why it was not compared. Asserts the rest."""
    # -Ofast is -O3 and options of its own, which no setting takes away.
    plain = "-O3" if level == "-Ofast" else level
    model = network(witness.folder / "always.onnx", SETTINGS.index(setting))
    stock = witness.values(level, *line)
    if isinstance(stock, str):
        return "refused"
    before = stock if plain == level else witness.values(plain, *line)
    after = witness.values(plain, *MEANS[setting], *line)
    if isinstance(before, str) or isinstance(after, str):
        return "refused with the setting's options on the command line"
    flags = [f"-fplugin={PLUGIN}"]
    for told in (f"model=native:{model}", "levels=O1,O2,O3,Os", "on-failure=fail"):
        flags.append(f"-fplugin-arg-gcc_settings-{told}")
    changed = witness.values(level, *line, *flags)
    assert not isinstance(changed, str), (level, line, setting, changed)
    assert stock.keys() == changed.keys()
    if any("-fprofile-generate" in word or "-fprofile-use" in word for word in line):
        assert changed == stock
        return "left alone"
    for function in stock:
        for option, value in changed[function].items():
            if value == stock[function][option]:
                continue
            about = (level, *line, setting, function, option, stock[function][option], value)
            assert function in ASKED, about
            if level == "-O1" and setting in ("size", "speed"):
                assert option == "level" or stock[function][option] != "0", about
            assert before[function][option] != after[function][option], about
            if option != "level":
                assert value == after[function][option], about
    differ = any(changed[name] != stock[name] for name in ASKED & stock.keys())
    return "changed" if differ else "the same"


def lines(chance: random.Random, count: int | None) -> Iterator[tuple[str, list[str], str]]:
    """Command lines: what is known to be difficult, and every option; some of them if asked."""
    settings = [*MEANS, *["size"] * 5]
    known = [line.split() for line in KNOWN]
    every = [[option] for option in listed()]
    if count is not None:
        known, every = chance.sample(known, count), chance.sample(every, count)
    for line in known:
        levels = LEVELS if count is None else [chance.choice(LEVELS)]
        for level in levels:
            yield level, line, chance.choice(["size", "size", "speed"])
    for line in every:
        yield chance.choice(LEVELS), line, chance.choice(settings)


@pytest.mark.parametrize("count", [4, nightly(None)])
def test_a_setting_keeps_the_options_of_the_command_line(
    witness: Witness, count: int | None
) -> None:
    became = Counter(compare(witness, *line) for line in lines(random.Random(0), count))
    print(dict(became))
    assert became["changed"] >= (3 if count else 500)


@pytest.mark.parametrize("line", ["-fno-strict-aliasing", "-ffast-math", "-fwrapv"])
@pytest.mark.parametrize("setting", ["size", "speed"])
def test_options_that_say_what_the_program_means(witness: Witness, line: str, setting: str) -> None:
    level = "-Os" if setting == "speed" else "-O2"
    assert compare(witness, level, [line], setting) == "changed"


def test_a_level_without_strict_aliasing_gets_none(witness: Witness) -> None:
    assert compare(witness, "-O1", [], "size") == "changed"
    stock = witness.values("-O1")
    assert not isinstance(stock, str) and stock["change"]["-fstrict-aliasing"] == "0"


def test_pointers_to_the_same_bytes(tmp_path: Path) -> None:
    """Run: the store to *f must not be moved after the read of *i."""
    (tmp_path / "program.c").write_text(
        "int __attribute__((noipa)) test(int *i, float *f) { *i = 1; *f = 0.0f; return *i; }\n"
        "int (*volatile call)(int *, float *) = test;\n"
        "int main(void) { union { int i; float f; } u; return call(&u.i, (float *)&u.i); }\n"
    )
    model = network(tmp_path / "size.onnx", SETTINGS.index("size"))
    flags = [f"-fplugin={PLUGIN}", f"-fplugin-arg-gcc_settings-model=native:{model}"]
    for words in ([], flags):
        run("gcc-12", "-O2", "-fno-strict-aliasing", *words, "program.c", cwd=tmp_path)
        run(tmp_path / "a.out")


@pytest.mark.parametrize("instrumented", [True, False])
def test_a_profile_fits_also_if_it_was_made_without_the_plugin(
    tmp_path: Path, instrumented: bool
) -> None:
    (tmp_path / "program.c").write_text(
        "static int g(int x) { return x & 1 ? x * 3 : x + 7; }\n"
        "static int h(int x) { return x % 3 ? g(x) + 1 : g(x + 2) * 2; }\n"
        "int k(int x) { return x > 5 ? h(x) : g(x) + h(x + 1); }\n"
        "int main(int c, char **v) { (void)v; int s = c > 3 ? k(c) : h(c) + g(c);\n"
        "  if (s & 4) s += k(s + 1); return s + k(9) == 0; }\n"
    )
    model = network(tmp_path / "size.onnx", SETTINGS.index("size"))
    flags = [f"-fplugin={PLUGIN}", f"-fplugin-arg-gcc_settings-model=native:{model}"]
    first, second = ([], flags) if instrumented else (flags, [])
    run("gcc-12", "-O2", *first, "-fprofile-generate", "-c", "program.c", cwd=tmp_path)
    run("gcc-12", "-fprofile-generate", "program.o", cwd=tmp_path)
    run(tmp_path / "a.out", cwd=tmp_path)
    run("gcc-12", "-O2", *second, "-fprofile-use", "-c", "program.c", cwd=tmp_path)


@pytest.mark.parametrize("option", ["functions", "loops"])
def test_a_stated_alignment_stays(tmp_path: Path, option: str) -> None:
    """-Os, and so a function for size, has none."""
    (tmp_path / "program.c").write_text(
        "void g(int);\nvoid f(int n) { for (int i = 0; i < n; ++i) g(i); }\n"
        "int h(int n) { g(n); return n + 1; }\n"
    )
    model = network(tmp_path / "size.onnx", SETTINGS.index("size"))
    flags = [f"-fplugin={PLUGIN}", f"-fplugin-arg-gcc_settings-model=native:{model}"]
    objects = []
    for words in ([], [f"-falign-{option}=64"], [f"-fno-align-{option}"]):
        for more in ([], flags):
            run("gcc-12", "-O2", *words, *more, "-c", "program.c", cwd=tmp_path)
            objects.append((tmp_path / "program.o").read_bytes())
    assert objects[2] == objects[3]
    assert objects[0] != objects[1] and objects[4] != objects[5]
