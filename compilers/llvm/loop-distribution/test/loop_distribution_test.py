# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whatever the agents decide, programs do what they did."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import random_loops
from compiler import Compiler, serving
from onnx import TensorProto, helper
from sampling import nightly

import mlbridge

INPUTS = Path(__file__).resolve().parent / "inputs"
KERNELS = INPUTS / "kernels.c"
REMARKS = (
    "-Rpass=loop-distribution|loop-vectorize",
    "-Rpass-missed=loop-distribution",
    "-fno-caret-diagnostics",
)
LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Os", "-Oz")
HEURISTIC = "function:heuristic"
SHIPPED = f"native:{mlbridge.files.shipped_agents('loop-distribution')}"
#: Columns: whether the vectorizer is likely to refuse, cycles of waiting, costs.
BLOCKS, LATENCY, SCALAR, VECTOR = 21, 23, 24, 25


def heuristic(observation: Any, context: mlbridge.CallContext) -> int:
    """What function:heuristic answers."""
    mask, previous = observation["action_mask"], observation["previous"]
    if context.agent == "node":
        alike = mask & (observation["nodes"][:, BLOCKS] == previous[BLOCKS])
        return int(np.argmax(alike if alike.any() else mask))
    return int(observation["node"][BLOCKS] != previous[BLOCKS])


@pytest.mark.parametrize("level", ["-O2", "-O3"])
def test_the_heuristic_lets_more_be_vectorized(compiler: Compiler, level: str) -> None:
    plain = compiler.clang(KERNELS, *REMARKS, level=level)
    printed = compiler.output(plain)
    assert len(printed.splitlines()) >= 40
    made = compiler.clang(KERNELS, *REMARKS, "-g", level=level, model=HEURISTIC, on_failure="fail")
    assert not made.warnings
    assert made.remarks("distributed into") > 20
    assert made.remarks("vectorized loop") > plain.remarks("vectorized loop") + 20
    assert compiler.output(made) == printed


@pytest.mark.parametrize(
    "model",
    [
        *("function:always", "function:random?seed=0"),
        *(nightly(f"function:random?seed={i}") for i in range(1, 4)),
    ],
)
def test_agents_may_decide_anything(compiler: Compiler, model: str) -> None:
    plain = compiler.clang(KERNELS)
    before, printed = plain.object, compiler.output(plain)
    made = compiler.clang(KERNELS, *REMARKS, model=model, on_failure="fail")
    assert made.remarks("distributed into") > 10
    assert made.object != before
    assert compiler.output(made) == printed
    again = made.object
    assert compiler.clang(KERNELS, model=model).object == again


@pytest.mark.parametrize("model", [HEURISTIC, "function:always", "function:random?seed=5"])
def test_opt_finds_nothing_wrong_in_the_result(compiler: Compiler, model: str) -> None:
    early, late, made = (compiler.folder / name for name in ("early.bc", "late.bc", "made.bc"))
    front = ("-Xclang", "-disable-llvm-passes", "-fwrapv", "-w", "-g", "-emit-llvm")
    compiler.run("clang-22", "-O2", *front, "-c", KERNELS, "-o", early)
    compiler.run("opt-22", "-passes=default<O1>,function(loop(loop-rotate))", early, "-o", late)
    checks = ("-verify-each", "-verify-dom-info", "-verify-loop-info", "-verify-loop-lcssa")
    passes = "mlbridge-loop-distribution,loop-vectorize,simplifycfg"
    option = f"-loop-distribution-model={model}"
    loaded = f"-load-pass-plugin={compiler.plugin}"
    done = compiler.run(
        "opt-22", loaded, option, f"-passes={passes}", *checks, late, "-o", made,
        "-pass-remarks=loop-distribution",
    )  # fmt: skip
    assert done.stderr.count("distributed into") > 10
    programs = []
    for module in (late, made):
        program = module.with_suffix("")
        compiler.run("clang-22", "-O0", module, "-o", program)
        programs.append(compiler.run(program).stdout)
    assert programs[0] == programs[1]
    # Without a model, the name of the pass stands for the heuristic.
    named = [
        compiler.run("opt-22", loaded, *options, f"-passes={passes}", late, "-S", "-o", "-").stdout
        for options in ((), (f"-loop-distribution-model={HEURISTIC}",))
    ]
    assert named[0] == named[1]


