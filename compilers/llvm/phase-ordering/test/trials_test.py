# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Candidates are compared with the stock pipeline: no object is larger, and nothing goes wrong."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from sampling import nightly
from stock import BOTH, ONLY_19, SOURCES, Compiler

LEVERS = ["apply-ext-tsp-for-size", "disable-machine-licm", "disable-lsr"]
SMALL: dict[str, Any] = {"name": "small", "passes": "default<Os>,mergefunc", "options": LEVERS}
AFTER: dict[str, Any] = {
    "name": "after",
    "passes": "function(simplifycfg),mergefunc",
    "after_stock": True,
    "options": LEVERS,
}
#: Smaller by its passes alone.
INLINED: dict[str, Any] = {
    "name": "inlined",
    "passes": "default<Os>",
    "options": ["inline-threshold=40"],
}
LARGE: dict[str, Any] = {"name": "large", "passes": "no-op-module"}
CRASH: dict[str, Any] = {"name": "crash", "passes": "trigger-crash-module"}
EXAMPLES = ("words.c", "library.cpp", "shapes.c")


def candidates(compiler: Compiler, *ways: dict[str, Any]) -> str:
    """The URI of a list."""
    path = compiler.folder / "list.json"
    path.write_text(json.dumps({"version": 1, "candidates": ways}))
    return f"candidates:{path}"


def code(compiler: Compiler, made: bytes) -> int:
    """Bytes of executable sections."""
    path = compiler.folder / "measured.o"
    path.write_bytes(made)
    said = compiler.run("llvm-readelf", "-SW", path).stdout
    sections = [line.rpartition("]")[2].split() for line in said.splitlines() if " AX" in line]
    return sum(int(words[4], 16) for words in sections)


KINDS_OF_CODE = [
    "",
    "-g",
    "-ffunction-sections",
    "-fno-pic",
    "-mcmodel=medium",
    "-fsanitize=undefined",
    "-fprofile-instr-generate -fcoverage-mapping",
    "-fstack-protector-all",
    "-march=x86-64-v3",
    "-fno-asynchronous-unwind-tables -fno-plt",
]


@pytest.mark.parametrize(
    ("flags", "source"),
    [
        (flags, source) if kind % len(EXAMPLES) == example else nightly(flags, source)
        for kind, flags in enumerate(KINDS_OF_CODE)
        for example, source in enumerate(EXAMPLES)
    ],
)
@BOTH
def test_what_was_measured_is_what_is_emitted(compiler: Compiler, flags: str, source: str) -> None:
    model = candidates(compiler, LARGE, SMALL, AFTER)
    options = ["-Os" if source == "library.cpp" else "-Oz", *flags.split()]
    made, said = compiler.object(source, *options, model=model, effort=3, log="log")
    assert "warning" not in said
    log = compiler.trials()
    plain = compiler.plain(source, *options)
    assert log["stock_bytes"] == code(compiler, plain)
    measured = {one["name"]: one["bytes"] for one in log["trials"] if one["end"] == "measured"}
    assert set(measured) == {"large", "small", "after"}
    assert code(compiler, made) == min([log["stock_bytes"], *measured.values()])
    if log["winner"] is None:
        assert made == plain
    else:
        assert measured[log["winner"]] < log["stock_bytes"]


@BOTH
def test_a_smaller_candidate_is_kept_and_runs_right(compiler: Compiler) -> None:
    for source, way in (("words.c", SMALL), ("library.cpp", SMALL), ("library.cpp", AFTER)):
        line = [*compiler.options(candidates(compiler, way), effort=1), "-Rpass=phase-ordering"]
        made, said = compiler.compile(source, "program", "-Oz", *line)
        plain, _ = compiler.compile(source, "plain", "-Oz")
        assert f"remark: {way['name']}: " in said and "bytes of code instead of" in said
        outputs = [compiler.run(path).stdout for path in (made, plain)]
        assert outputs[0] == outputs[1] and outputs[0]


