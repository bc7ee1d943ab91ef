# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Groups run in the order in which the model names them, and the compiler says so."""

from __future__ import annotations

import json
import queue
import subprocess
import threading

import pytest
from sampling import nightly
from stock import BOTH, LEVELS, ONLY_19, ROOT, SOURCES, Compiler

import mlbridge
from mlbridge import Code
from mlbridge.recording import replay

SEQUENCE = "function:sequence?actions=30,5,23,39"
ACTIONS = json.loads((ROOT / "compilers/llvm/phase-ordering/actions.json").read_text())["actions"]


def text_bytes(compiler: Compiler) -> int:
    said = compiler.run("llvm-size", "-A", compiler.folder / "object.o").stdout
    return sum(int(line.split()[1]) for line in said.splitlines() if line.startswith(".text"))


@pytest.mark.parametrize(
    ("source", "level"),
    [
        (source, level) if source == "words.c" or level == "-Oz" else nightly(source, level)
        for source in ("words.c", "shapes.c", "library.cpp")
        for level in LEVELS
    ],
)
@BOTH
def test_the_chosen_groups_take_the_place_of_the_middle_end(
    compiler: Compiler, source: str, level: str
) -> None:
    expected = compiler.run(compiler.program(source, level, plugin=False)).stdout
    sizes = {}
    for model in ("function:stop", SEQUENCE):
        assert compiler.run(compiler.program(source, level, model=model)).stdout == expected
        compiler.object(source, level, model=model)
        sizes[model] = text_bytes(compiler)
    # Without groups the code is that of an unoptimized module; with some it is much smaller.
    assert sizes[SEQUENCE] < 0.8 * sizes["function:stop"]


def test_decisions_are_remarks(compiler: Compiler) -> None:
    _, said = compiler.object("words.c", "-Oz", "-Rpass=phase-ordering", model=SEQUENCE)
    remarks = [line for line in said.splitlines() if "remark:" in line]
    names = [ACTIONS[i]["name"] for i in (30, 5, 23, 39)] + ["stop"]
    assert len(remarks) == len(names)
    for step, (line, name) in enumerate(zip(remarks, names, strict=True)):
        assert f"step {step}: {name} (action " in line and "[-Rpass=phase-ordering]" in line
    _, said = compiler.object("words.c", "-Oz", model=SEQUENCE)
    assert said == ""


@pytest.mark.parametrize("source", ["words.c", nightly("library.cpp")])
def test_unless_told_otherwise_it_acts_where_size_is_asked_for(
    compiler: Compiler, source: str
) -> None:
    for level in ("-O0", *LEVELS, "-Og"):
        made, said = compiler.object(source, level, model=SEQUENCE, levels=None)
        assert said == ""
        assert (made == compiler.plain(source, level)) == (level not in ("-Os", "-Oz")), level


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["-O0"], "-O0 optimizes nothing"),
        (["-O2"], "-O2 is not one of the levels Os,Oz (-phase-ordering-levels)"),
        (["-Og"], "-O1 is not one of the levels Os,Oz (-phase-ordering-levels)"),
        (["-Oz", "-flto"], "with -flto the linker optimizes"),
        (["-Oz", "-flto=thin"], "with -flto the linker optimizes"),
        (["-Oz", "-flto", "-ffat-lto-objects"], "with -flto the linker optimizes"),
    ],
)
@BOTH
def test_a_remark_says_that_a_module_is_left_alone(
    compiler: Compiler, flags: list[str], reason: str
) -> None:
    for kind in ("-Rpass", "-Rpass-missed"):
        flag = f"{kind}=phase-ordering"
        made, said = compiler.object("words.c", *flags, flag, model=SEQUENCE, levels=None)
        remarks = [line for line in said.splitlines() if "remark:" in line]
        (remark,) = remarks
        assert remark.endswith(f"left to the usual passes: {reason} [{flag}]")
        # With -flto the remarks themselves make clang keep line numbers.
        plain = compiler.plain("words.c", *flags, flag)
        if "-flto" in " ".join(flags):  # what is stated is kept for the link
            made, plain = (compiler.linked(one, *flags) for one in (made, plain))
        assert made == plain


