# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge validate` on small programs with the real compiler: right and wrong policies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pages import Page

import mlbridge
from mlbridge import files
from mlbridge.cli import main

SEQUENCE = "function:sequence?actions=31,5,22"
MAKEFILE = """\
prog: main.o sum.o
\t$(CC) $(CFLAGS) -o $@ main.o sum.o
"""
MAIN = """\
#include <stdio.h>
int sum(const int *values, int count);
int main(int argc, char **argv) {
  int values[] = {3, 1, 4, 1, 5};
  FILE *out = fopen("out", "w");
  fprintf(out, "%d\\n", sum(values, 5) + argc);
  fclose(out);
  puts(argv[0]);
  return 0;
}
"""
SUM = """\
int sum(const int *values, int count) {
  int total = 0;
  for (int i = 0; i < count; ++i)
    total += values[i];
  return total;
}
"""
# Stock clang concludes that the condition holds, as an int does not overflow. A policy that stops
# at once leaves the addition, which gives INT_MIN.
OVERFLOW = "__attribute__((noinline)) static int grows(int x) { return x + 1 > x; }\n"

ALIKE = """\
#include <stdio.h>
#define ALIKE(name, text) \\
  __attribute__((noinline)) void name(const int *v, int n) { \\
    printf(text " %d %d %d %d\\n", v[0] * n, v[1] * n, v[2] / n, v[3] + n); \\
  }
ALIKE(one, "a") ALIKE(two, "b") ALIKE(three, "c") ALIKE(four, "d")
int sum(const int *values, int count) {
  one(values, count), two(values, count), three(values, count), four(values, count);
  return values[0];
}
"""