@BOTH
def test_nothing_larger_is_kept(compiler: Compiler) -> None:
    for source in EXAMPLES:
        made, said = compiler.object(source, "-Oz", model=candidates(compiler, LARGE), effort=1)
        assert not said and made == compiler.plain(source, "-Oz")


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (
            {"name": "endless", "passes": ",".join(["no-op-module"] * 300_000)},
            "candidate 'endless' ran too many passes",
        ),
        (
            {"name": "value", "passes": "gvn", "options": ["inline-threshold=abc"]},
            "candidate 'value' has an option whose value LLVM refuses",
        ),
        (
            {
                "name": "endless",
                "passes": ",".join(["no-op-module"] * 300_000),
                "after_stock": True,
            },
            "candidate 'endless' ran too many passes",
        ),
    ],
    ids=["endless", "value", "endless after"],
)
@BOTH
def test_a_bad_candidate_leaves_plain_clangs_object(
    compiler: Compiler, bad: dict[str, Any], expected: str
) -> None:
    model = candidates(compiler, bad, SMALL)
    made, said = compiler.object("words.c", "-Oz", "-Werror", model=model, effort=3, log="log")
    assert said.count("warning:") == 1 and expected in said
    assert made == compiler.plain("words.c", "-Oz")
    assert compiler.trials()["problem"] == expected
    assert [path.name for path in compiler.folder.iterdir() if "core" in path.name] == []


@pytest.mark.parametrize("after", [False, True])
@BOTH
def test_a_candidate_that_crashes_is_left_out(compiler: Compiler, after: bool) -> None:
    model = candidates(compiler, {**CRASH, "after_stock": after}, SMALL)
    line = ("-Oz", "-Werror", "-Rpass-missed=phase-ordering")
    made, said = compiler.object(
        "words.c", *line, model=model, effort=2, log="log", on_failure="fail"
    )
    assert said.count("candidate 'crash' is left out: LLVM crashed in it") == 1
    assert code(compiler, made) < code(compiler, compiler.plain("words.c", "-Oz"))
    assert [trial["end"] for trial in compiler.trials()["trials"]] == ["crashed", "measured"]
    assert [path.name for path in compiler.folder.iterdir() if "core" in path.name] == []


@BOTH
def test_it_can_be_an_error(compiler: Compiler) -> None:
    bad = {"name": "value", "passes": "gvn", "options": ["inline-threshold=abc"]}
    line = compiler.options(candidates(compiler, bad), effort=1, on_failure="fail")
    command = ["clang", "-Oz", *line, "-c", str(SOURCES / "words.c"), "-o", "a.o"]
    done = compiler.run(*command, check=False)
    assert done.returncode == 1
    assert "error: phase-ordering: candidate 'value' has an option whose value" in done.stderr
    assert not (compiler.folder / "a.o").exists()


def test_an_error_that_only_a_candidate_has_is_nobodys(compiler: Compiler) -> None:
    """Inline assembly that needs a constant: without inlining there is none."""
    (compiler.folder / "a.c").write_text(
        "static inline __attribute__((always_inline)) int at(int n) { int r;"
        ' __asm__("movl %1, %0" : "=r"(r) : "i"(n)); return r; }\n'
        "static int once(int n) { return at(n); }\nint f(void) { return once(7); }\n"
    )
    source = compiler.folder / "a.c"
    model = candidates(compiler, LARGE, SMALL)
    made, said = compiler.object(source, "-Oz", model=model, effort=2, log="log")
    assert not said and code(compiler, made) <= code(compiler, compiler.plain(source, "-Oz"))
    assert [one["end"] for one in compiler.trials()["trials"]] == ["refused", "measured"]