@pytest.mark.parametrize("kind", ["thin", "full"])
@ONLY_19
def test_a_linker_of_llvm_19_that_loads_the_plugin_is_left_alone(
    compiler: Compiler, kind: str
) -> None:
    flags = ["-Oz", f"-flto={kind}"]
    compiler.object("words.c", *flags, model=SEQUENCE)
    link = ["clang", *flags, "-fuse-ld=lld", "-fsave-optimization-record"]
    link += ["-foptimization-record-passes=phase-ordering", "object.o"]
    compiler.run(*link, f"-Wl,--load-pass-plugin={compiler.plugin}", "-o", "linked")
    (record,) = (path for path in compiler.folder.glob("*.yaml*") if path.stat().st_size)
    assert record.read_text().count("with -flto the linker optimizes") == 1
    compiler.run(*link, "-o", "plain")
    made = [(compiler.folder / name).read_bytes() for name in ("linked", "plain")]
    assert made[0] == made[1]


def test_a_module_that_no_pass_may_change_is_left_alone(compiler: Compiler) -> None:
    source = compiler.folder / "off.c"
    source.write_text("__attribute__((optnone)) int off(int x) { return x + 1; }\n")
    for model in (SEQUENCE, "onnx:/nowhere/policy.onnx"):
        made, said = compiler.object(source, "-Oz", "-Rpass=phase-ordering", model=model)
        assert made == compiler.plain(source, "-Oz", "-Rpass=phase-ordering")
        assert said.count("remark:") == 1 and "every function is optnone" in said
    # Where opt was asked for nothing else, it isn't a remark that one has to know of.
    compiler.run("clang", "-O0", "-emit-llvm", "-c", SOURCES / "words.c", "-o", "words.bc")
    load = ["-load-pass-plugin", str(compiler.plugin), f"-phase-ordering-model={SEQUENCE}"]
    command = ["opt", *load, "-passes=phase-ordering", "words.bc", "-o", "made.bc"]
    said = compiler.run(*command).stderr
    assert said.startswith("warning: phase-ordering: every function is optnone")
    assert "-Oz -Xclang -disable-llvm-passes" in said
    assert compiler.run(*command, "-phase-ordering-on-failure=fail", check=False).returncode == 1


def test_remarks_reach_the_optimization_record(compiler: Compiler) -> None:
    record = compiler.folder / "record.yaml"
    compiler.object("words.c", "-Oz", f"-foptimization-record-file={record}", model=SEQUENCE)
    assert record.read_text().count("Pass:            phase-ordering") == 5


def test_the_limit_on_steps_ends_the_episode(compiler: Compiler) -> None:
    limited, said = compiler.object("words.c", "-Oz", model=SEQUENCE, max_steps=2, record="log")
    assert said == ""
    assert limited == compiler.object("words.c", "-Oz", model="function:sequence?actions=30,5")[0]
    episode = compiler.episode("log")
    assert episode.stacked("action").ravel().tolist() == [30, 5]
    assert episode.outcome is not None and episode.outcome.code is Code.OK


def test_the_same_decisions_give_the_same_object(compiler: Compiler) -> None:
    for source in ("words.c", "library.cpp"):
        objects = {compiler.object(source, "-Oz", "-g", model=SEQUENCE)[0] for _ in range(3)}
        assert len(objects) == 1


def test_debug_information_changes_no_observation(compiler: Compiler) -> None:
    seen = []
    for flags in (["-Oz"], ["-Oz", "-g"]):
        name = "log" + flags[-1]
        compiler.object("library.cpp", *flags, model=SEQUENCE, record=name)
        episode = compiler.episode(name)
        seen.append([{k: v.tobytes() for k, v in one.items()} for one in episode.observations])
    assert seen[0] == seen[1] and len(seen[0]) == 5


@BOTH
def test_debug_information_stays_valid(compiler: Compiler) -> None:
    for source in ("words.c", "library.cpp"):
        compiler.object(source, "-O2", "-g", model=SEQUENCE)
        said = compiler.run("llvm-dwarfdump", "--verify", compiler.folder / "object.o").stdout
        assert "No errors." in said
        info = compiler.run("llvm-dwarfdump", compiler.folder / "object.o").stdout
        assert "DW_TAG_subprogram" in info and "DW_TAG_variable" in info


def test_a_recording_says_what_was_decided_and_on_what(compiler: Compiler) -> None:
    compiler.object("words.c", "-Oz", model=SEQUENCE, record="new/log")
    recording, episode = compiler.recording("new/log"), compiler.episode("new/log")
    assert recording.model == "function:sequence"
    assert episode.unit == str(SOURCES / "words.c")
    assert episode.stacked("action").ravel().tolist() == [30, 5, 23, 39, len(ACTIONS)]
    assert episode.stacked("step").ravel().tolist() == [0, 1, 2, 3, 4]
    assert len({features.tobytes() for features in episode.stacked("features")}) == 5
    assert episode.outcome is not None and episode.outcome.code is Code.OK