class Tree:
    """A source tree, and what validating it said."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        self.write({"Makefile": MAKEFILE, "main.c": MAIN, "sum.c": SUM})
        self.report: dict[str, Any] = {}

    def write(self, files: dict[str, str]) -> None:
        self.folder.mkdir(exist_ok=True)
        for name, text in files.items():
            (self.folder / name).write_text(text)

    def validate(self, *words: str, model: str = SEQUENCE, build: str = "make") -> tuple[str, str]:
        """What is printed, and the problems, if any, without the name of the command."""
        report = self.folder.parent / "report.json"
        command = ["validate", "phase-ordering", "--model", model, "--repeat", "2"]
        command += ["--tree", str(self.folder), "--json", str(report), *words, "--", build]
        code = main(command)
        self.report = json.loads(report.read_text()) if report.exists() else {}
        out, err = self._capsys.readouterr()
        lines = err.splitlines()
        assert code == bool(lines), (code, err)
        assert all(line.startswith("mlbridge validate: ") for line in lines)
        return out, err.replace("mlbridge validate: ", "")


@pytest.fixture
def tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Tree:
    return Tree(tmp_path / "tree", capsys)


def listing(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_policy_that_is_right(tree: Tree, tmp_path: Path) -> None:
    before = listing(tree.folder)
    chart, html = tmp_path / "chart.png", tmp_path / "report.html"
    words: tuple[str, ...] = ("--run", "./prog 1 2 $\\x$", "--output", "out", "--chart", str(chart))
    words += ("--report", str(html))
    out, problems = tree.validate(*words)
    assert problems == ""
    assert listing(tree.folder) == before  # out of the user's way
    (program,) = tree.report["programs"]
    sizes = {one["path"]: one for one in program["objects"]}
    assert set(sizes) == {"main.o", "sum.o"}
    for number, way in enumerate(("baseline", "policy")):
        total = sum(one[f"{way}_bytes"] for one in sizes.values())
        assert program[f"{way}_bytes"] == total > 0
        assert len(program[f"{way}_seconds"]) == 2
        assert str(total) in out.splitlines()[1].split()[3 + number]
    assert (program["modules"], program["decisions"], program["fallbacks"]) == (2, 8, 0)
    assert program["size"]["count"] == 2 and program["compile"]["count"] == 2
    (run,) = program["runs"]
    assert run["code"] == 0 and run["ratio"]["count"] == 2
    assert tree.report["unit"] == "object" and tree.report["problems"] == []
    assert chart.read_bytes().startswith(b"\x89PNG")
    page = Page(html)
    assert program["size"]["mean"] in page.numbers and program["baseline_seconds"][0] in [
        row["value"] for row in page.values("s3-1")
    ]
    functions = {row["function"] for row in page.values("s4-1")}
    assert {"main", "sum"} <= functions
    assert "8 decisions" in page.text


def test_the_clock_compares_times(tree: Tree, tmp_path: Path) -> None:
    words = ("--run", "./prog 1 2", "--run", "pwd; ./prog > log", "--output", "out")
    out, problems = tree.validate(*words, "--time", "10ms", "--work", str(tmp_path / "work"))
    assert problems == ""
    (program,) = tree.report["programs"]
    for run in program["runs"]:
        timing = run["timing"]
        assert run["ratio"] == timing["ratios"]["policy"] and run["ratio"]["count"] >= 8
        assert timing["differences"] == {} and timing["baseline"] == "baseline"
        assert timing["repeat"]["count"] >= 8 and len(run["policy_seconds"]) == 2
    lines = [line.split() for line in out.splitlines()]
    head = next(number for number, words in enumerate(lines) if words[:1] == ["timed"])
    assert [words[0] for words in lines[head + 1 : head + 4]] == ["./prog", "pwd;", "all"]
    # Both trees are where they are kept.
    kept = tmp_path / "work" / "0-tree"
    assert {"baseline", "policy"} <= {p.name for p in kept.iterdir()}
    assert not (kept / "tree").exists()


def test_outputs_that_change_while_times_are_compared(tree: Tree) -> None:
    text = "echo x >> seen; [ $(wc -l < seen) -lt 5 ] || exit 1"
    _, problems = tree.validate("--run", text, "--time", "10ms")
    assert "while `echo x" in problems and "ended with [1], and before that with [0]" in problems


def test_sizes_are_those_of_the_compiler(tree: Tree, tmp_path: Path) -> None:
    tree.validate("--work", str(tmp_path / "work"))
    kept = tmp_path / "work" / "0-tree"
    command = ["clang-22", "-Oz", "-c", str(tree.folder / "sum.c"), "-o", f"{tmp_path}/sum.o"]
    subprocess.run(command, check=True, timeout=60)
    for name, compiled in (("baseline", True), ("policy", False)):
        same = (kept / name / "sum.o").read_bytes() == (tmp_path / "sum.o").read_bytes()
        assert same == compiled
    assert list((kept / "policy.decisions").glob("*.mlbrec"))


def test_at_a_level_where_the_code_is_the_same_all_objects_are_identical(tree: Tree) -> None:
    actions = tree.folder.parent / "actions.json"
    one = {"name": "o2", "passes": "default<O2>"}
    actions.write_text(json.dumps({"version": 1, "actions": [one]}))
    model = f"function:sequence?actions=0&list={actions}"
    _, problems = tree.validate("--level", "O2", model=model)
    assert problems == ""
    assert tree.report["programs"][0]["identical"] == 2
    assert tree.report["size"] == {"mean": 1, "low": 1, "high": 1, "count": 2}


@pytest.mark.parametrize(
    "flags", ["", "-g", "-ffunction-sections", "-fno-pic -no-pie", "-mcmodel=medium"]
)
def test_with_an_effort_no_object_is_larger(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, flags: str
) -> None:
    """The flags of the user's own $CFLAGS hold for both builds."""
    monkeypatch.setenv("CFLAGS", flags)
    candidates = f"candidates:{files.shipped_candidates('phase-ordering-size')}"
    _, problems = tree.validate("--effort", "3", "--run", "./prog", model=candidates)
    assert problems == "" and tree.report["effort"] == 3
    (program,) = tree.report["programs"]
    assert program["decisions"] == 2 * 3 and program["fallbacks"] == 0
    assert all(one["policy_bytes"] <= one["baseline_bytes"] for one in program["objects"])