@pytest.mark.parametrize("flags", [["--coverage"], ["-fprofile-generate"]], ids=lambda f: f[0])
def test_profiles_and_coverage_are_of_stock_code(compiler: Compiler, flags: list[str]) -> None:
    """What continues the stock pipeline keeps its counters."""
    model = candidates(compiler, SMALL)
    made, said = compiler.object("words.c", "-Oz", *flags, model=model, effort=1, log="log")
    assert not said and made == compiler.plain("words.c", "-Oz", *flags)
    assert [one["end"] for one in compiler.trials()["trials"]] == ["refused"]


@BOTH
def test_bitcode_and_assembly(compiler: Compiler) -> None:
    model = candidates(compiler, LARGE, INLINED)
    line = compiler.options(model, effort=2, log="log")
    whole, _ = compiler.compile("words.c", "a.o", "-Oz", "-c", *line)
    assert compiler.trials()["winner"] == "inlined"
    assembly, _ = compiler.compile("words.c", "a.s", "-Oz", "-S", *line)
    assert compiler.trials()["winner"] == "inlined"
    compiler.run("clang", "-c", assembly, "-o", "b.o")
    sizes = [code(compiler, path.read_bytes()) for path in (whole, compiler.folder / "b.o")]
    assert sizes[0] == sizes[1]
    bitcode, _ = compiler.compile("words.c", "a.bc", "-Oz", "-c", "-emit-llvm", *line)
    assert compiler.trials()["winner"] == "inlined"
    assert bitcode.read_bytes()[:2] == b"BC"
    compiler.run("opt", "-passes=verify", "-disable-output", bitcode)


def test_options_that_end_with_the_process_do_not_count(compiler: Compiler) -> None:
    """-fembed-bitcode generates code in a second process, from bitcode."""
    options = {"name": "options", "passes": "no-op-module", "after_stock": True, "options": LEVERS}
    for source in EXAMPLES:
        made, _ = compiler.object(
            source, "-Oz", "-fembed-bitcode", model=candidates(compiler, options), log="log"
        )
        log = compiler.trials()
        assert log["trials"][0]["bytes"] == log["stock_bytes"] and log["winner"] is None
        plain = compiler.plain(source, "-Oz", "-fembed-bitcode")
        assert code(compiler, made) == code(compiler, plain)


@BOTH
def test_opt_compares_too(compiler: Compiler) -> None:
    bitcode, _ = compiler.compile(
        "words.c", "a.bc", "-Oz", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c"
    )
    load = [f"-load-pass-plugin={compiler.plugin}", "-phase-ordering-effort=2"]
    model = f"-phase-ordering-model={candidates(compiler, LARGE, INLINED)}"
    log = f"-phase-ordering-log={compiler.folder / 'log'}"
    compiler.run("opt", *load, model, log, "-passes=default<Oz>", bitcode, "-o", "b.bc")
    assert compiler.trials()["winner"] == "inlined"
    compiler.run("opt", "-passes=verify", "-disable-output", "b.bc")


def test_every_build_gives_the_same_bytes(compiler: Compiler) -> None:
    model = candidates(compiler, LARGE, SMALL)
    line = compiler.options(model, effort=2)
    commands = [
        [
            compiler.tool("clang++"),
            "-Oz",
            *line,
            "-c",
            str(SOURCES / "library.cpp"),
            "-o",
            f"{number}.o",
        ]
        for number in range(6)
    ]
    running = [subprocess.Popen(command, cwd=compiler.folder) for command in commands]
    assert [process.wait(timeout=100) for process in running] == [0] * 6
    made = {(compiler.folder / f"{number}.o").read_bytes() for number in range(6)}
    assert len(made) == 1


def test_options_of_the_user_stay(compiler: Compiler) -> None:
    """-mllvm -apply-ext-tsp-for-size=false holds for every candidate."""
    same = {"name": "same", "passes": "default<Os>", "options": LEVERS[:1]}
    kept = ["-mllvm", f"-{LEVERS[0]}=false"]
    model = candidates(compiler, same)
    for flags, equal in ((kept, True), ([], False)):
        compiler.object("words.c", "-Oz", *flags, model=model, effort=1, log="log")
        log = compiler.trials()
        assert (log["trials"][0]["bytes"] == log["stock_bytes"]) == equal