@pytest.mark.parametrize(
    ("debug", "level"),
    [
        *(("-g0", level) for level in LEVELS),
        *(("-g", level) if level == "-O3" else nightly("-g", level) for level in LEVELS),
    ],
)
def test_what_is_not_distributed_is_stock(compiler: Compiler, debug: str, level: str) -> None:
    plain = compiler.clang(KERNELS, debug, level=level).object
    never = compiler.clang(KERNELS, debug, *REMARKS, level=level, model="function:never")
    assert never.object == plain
    assert ("agents decided" in never.stderr) == (level in ("-O2", "-O3"))
    assert compiler.clang(KERNELS, debug, level=level, deadline="1s").object == plain
    missing = compiler.clang(KERNELS, debug, level=level, model="unix:nobody.sock")
    assert missing.object == plain
    assert len(missing.warnings) == (level in ("-O2", "-O3")), missing.stderr


OTHERWISE = ("-O2", "-g", "-fPIC -ffast-math", "-march=x86-64-v3", "-flto=thin", "-x c++")


@pytest.mark.parametrize("flags", ["-O3", *map(nightly, OTHERWISE)])
@pytest.mark.parametrize("model", ["function:never", SHIPPED], ids=["never", "shipped"])
def test_only_a_division_changes_code(compiler: Compiler, model: str, flags: str) -> None:
    """Neither do canonical loops, nor an analysis that was asked earlier than by LLVM."""
    for name in ("unchanged.c", "left.c"):
        options = (*REMARKS[:1], *flags.split())
        plain = compiler.clang(INPUTS / name, *options).object
        made = compiler.clang(INPUTS / name, *options, model=model, on_failure="fail")
        assert made.remarks("distributed into") == 0
        assert made.object == plain