def test_a_larger_object_is_a_problem_where_there_must_be_none(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, problems = tree.validate(model="function:sequence?actions=20")
    assert problems == "" and tree.report["programs"][0]["total_ratio"] > 1
    monkeypatch.setattr("mlbridge.cli.validate.is_never_larger", lambda _: True)
    _, problems = tree.validate(model="function:sequence?actions=20")
    assert "sum.o is larger: " in problems and "executable bytes" in problems


@pytest.mark.parametrize("words", [["smallest"], ["phase-ordering", "--lto", "thin"]])
def test_programs_are_compared_where_lld_optimizes(
    tree: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    report = tmp_path / "report.json"
    tree.write({"sum.c": ALIKE})
    more = ["--tree", str(tree.folder), "--repeat", "1", "--run", "./prog", "--json", str(report)]
    assert main(["validate", *words, *more, "make"]) == 0, capsys.readouterr()
    assert " linked " in capsys.readouterr().out
    found = json.loads(report.read_text())
    (program,) = found["programs"]
    assert found["lto"] == ("thin" if "thin" in words else "full")
    assert [one["path"] for one in program["objects"]] == ["prog"]
    assert program["policy_bytes"] < program["baseline_bytes"]  # which is linked by lld as well
    assert program["decisions"] > 0 and program["runs"][0]["problem"] == ""
    assert main(["validate", *words, *more[:4], "--", "clang-22 -c sum.c"]) == 1
    assert "no new executable or shared object in its copy of the tree" in capsys.readouterr().err


def test_a_policy_whose_program_prints_something_else(tree: Tree) -> None:
    tree.write(
        {
            "main.c": '#include <limits.h>\n#include <stdio.h>\n#include "sum.c"\n' + OVERFLOW
            + 'int main(int n, char **v) { printf("sum\\n%d\\n", grows(INT_MAX - 1 + n)); }\n',
            "sum.c": "",
        }
    )  # fmt: skip
    assert tree.validate("--run", "./prog")[1] == ""  # group 5 combines as the stock pipeline does
    out, problems = tree.validate("--run", "./prog", "--run", "true", model="function:stop")
    assert problems == "`./prog`: stdout differs with the policy: line 2, '1' became '0'\n"
    assert "WRONG" in out
    assert [bool(run["problem"]) for run in tree.report["programs"][0]["runs"]] == [True, False]


def test_exit_codes_and_files_are_compared(tree: Tree) -> None:
    text = '#include <stdio.h>\n#include "sum.c"\n' + OVERFLOW
    text += "int main(int n, char **v) { int right = grows(2147483647 - n + n);\n"
    text += 'if (n == 2 && right) fclose(fopen("made", "w"));\n'
    text += "return n == 2 || right ? 0 : 7; }\n"
    tree.write({"main.c": text, "sum.c": ""})
    words = ("--run", "./prog", "--run", "./prog x", "--output", "made")
    _, problems = tree.validate(*words, model="function:stop")
    assert problems.splitlines() == [
        "`./prog`: exit code differs with the policy: 0 became 7",
        "`./prog x`: made differs with the policy: a file became no file",
    ]


def test_a_hang_with_the_policy_alone(tree: Tree) -> None:
    text = OVERFLOW + "int main(int n, char **v) { while (!grows(2147483646 + n)); return 0; }\n"
    tree.write({"main.c": '#include "sum.c"\n' + text, "sum.c": ""})
    assert tree.validate("--run", "./prog")[1] == ""
    _, problems = tree.validate("--run", "./prog", "--timeout", "5s", model="function:stop")
    assert problems == "with the policy: `./prog` did not end within 5 s\n"


def test_a_build_that_fails_only_with_the_policy(tree: Tree) -> None:
    actions = tree.folder.parent / "actions.json"
    passes = "internalize,globaldce"  # removes what no function of the same file calls
    actions.write_text(json.dumps({"version": 1, "actions": [{"name": "wrong", "passes": passes}]}))
    _, problems = tree.validate(model=f"function:sequence?actions=0&list={actions}")
    assert problems.startswith("the build fails only with the policy: `make` ended with 2: ")
    assert "undefined reference to `" in problems


@pytest.mark.parametrize(
    ("build", "words", "says"),
    [
        ("mkae", (), "`mkae` ended with 127: /bin/sh: 1: mkae: not found"),
        ("make nothing", (), "`make nothing` ended with 2: make: *** No rule"),
        ("true", (), "`true` left no new object file in its copy of the tree"),
        ("sleep 600", ("--timeout", "500ms"), "`sleep 600` did not end within 0.5 s"),
        ("make", ("--prepare", "exit 4"), "`exit 4` ended with 4: it said nothing"),
        ("make", ("--run", "./prgo"), "`./prgo`: can't be run (127): /bin/sh: 1: ./prgo: not"),
        ("make", ("--run", "true", "--output", "x"), "no command wrote the file x, which was"),
        ("make CC=clang-22", (), "the model was never asked: the build does not use $CC and $CXX"),
        ("make", ("--run", "date +%s%N"), "stdout differs from run to run of the baseline; it"),
        ("make; echo > main.o; echo 'void f(){}' | $CC -c -x c - -o x.o; printf '\\177ELF\\2\\1"
         "zzzzzzzzzz\\1\\0' > main.o", (), "main.o: 18 bytes, an ELF header has 64"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_one_clear_line(
    tree: Tree, build: str, words: tuple[str, ...], says: str
) -> None:
    _, problems = tree.validate(*words, build=build)
    assert says in problems and problems.count("\n") == 1


def test_a_tree_that_is_built_already(tree: Tree) -> None:
    subprocess.run(["make", "-s", "-C", tree.folder], check=True, timeout=60)
    _, problems = tree.validate()
    assert "left no new object file in its copy of the tree (2 were there before; clean" in problems
    (tree.folder / "sum.o").unlink()
    out, problems = tree.validate()
    assert problems == "" and "note: tree: 1 objects were there before" in out


def test_a_model_that_fails_is_no_success(tree: Tree, tmp_path: Path) -> None:
    def fails(observation: object, context: mlbridge.CallContext) -> int:
        raise ValueError("no idea")

    with mlbridge.Server(f"unix:{tmp_path}/policy", None) as server:
        thread = threading.Thread(target=server.serve_forever, args=(fails,))
        thread.start()
        try:
            _, problems = tree.validate(model=server.address)
        finally:
            server.stop()
            thread.join()
    assert problems == "the model failed for 2 of 2 modules, which are plain clang's\n"
    assert tree.report["programs"][0]["identical"] == 2


def test_what_the_configure_step_compiles_is_not_counted(tree: Tree) -> None:
    prepare = "echo 'int x(void) { return 1; }' > probe.c && $CC $CFLAGS -c probe.c"
    _, problems = tree.validate("--prepare", prepare)
    assert problems == ""
    (program,) = tree.report["programs"]
    assert (len(program["objects"]), program["modules"]) == (2, 2)


def test_several_trees_count_once_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (Tree(tmp_path / name, capsys) for name in ("a", "b c"))
    second.write({"sum.c": SUM.replace("+=", "^=")})
    out, problems = first.validate("--tree", str(second.folder), "--run", "./prog >&2")
    assert problems == ""
    assert [one["name"] for one in first.report["programs"]] == ["a", "b c"]
    assert first.report["unit"] == "program" and first.report["size"]["count"] == 2
    assert sum(line.startswith(("a ", "b c ", "all ")) for line in out.splitlines()) == 3
    second.write({"main.c": "broken"})
    _, problems = first.validate("--tree", str(second.folder))
    assert problems.startswith("b c: `make` ended with 2: main.c:1:1: error:")
    assert len(first.report["programs"][0]["objects"]) == 2
    assert "objects" not in first.report["programs"][1]


def test_names_that_no_terminal_and_no_encoding_can_show(tree: Tree) -> None:
    name = os.fsdecode(b"n\xff\x1b[31m\n.o")
    (tree.folder / "build.sh").write_text(f"make && cp sum.o '{name}'\n", errors="surrogateescape")
    out, problems = tree.validate(build="sh build.sh")
    assert problems == "" and "\x1b" not in out
    names = [one["path"] for one in tree.report["programs"][0]["objects"]]
    assert os.fsencode(names[1]) == b"n\xff\x1b[31m\n.o"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--chart", "chart.xyz", "--", "make"], 2, "--chart: chart.xyz ends in none of .jpeg, "),
        (["--output", "f", "--", "make"], 2, "add --run COMMAND"),
        (["--time", "1s", "--", "make"], 2, "the times of commands; add --run COMMAND"),
        (["--repeat", "0", "--", "make"], 2, "--repeat: expected a number of at least 1"),
        (["--timeout", "0s", "--", "make"], 2, "--timeout: expected a time such as 5s"),
        (["--level", "O9", "--", "make"], 2, "--level: invalid choice"),
        ([], 2, "required: COMMAND"),
        (["make", "-j2"], 2, "arguments: -j2; a command that has options of its own follows --"),
        (["mlir-tiling", "--", "make"], 2, "mlir-tiling has no builds of programs to compare: it"),
        (["inlner", "--", "make"], 2, "no optimization 'inlner'; did you mean 'inliner'?"),
        (["--tree", "/no/such", "--", "make"], 1, "/no/such is no folder; expected a source tree"),
        (["--work", "copies", "--tree", ".", "--", "make"], 1, "choose a folder outside"),
        (["--json", "/no/such/r.json", "--", "make"], 1, "--json: /no/such/r.json can't be writ"),
        (["--model", "function:none", "--", "make"], 1, "can't ask the model"),
        (["--compiler", "no-such-cc", "--", "make"], 1, "there is no command no-such-cc"),
    ],
)
def test_a_wrong_command_line_is_refused_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    words: list[str], code: int, says: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    command = ["validate", "phase-ordering", "--model", SEQUENCE, *words]
    assert main(command) == code
    out, err = capsys.readouterr()
    assert out == "" and says in err and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_signal_ends_it_and_leaves_nothing(tree: Tree, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    command = [sys.executable, "-m", "mlbridge", "validate", "phase-ordering", "--model", SEQUENCE]
    process = subprocess.Popen(
        [*command, "--tree", tree.folder, "--", f"exec 3> {fifo}; echo begun >&3; sleep 600"],
        env={**os.environ, "TMPDIR": str(scratch)},
        stderr=subprocess.PIPE,
        text=True,
    )
    with fifo.open("rb") as pipe:
        assert pipe.readline() == b"begun\n"
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=60)[1] == "mlbridge validate: interrupted\n"
        assert pipe.read() == b""  # the build is dead
    assert process.returncode == 130
    assert list(scratch.iterdir()) == []


HOT = """\
float a[1024], b[1024], c[1024];
int p[1024];
__attribute__((noinline)) static int step(int x) { return x * 3 + 1; }
int sum(const int *values, int count) {
  int total = 0, all[14] = {0};
  for (int i = 4; i < 1024; ++i) {
    a[i] = a[i - 4] * .5f + b[i];
    p[i] = p[i - 1] + i;
    c[i] = b[i] + 1;
  }
  for (int i = 0; i < count; ++i)
    for (int k = 0; k < 14; ++k)
      all[k] += values[i] * (all[(k + 5) % 14] + k);
  for (int k = 0; k < 14; ++k)
    total ^= all[k];
  return step(total) + p[77];
}
"""
#: For each optimization: where it acts, and a model if none is shipped.
OTHERS = {
    "inliner": "Oz",
    "regalloc-eviction": "O2",
    "register-allocation": "O2",
    "loop-distribution": "O3",
    "polly-tiling": "O3",
    "gcc-settings": "O2",
}


@pytest.mark.parametrize("optimization", OTHERS)
def test_every_optimization(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], optimization: str
) -> None:
    """By the shipped model, at the level where it acts, whatever the order of the words."""
    tree = Tree(tmp_path / "tree", capsys)
    tree.write({"sum.c": HOT})
    report = tmp_path / "report.json"
    words = ["validate", "--repeat", "1", optimization, "--tree", str(tree.folder), "make"]
    code = main([*words, "--run", "./prog", "--json", str(report)])
    out, err = capsys.readouterr()
    if "the model was never asked" not in err:  # about this program, by its own judgement
        assert (code, err) == (0, "")
    found = json.loads(report.read_text())
    assert found["level"] == OTHERS[optimization]
    assert list(found["models"]) == [optimization]
    (program,) = found["programs"]
    assert program["fallbacks"] == 0
    assert (program["decisions"] > 0) == (code == 0)
    assert ("spills" in out) == ("reg" in optimization) == ("spills" in program)
    assert ("gcc" in found["compiler"]) == (optimization == "gcc-settings")
    assert program["runs"][0]["problem"] == ""


def test_several_optimizations_with_models_of_their_own(
    tree: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options between names; a second program whose model is for another question."""
    report = tmp_path / "report.json"
    words = ["validate", "loop-distribution", "--model", "loop-distribution=function:always"]
    words += ["register-allocation", "--model", "register-allocation=function:heuristic"]
    words += ["--level", "O3", "--tree", str(tree.folder), "--repeat", "1", "--effort", "0"]
    tree.write({"sum.c": HOT})
    assert main([*words, "--json", str(report), "--", "make", "prog"]) == 0, capsys.readouterr()
    found = json.loads(report.read_text())
    assert list(found["models"]) == ["loop-distribution", "register-allocation"]
    assert found["programs"][0]["decisions"] > 10
    spills = found["programs"][0]["spills"]
    assert spills["baseline"] > 0 and spills["policy"] > 0


def test_a_model_of_another_optimization_that_fails(
    tree: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    socket = f"unix:{tmp_path}/nobody"
    words = ["validate", "loop-distribution", "--model", f"{socket}?deadline=50ms"]
    assert main([*words, "--tree", str(tree.folder), "make"]) == 1
    assert "the model can't be opened: " in capsys.readouterr().err