def test_a_policy_is_measured_too(compiler: Compiler) -> None:
    """A model that chooses groups is one candidate."""
    for source in EXAMPLES:
        plain = compiler.plain(source, "-Oz")
        policy = "function:sequence?actions=20"  # next to nothing
        made, _ = compiler.object(source, "-Oz", model=policy, effort=1, log="log")
        assert made == plain
        log = compiler.trials()
        assert log["winner"] is None and log["trials"][0]["name"] == "of the model"


def test_candidates_need_an_effort(compiler: Compiler) -> None:
    model = candidates(compiler, SMALL)
    made, said = compiler.object("words.c", "-Oz", model=model, effort=0)
    assert said.count("warning:") == 1 and "-phase-ordering-effort=1 or more" in said
    assert made == compiler.plain("words.c", "-Oz")


def test_bitcode_that_llvm_does_not_read_again(compiler: Compiler) -> None:
    """LLVM changes such a layout when it reads bitcode, to one that it refuses."""
    module = compiler.folder / "odd.ll"
    module.write_text(
        """
target datalayout = "E-p:64:64:64-i64:64:64-f128:128:128-v128:128:128-n32:64"
target triple = "powerpc64-unknown-linux-gnu"
define i64 @f(i64 %x) { %y = mul i64 %x, 7 ret i64 %y }
""".replace(" ret", "\n ret")
    )
    told = compiler.options(candidates(compiler, AFTER), effort=1)
    line = [word for word in told if word.startswith("-phase-ordering-")]
    command = ["opt", "-passes=default<Oz>", "-load-pass-plugin", str(compiler.plugin), *line]
    done = compiler.run(*command, module, "-o", "odd.bc", check=False)
    assert done.returncode == 0 and not done.stderr
    assert compiler.run("llvm-dis", "odd.bc", "-o", "odd.txt", check=False).returncode != 0


@BOTH
def test_labels_of_other_functions(compiler: Compiler) -> None:
    """At labels of a later function LLVM's copying of modules crashes."""
    module = compiler.folder / "labels.ll"
    module.write_text("""
define ptr @f() {
  ret ptr blockaddress(@g, %there)
}
define i32 @g() {
  br label %end
there:
  br label %end
end:
  ret i32 2
}
""")
    command = ["opt", "-passes=default<Oz>", "-load-pass-plugin", str(compiler.plugin)]
    if compiler.llvm < 22:
        command[1:1] = ["-load", str(compiler.plugin)]
    told = [
        "-phase-ordering-model=function:sequence?actions=30,5",
        "-phase-ordering-on-failure=fail",
    ]
    compiler.run(*command, *told, "-S", module, "-o", "made.ll")
    assert "ret i32 2" in (compiler.folder / "made.ll").read_text()


def test_passes_that_write_files_are_run_once(compiler: Compiler) -> None:
    line = compiler.options(candidates(compiler, SMALL), effort=1)
    dump = ["-mllvm", "-print-after=loop-rotate", "-mllvm", "-ir-dump-directory=dump"]
    made, said = compiler.object("words.c", "-Oz", *dump, *line, "-Rpass=phase-ordering")
    assert "with -ir-dump-directory passes write files, so no candidate is tried" in said
    assert made == compiler.plain("words.c", "-Oz")


def test_without_descriptors_for_processes(compiler: Compiler) -> None:
    ways = [{**SMALL, "name": str(number)} for number in range(30)]
    line = compiler.options(candidates(compiler, *ways), effort=30)
    command = shlex.join(
        [compiler.tool("clang"), "-Oz", *line, "-c", str(SOURCES / "words.c"), "-o", "a.o"]
    )
    done = compiler.run("sh", "-c", f"ulimit -n 24; exec {command}")
    assert done.stderr.count("warning:") == 1
    assert "no memory for candidates: Too many open files" in done.stderr
    assert (compiler.folder / "a.o").read_bytes() == compiler.plain("words.c", "-Oz")