@pytest.mark.parametrize("lto", [nightly("-flto=thin"), nightly("-flto")])
def test_only_a_division_changes_links(
    compiler: Compiler, lto: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There lld divides loops."""
    options = ("-fPIC", "-fwrapv", lto)
    parts: list[Path] = []
    for name in ("unchanged.c", "kernels.c"):
        parts.append(compiler.folder / f"{name}.o")
        compiler.run("clang-22", "-O3", "-w", *options, "-c", INPUTS / name, "-o", parts[-1])
    made = []
    for model in ("", "function:never", "function:always"):
        monkeypatch.setenv("MLBRIDGE_LOOP_DISTRIBUTION_MODEL", model)
        program = compiler.folder / "made.so"
        link = ("-fuse-ld=lld", "-shared", f"-Wl,--load-pass-plugin={compiler.plugin}")
        compiler.run("clang-22", "-O3", *options, *link, *parts, "-o", program)
        made.append(program.read_bytes())
    assert made[0] == made[1] != made[2]


def test_levels(compiler: Compiler) -> None:
    assert not compiler.clang(KERNELS, *REMARKS, model=HEURISTIC, levels="Os,Oz").remarks(
        "distributed into"
    )
    small = compiler.clang(KERNELS, *REMARKS, level="-Os", model=HEURISTIC, levels="Os")
    assert small.remarks("distributed into") > 20
    assert "comparisons of addresses" not in small.stderr


def test_debug_information_changes_nothing_else(compiler: Compiler) -> None:
    code = []
    for debug in ("-g0", "-g"):
        made = compiler.clang(KERNELS, debug, model=HEURISTIC)
        stripped = made.path.with_suffix(".stripped")
        compiler.run("llvm-objcopy-22", "--only-section=.text", made.path, stripped)
        code.append(compiler.run("llvm-objdump-22", "-d", "--no-addresses", stripped).stdout)
    assert code[0].splitlines()[3:] == code[1].splitlines()[3:]


@pytest.mark.parametrize("engine", ["onnx", nightly("aot")])
def test_the_shipped_policy(compiler: Compiler, engine: str) -> None:
    """Divides what gains, the same in every engine; costs nothing where it doesn't."""
    printed = compiler.output(compiler.clang(KERNELS))
    made = compiler.clang(KERNELS, *REMARKS, model=SHIPPED, on_failure="fail")
    assert compiler.output(made) == printed
    assert 2 < made.remarks("distributed into") < 40
    of_native = compiler.clang(KERNELS, model=SHIPPED).object
    uri = SHIPPED.replace("native:", "onnx:")
    if engine == "aot":
        path = SHIPPED.partition(":")[2].format(agent="distribute")
        library = compiler.folder / "distribute.so"
        compiler.run(sys.executable, "-m", "mlbridge", "aot", path, "-o", library)
        uri = f"distribute=aot:{library};*={SHIPPED}"
    assert compiler.clang(KERNELS, model=uri, on_failure="fail").object == of_native


def test_how_long_an_iteration_waits(compiler: Compiler) -> None:
    """It waits for results of iterations before it, by the latencies of LLVM's model."""
    source = compiler.folder / "waits.c"
    source.write_text(
        """
        extern float a[], b[], c[], d[];
        extern int p[], q[];
        void one(int n) { for (int i = 4; i < n; ++i) { a[i] = a[i - 1] * .5f + b[i]; p[i] = 3; } }
        void four(int n) { for (int i = 4; i < n; ++i) { a[i] = a[i - 4] * .5f + b[i]; p[i] = 3; } }
        void none(int n) { for (int i = 4; i < n; ++i) { a[i] = b[i] * c[i]; d[i] = b[i] + 1; } }
        void cheap(int n) { int k = 0; for (int i = 4; i < n; ++i) { k = (k ^ q[i]) + 1; p[i] = k;
                                                                      a[i] = b[i] + 1; } }
        """
    )
    record = compiler.folder / "record"
    compiler.clang(source, model=f"function:never?record={record}", on_failure="fail")
    waits = {}
    for path in record.glob("*.mlbrec"):
        for episode in mlbridge.Recording(path).episodes():
            if episode.agent == "distribute":
                last = episode.observations[-1]["together"]
                waits[episode.unit.rpartition(":")[2]] = float(last[LATENCY])
    assert waits["none"] == 0
    assert 0 < waits["cheap"] < waits["one"]
    # What was stored four iterations before comes through memory, the last one stays in a register.
    assert waits["one"] / 4 < waits["four"] < waits["one"]


def test_loops_that_are_left(compiler: Compiler) -> None:
    source = INPUTS / "left.c"
    plain = compiler.clang(source).object
    made = compiler.clang(source, *REMARKS, model="function:always", on_failure="fail")
    assert made.object == plain
    left = re.findall(r"loop is left as it is: (.*) \[", made.stderr)
    wanted = Counter(
        {
            "it has a call": 1,
            "it has several blocks": 2,
            "it has a volatile or atomic access": 2,
            "its trips can't be counted": 1,
            "its source or an earlier pass says so": 2,
            "it can't be divided": 2,
        }
    )
    assert Counter(left) == wanted


def test_what_the_source_says_of_a_loop(compiler: Compiler) -> None:
    """That it may not be distributed, or that it should be: by the agents, or else by LLVM."""
    source = compiler.folder / "says.c"
    flags = (*REMARKS, "-Rpass=loop-distribut", "-Wpass-failed")
    for says, level in itertools.product(("disable", "enable"), ("-O2", "-O3")):
        source.write_text(
            f"""
            void apart(float *a, float *b, float *c, float *d, int n) {{
              #pragma clang loop distribute({says})
              for (int i = 1; i < n; ++i) {{ a[i] = a[i - 1] * .5f + b[i]; c[i] = d[i] * b[i]; }}
            }}
            """
        )
        plain = compiler.clang(source, *flags, level=level)
        by_llvm = "remark: distributed loop"
        assert (by_llvm in plain.stderr) == (says == "enable")
        stock = plain.object
        assert compiler.clang(source, level=level, model="function:never").object == stock
        made = compiler.clang(source, *flags, level=level, model="function:always")
        assert by_llvm not in made.stderr
        assert not made.warnings
        assert made.remarks("distributed into") == (says == "enable")
        assert says == "enable" or made.object == stock


def test_every_decision_is_reported(compiler: Compiler) -> None:
    """A remark names each loop and each of its parts."""
    reported = []
    for model in ("function:never", HEURISTIC, "function:always"):
        said = compiler.clang(KERNELS, *REMARKS, model=model).stderr
        wholes = re.findall(r"remark: distributed into \d+ loops: ([S\d, |]+\d)", said)
        parts = Counter(re.findall(r"remark: (S\d+: loop \d+) \[-Rpass=loop-distribution\]", said))
        wanted: Counter[str] = Counter()
        for whole in wholes:
            for number, loop in enumerate(whole.split(" | "), 1):
                wanted.update(f"{node}: loop {number}" for node in loop.split(","))
        assert parts == wanted
        reported.append(len(wholes) + said.count("remark: loop is left as it is: "))
    assert reported[0] == reported[1] == reported[2] >= 50


def test_a_server_decides_as_the_function_does(compiler: Compiler) -> None:
    asked: Counter[str] = Counter()

    def policy(observation: Any, context: mlbridge.CallContext) -> int:
        asked[context.agent] += 1
        assert observation["previous"].shape == (26,)
        if context.agent == "node":
            mask, edges = observation["action_mask"], observation["edges"]
            assert mask.sum() > 1
            assert observation["nodes"].shape == (len(mask), 26)
            assert (edges < len(mask)).all()
        else:
            assert observation["action_mask"].all()
            node, previous, together, rest, whole = (
                observation[k] for k in ("node", "previous", "together", "rest", "whole")
            )
            assert together[0] == node[0] + previous[0]
            assert whole[0] == rest[0] + previous[0]
            for one, more in ((node, rest), (together, whole), (rest, whole)):
                assert (one[:LATENCY] <= more[:LATENCY]).all()
                assert one[SCALAR] <= more[SCALAR]
            for one in (node, previous, together, rest, whole):
                assert 0 <= one[VECTOR] <= one[SCALAR]
                assert one[LATENCY] * 16 == round(float(one[LATENCY]) * 16)
        return heuristic(observation, context)

    expected = compiler.clang(KERNELS, model=HEURISTIC, on_failure="fail").object
    with serving(policy, compiler.folder) as socket:
        made = compiler.clang(KERNELS, model=socket, on_failure="fail")
        assert made.object == expected
        assert not made.stderr
        before = asked["node"]
        apart = f"distribute={socket}; *={HEURISTIC}"
        assert compiler.clang(KERNELS, model=apart, on_failure="fail").object == expected
        assert asked["node"] == before > 4
        assert asked["distribute"] > 30


@pytest.mark.parametrize("scheme", ["native", "onnx"])
def test_a_file_for_one_agent(compiler: Compiler, scheme: str) -> None:
    """A network that distributes what blocks from what doesn't, as the heuristic does."""
    tensor, node = helper.make_tensor_value_info, helper.make_node
    column = helper.make_tensor("column", TensorProto.INT64, [], [BLOCKS])
    graph = helper.make_graph(
        [
            node("Sub", ["node", "previous"], ["difference"]),
            node("Gather", ["difference", "column"], ["blocks"]),
            node("Abs", ["blocks"], ["apart"]),
            node("Cast", ["apart"], ["distribute"], to=TensorProto.INT64),
        ],
        "policy",
        [tensor(name, TensorProto.FLOAT, [26]) for name in ("node", "previous")],
        [tensor("distribute", TensorProto.INT64, [])],
        [column],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, str(compiler.folder / "distribute.onnx"))
    uri = f"distribute={scheme}:{compiler.folder}/distribute.onnx; *={HEURISTIC}"
    made = compiler.clang(KERNELS, model=uri, on_failure="fail")
    assert not made.stderr
    of_file = made.object
    assert compiler.clang(KERNELS, model=HEURISTIC).object == of_file


@pytest.mark.parametrize(
    "kind", ["raises", "dies", "between", "silent", "masked", "far", "negative"]
)
def test_agents_that_fail_in_the_middle(compiler: Compiler, kind: str) -> None:
    printed = compiler.output(compiler.clang(KERNELS))
    script = str(Path(__file__).with_name("failing_distribution.py"))
    uri = f"unix:{compiler.folder}/agents.sock"
    for on_failure in ("stock", "fail"):
        command = [sys.executable, script, uri, kind]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout and server.stdout.readline() == "ready\n"
                deadline = "300ms" if kind == "silent" else "30s"
                settings = {"model": uri, "deadline": deadline, "on_failure": on_failure}
                made = compiler.clang(KERNELS, *REMARKS, **settings)
            finally:
                server.kill()
        assert made.remarks("distributed into")
        if on_failure == "fail":
            assert made.code != 0
            assert "error: loop-distribution: " in made.stderr
        else:
            assert len(made.warnings) == 1, made.stderr
            assert "loop-distribution: " in made.warnings[0]
            assert compiler.output(made) == printed


def test_models_that_are_not_there_and_options_that_are_wrong(compiler: Compiler) -> None:
    plain = compiler.clang(KERNELS).object
    for model in (f"node={HEURISTIC}", "function:nobody", "function:never?seed=1", "colour"):
        made = compiler.clang(KERNELS, model=model)
        assert made.object == plain
        assert len(made.warnings) == 1, made.stderr
    for wrong in ({"deadline": "soon"}, {"on_failure": "cry"}, {"levels": "O9"}):
        made = compiler.clang(KERNELS, model=HEURISTIC, **wrong)
        assert made.code != 0
        assert f"-loop-distribution-{next(iter(wrong)).replace('_', '-')}: expected" in made.stderr


def check_random_program(compiler: Compiler, seed: int) -> int:
    source = compiler.folder / "random.c"
    source.write_text(random_loops.program(seed))
    expected = compiler.output(compiler.clang(source, level="-O0"))
    assert compiler.output(compiler.clang(source)) == expected
    distributed = 0
    for level, flags, model in (
        ("-O3", (), f"function:random?seed={seed}"),
        ("-O2", ("-march=x86-64-v3", "-ffp-contract=off"), f"function:random?seed={seed + 1}"),
        ("-O3", ("-fno-vectorize",), "function:always"),
    ):
        made = compiler.clang(source, *flags, *REMARKS, level=level, model=model, on_failure="fail")
        assert compiler.output(made) == expected, (seed, level, model)
        distributed += made.remarks("distributed into")
    return distributed


@pytest.mark.parametrize("seed", [0, nightly(1), nightly(2)])
def test_random_loops(compiler: Compiler, seed: int) -> None:
    assert check_random_program(compiler, seed)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(60))
def test_many_random_loops(compiler: Compiler, part: int) -> None:
    first = int(os.environ.get("MLBRIDGE_FIRST_SEED", "1000")) + 10 * part
    distributed = sum(check_random_program(compiler, seed) for seed in range(first, first + 10))
    assert distributed > 50


def test_the_commands_of_the_readme(compiler: Compiler) -> None:
    """As they are shown, with kernels.c for f.c."""
    page = (Path(__file__).resolve().parents[1] / "README.md").read_text()
    block = re.search(r"```sh\n(.*?)```", page, re.DOTALL)
    assert block
    shutil.copy(KERNELS, compiler.folder / "f.c")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["env", f"PATH={path}", "bash", "-e", "-c", block[1]]
    done = compiler.run(*command)
    assert done.stderr.count("distributed into") > 30