@pytest.mark.parametrize("source", ["words.c", "library.cpp"])
def test_a_replayed_recording_gives_the_same_object(compiler: Compiler, source: str) -> None:
    first = compiler.object(source, "-Oz", model=SEQUENCE, record="log")[0]
    (path,) = (compiler.folder / "log").iterdir()
    started: queue.Queue[mlbridge.Server] = queue.Queue()
    uri = f"unix:{compiler.folder}/replay"
    thread = threading.Thread(target=replay, args=(path, uri), kwargs={"ready": started.put})
    thread.start()
    server = started.get(timeout=60)
    try:
        again, said = compiler.object(source, "-Oz", model=uri)
    finally:
        server.stop()
        thread.join()
    assert again == first and said == ""


def test_a_sequence_may_bring_its_own_list(compiler: Compiler) -> None:
    listed = compiler.folder / "list.json"
    passes = ACTIONS[30]["passes"]
    listed.write_text(json.dumps({"version": 1, "actions": [{"name": "a", "passes": passes}]}))
    model = f"function:sequence?actions=0&list={listed}"
    made, said = compiler.object("words.c", "-Oz", "-Rpass=phase-ordering", model=model)
    assert "step 0: a (action 0)" in said and "step 1: stop (action 1)" in said
    assert made == compiler.object("words.c", "-Oz", model="function:sequence?actions=30")[0]


@BOTH
def test_opt_runs_the_pass_where_it_stands(compiler: Compiler) -> None:
    flags = ["-Oz", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c"]
    compiler.run("clang", *flags, SOURCES / "words.c", "-o", "words.bc")
    load = [f"-load-pass-plugin={compiler.plugin}", f"-phase-ordering-model={SEQUENCE}"]

    def instructions(*command: str) -> int:
        done = compiler.run("opt", *command, "words.bc", "-S", "-o", "-")
        return sum(line.startswith("  ") for line in done.stdout.splitlines())

    chosen = instructions(*load, "-passes=phase-ordering,verify")
    assert chosen < 0.8 * instructions("-passes=verify")
    # In a default pipeline it replaces the rest, as in clang.
    assert instructions(*load, "-passes=default<Oz>") == chosen
    assert instructions(*load, "-passes=default<O0>") == instructions("-passes=default<O0>")


def test_what_is_not_optimized_is_left_alone(compiler: Compiler) -> None:
    missing = "onnx:/nowhere/policy.onnx"
    empty = compiler.folder / "empty.c"
    empty.write_text("extern int x;\nint y = 3;\n")
    for source, flags in (
        ("words.c", ["-O0"]),
        ("words.c", ["-O0", "-g"]),
        ("words.c", ["-Oz", "-flto"]),
        ("words.c", ["-Oz", "-flto=thin"]),
        (empty, ["-Oz"]),
    ):
        made, said = compiler.object(source, *flags, model=missing)
        plain = compiler.plain(source, *flags)
        if "-flto" in " ".join(flags):
            made, plain = (compiler.linked(one, *flags) for one in (made, plain))
        assert made == plain and said == ""


def test_builds_with_werror_assembler_and_links(compiler: Compiler) -> None:
    line = compiler.options("onnx:/nowhere/policy.onnx")
    flags = ["-Oz", "-Wall", "-Wextra", "-Werror"]
    caller = compiler.folder / "caller.c"
    caller.write_text("int answer(void);\nint main(void) { return answer() != 42; }\n")
    said = compiler.run("clang", *flags, *line, "-c", caller, "-o", "caller.o").stderr
    assert said.count("warning: phase-ordering") == 1 and "error" not in said
    compiler.run("clang", *flags, *line, "-c", SOURCES / "answer.S", "-o", "answer.o")
    assert compiler.run("clang", *flags, *line, "caller.o", "answer.o", "-o", "a").stderr == ""
    compiler.run(compiler.folder / "a")


@BOTH
def test_the_plugin_exports_its_entry_only(compiler: Compiler) -> None:
    done = subprocess.run(
        ["nm", "-D", "--defined-only", str(compiler.plugin)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["llvmGetPassPluginInfo"]