SPECIAL = """
static _Thread_local int mine; int *where(void) { return &mine; }
static int one(void) { return 1; } static int two(void) { return 2; }
static int (*pick(void))(void) { return one; }
int chosen(void) __attribute__((ifunc("pick")));
__attribute__((naked)) int bare(void) { __asm__("movl $7, %eax; ret"); }
__asm__(".globl from_assembly; from_assembly: movl $3, %eax; ret");
int from_assembly(void);
int main(int n, char **v) {
  mine = n + !v;
  return *where() + chosen() + bare() + from_assembly() - 12;
}
"""


@BOTH
def test_thread_locals_ifuncs_naked_functions_and_assembly(compiler: Compiler) -> None:
    source = compiler.folder / "special.c"
    source.write_text(SPECIAL)
    model = candidates(compiler, LARGE, SMALL, AFTER)
    for flags in ([], ["-fPIC"], ["-ffunction-sections", "-g"]):
        program, said = compiler.compile(
            source, "program", "-Oz", *flags, *compiler.options(model, log="log")
        )
        assert "warning: phase-ordering" not in said
        compiler.run(program)
        assert [one["end"] for one in compiler.trials()["trials"]] == ["measured"] * 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[", "not JSON"),
        ("{}", "a non-empty array"),
        ('{"version": 1, "candidates": []}', "a non-empty array"),
        ('{"version": 2, "candidates": [{}]}', 'expected "version": 1, got 2'),
        ('{"version": 1, "candidates": [{"name": "a"}]}', 'candidate 0: expected strings "name"'),
        (
            '{"version": 1, "candidates": [{"name": "a", "passes": "nothing"}]}',
            "candidate 'a': LLVM refuses 'nothing'",
        ),
        (
            '{"version": 1, "candidates": [{"name": "a", "passes": "gvn", "options": ["nosuch"]}]}',
            'expected options of LLVM, got "nosuch"',
        ),
        (
            '{"version": 1, "candidates": [{"name": "a", "passes": "sccp", "options": "lsr"}]}',
            '"options": expected an array',
        ),
        (
            '{"version": 1, "candidates": [{"name": "a", "passes": "sccp", "optoins": []}]}',
            "candidate 'a': unknown key \"optoins\"",
        ),
        (
            '{"version": 1, "candidates": [{"name": "a", "passes": "sccp", "after_stock": 3}]}',
            '"after_stock": expected true or false',
        ),
        (
            '{"version": 1, "candidates": [{"name": "a", "passes": "sccp", "target": "vax"}]}',
            '"target": expected the architecture of a triple, such as "aarch64", got "vax"',
        ),
        (
            '{"version": 1, "candidates": [{"name": "a", "passes": "sccp"},'
            ' {"name": "a", "passes": "gvn"}]}',
            "the name 'a' occurs twice",
        ),
    ],
)
def test_a_list_that_makes_no_sense(compiler: Compiler, text: str, expected: str) -> None:
    path = compiler.folder / "list.json"
    path.write_text(text)
    made, said = compiler.object("words.c", "-Oz", model=f"candidates:{path}", effort=1)
    assert said.count("warning:") == 1 and expected in said
    assert made == compiler.plain("words.c", "-Oz")


@BOTH
def test_candidates_for_other_targets_do_not_count(compiler: Compiler) -> None:
    other = {**INLINED, "name": "other", "target": "aarch64"}
    mine = {**INLINED, "name": "mine", "target": "x86_64"}
    for target, ways, tried in (
        ("x86_64", [other, mine, LARGE], ["mine"]),
        ("aarch64", [mine, other, LARGE], ["other"]),
        ("riscv64", [mine, other, LARGE], ["large"]),
    ):
        model = candidates(compiler, *ways)
        flags = ["-Oz", f"--target={target}-linux-gnu", "-ffreestanding"]
        (compiler.folder / "own.c").write_text("int f(int x) { return x / 3; }")
        source = str(compiler.folder / "own.c")
        compiler.object(source, *flags, model=model, effort=1, log="log")
        assert [trial["name"] for trial in compiler.trials()["trials"]] == tried
    flags = ["-Oz", "-Rpass=phase-ordering"]
    made, said = compiler.object("words.c", *flags, model=candidates(compiler, other), effort=1)
    assert "left to the usual passes: no candidate is for x86_64" in said
    assert made == compiler.plain("words.c", "-Oz")


@ONLY_19
def test_llvm_19_compares_what_it_knows(compiler: Compiler) -> None:
    new = {"name": "new", "passes": "default<Os>,pass-of-llvm-22"}
    option = {**INLINED, "options": [*INLINED["options"], "option-of-llvm-22"]}
    logs = []
    for ways in ([new, INLINED], [new, option]):
        _, said = compiler.object(
            "library.cpp", "-Oz", model=candidates(compiler, *ways), effort=1, log="log"
        )
        assert said == ""
        logs.append(compiler.trials())
    assert [log["winner"] for log in logs] == ["inlined"] * 2
    assert logs[0]["trials"][0]["bytes"] == logs[1]["trials"][0]["bytes"]
    made, said = compiler.object("words.c", "-Oz", model=candidates(compiler, new), effort=1)
    assert said.count("warning:") == 1
    assert "candidate 'new': LLVM refuses 'default<Os>,pass-of-llvm-22'" in said
    assert made == compiler.plain("words.c", "-Oz")


def predictor(path: Path, ways: list[dict[str, Any]], expected: list[float]) -> str:
    """A network that expects the same of every module."""
    onnx = pytest.importorskip("onnx", reason="onnx isn't installed")
    helper, tensor = onnx.helper, onnx.TensorProto
    value = helper.make_tensor("v", tensor.FLOAT, [len(ways)], expected)
    used = helper.make_node("ReduceSum", ["features"], ["sum"], keepdims=0)
    zero = helper.make_node("Sub", ["sum", "sum"], ["zero"])
    constant = helper.make_node("Constant", [], ["v"], value=value)
    added = helper.make_node("Add", ["v", "zero"], ["log_ratio"])
    graph = helper.make_graph(
        [used, zero, constant, added],
        "predictor",
        [helper.make_tensor_value_info("features", tensor.FLOAT, [120])],
        [helper.make_tensor_value_info("log_ratio", tensor.FLOAT, [len(ways)])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    text = json.dumps({"version": 1, "candidates": ways})
    helper.set_model_props(model, {"phase-ordering.candidates": text})
    path.write_bytes(model.SerializeToString())
    return f"native:{path}"


def test_a_network_says_what_to_try_first(compiler: Compiler) -> None:
    path = compiler.folder / "predictor.onnx"
    ways = [LARGE, SMALL, {"name": "third", "passes": "default<O1>"}]
    for values, expected in (
        ([0.1, -0.2, 0.3], ["small"]),
        ([0.1, 0.2, -0.3], ["third"]),
        ([0.1, 0.1, 0.0], ["third", "large"]),
    ):
        model = predictor(path, ways, values)
        compiler.object("words.c", "-Oz", model=model, effort=len(expected), log="log")
        assert [one["name"] for one in compiler.trials()["trials"]] == expected
    model = predictor(path, ways, [float("nan"), 0.0, 0.0])
    made, said = compiler.object("words.c", "-Oz", model=model, effort=1)
    assert "log_ratio: expected finite numbers" in said and said.count("warning:") == 1
    assert made == compiler.plain("words.c", "-Oz")
