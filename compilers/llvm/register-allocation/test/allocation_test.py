# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whatever the agents decide, the machine verifier finds nothing, and programs do what they did."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from compiler import Compiled, Compiler, serving
from onnx import TensorProto, helper
from sampling import nightly

import mlbridge

REMARKS = ("-Rpass=register-allocation", "-Rpass-missed=register-allocation")
HEURISTIC = "function:heuristic"


def heuristic(observation: Any, context: mlbridge.CallContext) -> int:
    """What function:heuristic answers."""
    mask = observation["action_mask"]
    nodes: Any = observation["node_properties"] if context.agent in ("task", "colour") else None
    if context.agent == "task":
        free, executions, evicts, saved = nodes[[1, 6, 7, 8]]
        least = executions if evicts < 0 else min(evicts, executions)
        return int(free == 0 and executions - saved < least)
    if context.agent == "node":
        notes = observation["annotations"]
        score = np.where(notes[:, 0] > 0, np.float32(1e30), observation["spill_weights"])
    elif context.agent == "split":
        score = observation["points"][:, 0] - observation["points"][:, 2]
    elif nodes[0] == 0:
        score = -observation["registers"][:, 4]
        score[0] = -nodes[4]
    else:
        rows = observation["registers"]
        score = 100 * rows[:, 0] - 10 * rows[:, 1] - rows[:, 2] - 20 * rows[:, 3]
        score[0] = -1e6
    return int(np.argmax(np.where(mask, score, -np.inf)))


def kinds(made: Compiled) -> Counter[str]:
    """What the remarks say was done."""
    done = Counter(re.findall(r"remark: %\w+ of \w+: (spilled|split|gives up)", made.stderr))
    done["colour"] = len(re.findall(r"remark: %\w+ of \w+: [A-Z]", made.stderr))
    return done


@pytest.mark.parametrize("source", ["mixed.c", "pads.cpp"])
@pytest.mark.parametrize("level", ["-O1", "-O2", "-Oz"])
def test_the_heuristic_allocates(compiler: Compiler, source: str, level: str) -> None:
    printed = compiler.output(compiler.clang(source, level=level))
    made = compiler.clang(source, "-g", level=level, model=HEURISTIC, on_failure="fail")
    assert not made.stderr
    assert compiler.output(made) == printed


@pytest.mark.parametrize("model", [HEURISTIC, "function:random?seed=3"])
@pytest.mark.parametrize("processor", ["x86-64-v3", "x86-64-v4"])
def test_other_register_files(compiler: Compiler, model: str, processor: str) -> None:
    """With uses of registers that nothing has defined, and 32 registers in a class."""
    made = compiler.clang("mixed.c", f"-march={processor}", *REMARKS, model=model)
    assert made.code == 0
    assert not made.warnings
    assert kinds(made)["colour"] > 150
    assert "is left" not in made.stderr


@pytest.mark.parametrize("seed", range(6))
def test_agents_may_decide_anything(compiler: Compiler, seed: int) -> None:
    plain = compiler.clang("mixed.c")
    before, printed = plain.object, compiler.output(plain)
    model = f"function:random?seed={seed}"
    made = compiler.clang("mixed.c", *REMARKS, model=model, on_failure="fail")
    done = kinds(made)
    assert done["colour"] > 150
    assert done["spilled"] > 20
    assert done["split"] > 2
    assert made.object != before, done
    assert compiler.output(made) == printed
    again = made.object
    assert compiler.clang("mixed.c", model=model).object == again


def test_llc_and_the_name_of_an_allocator(compiler: Compiler) -> None:
    printed = compiler.output(compiler.clang("mixed.c"))
    module = compiler.bitcode("mixed.c")
    by_option = compiler.llc(module, model=HEURISTIC)
    assert compiler.output(by_option) == printed
    decided = by_option.object
    load = ("-load", str(compiler.plugin))
    assert compiler.llc(module, *load, "-regalloc=mlbridge").object == decided
    assert compiler.llc(module, *load).object != decided


def test_without_a_model_nothing_changes(compiler: Compiler) -> None:
    plain = compiler.clang("mixed.c").object
    assert compiler.clang("mixed.c", deadline="1s").object == plain
    assert compiler.clang("mixed.c", model=HEURISTIC, levels="Oz").object == plain
    unoptimized = compiler.clang("mixed.c", level="-O0").object
    assert compiler.clang("mixed.c", level="-O0", model=HEURISTIC).object == unoptimized


def test_exception_pads_are_left_to_the_greedy_allocator(compiler: Compiler) -> None:
    made = compiler.clang("pads.cpp", *REMARKS, model=HEURISTIC)
    assert not made.warnings
    left = [line for line in made.stderr.splitlines() if "is left to the greedy allocator" in line]
    assert len(left) == 2, made.stderr  # checked() frees its exception if the constructor throws
    assert all("it has exception pads" in line for line in left)
    assert kinds(made)["colour"]


def test_a_server_decides_as_the_function_does(compiler: Compiler) -> None:
    agents: Counter[str] = Counter()
    shapes: dict[str, dict[str, tuple[int, ...]]] = {}

    def policy(observation: Any, context: mlbridge.CallContext) -> int:
        agents[context.agent] += 1
        shapes[context.agent] = {name: observation[name].shape for name in observation}
        assert observation["action_mask"].sum() > 1 or context.agent == "split"
        if context.agent == "node":
            ends = observation["edges"]
            assert (ends[:, 0] < ends[:, 1]).all()
            assert (ends < len(observation["action_mask"])).all()
        return heuristic(observation, context)

    expected = compiler.clang("mixed.c", model=HEURISTIC, on_failure="fail").object
    with serving(policy, compiler.folder) as uri:
        made = compiler.clang("mixed.c", model=uri, on_failure="fail")
        assert made.object == expected
        assert not made.stderr
        apart = f"colour={uri}; *={HEURISTIC}"
        before = agents["node"]
        assert compiler.clang("mixed.c", model=apart, on_failure="fail").object == expected
        assert agents["node"] == before
    assert set(agents) == set(shapes) == {"node", "task", "colour", "split"}
    assert shapes["colour"] == {"action_mask": (33,), "node_properties": (5,), "registers": (33, 5)}


def test_a_server_splits_wherever_it_can(compiler: Compiler) -> None:
    printed = compiler.output(compiler.clang("mixed.c"))
    splits = 0

    def policy(observation: Any, context: mlbridge.CallContext) -> int:
        nonlocal splits
        if context.agent == "task":
            return 1
        if context.agent == "split":
            splits += 1
            assert observation["points"].shape == (len(observation["action_mask"]), 3)
            return int(np.argmax(observation["points"][:, 1]))
        return heuristic(observation, context)

    with serving(policy, compiler.folder) as uri:
        made = compiler.clang("mixed.c", *REMARKS, model=uri, on_failure="fail")
    assert kinds(made)["split"] == splits > 10
    assert compiler.output(made) == printed


def network(path: Path) -> str:
    """The colour of the first register that is free, or the stack."""
    tensor, node = helper.make_tensor_value_info, helper.make_node
    graph = helper.make_graph(
        [
            node("Cast", ["action_mask"], ["free"], to=TensorProto.FLOAT),
            node("Mul", ["free", "order"], ["score"]),
            node("ArgMax", ["score"], ["colour"], axis=0, keepdims=0),
        ],
        "policy",
        [tensor("action_mask", TensorProto.BOOL, [33])],
        [tensor("colour", TensorProto.INT64, [])],
        [helper.make_tensor("order", TensorProto.FLOAT, [33], [1, *range(40, 8, -1)])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, str(path))
    return str(path)


@pytest.mark.parametrize("scheme", ["native", "onnx"])
def test_a_file_for_one_agent(compiler: Compiler, scheme: str) -> None:
    printed = compiler.output(compiler.clang("mixed.c"))
    network(compiler.folder / "colour.onnx")
    model = f"colour={scheme}:{compiler.folder}/colour.onnx; *={HEURISTIC}"
    made = compiler.clang("mixed.c", model=model, on_failure="fail")
    assert not made.stderr
    assert compiler.output(made) == printed


@pytest.mark.parametrize("kind", ["raises", "dies", "silent", "masked", "far"])
def test_agents_that_fail_in_the_middle(compiler: Compiler, kind: str) -> None:
    plain = compiler.clang("mixed.c")
    printed = compiler.output(plain)
    script = str(Path(__file__).with_name("failing_agents.py"))
    uri = f"unix:{compiler.folder}/agents.sock"
    for on_failure in ("stock", "fail"):
        command = [sys.executable, script, uri, kind]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout and server.stdout.readline() == "ready\n"
                deadline = "300ms" if kind == "silent" else "30s"
                settings = {"model": uri, "deadline": deadline, "on_failure": on_failure}
                made = compiler.clang("mixed.c", **settings)
            finally:
                server.kill()
        if on_failure == "fail":
            assert made.code != 0
            assert "error: register-allocation: " in made.stderr
        else:
            assert len(made.warnings) == 1, made.stderr
            assert "register-allocation: " in made.warnings[0]
            assert compiler.output(made) == printed


def test_models_that_are_not_there_and_options_that_are_wrong(compiler: Compiler) -> None:
    plain = compiler.clang("mixed.c").object
    for model in ("unix:nobody.sock", f"node={HEURISTIC}", "function:nobody", "colour"):
        made = compiler.clang("mixed.c", model=model)
        assert len(made.warnings) == 1, made.stderr
        assert made.object == plain
    for wrong in ({"deadline": "soon"}, {"on_failure": "cry"}, {"levels": "O9"}):
        made = compiler.clang("mixed.c", model=HEURISTIC, **wrong)
        assert made.code != 0
        assert (
            f"-register-allocation-{next(iter(wrong)).replace('_', '-')}: expected" in made.stderr
        )


def output_on_arm(compiler: Compiler, made: Compiled) -> str:
    assert made.code == 0, made.stderr
    program = made.path.with_suffix(".program")
    compiler.run("aarch64-linux-gnu-gcc", "-static", made.path, "-o", program)
    return compiler.run("qemu-aarch64", program).stdout


@pytest.mark.parametrize(
    "model", ["function:random?seed=1", nightly("function:random?seed=2"), nightly(HEURISTIC)]
)
def test_aarch64(compiler: Compiler, model: str) -> None:
    arm = ("--target=aarch64-linux-gnu", "-I/usr/aarch64-linux-gnu/include")
    printed = output_on_arm(compiler, compiler.clang("mixed.c", *arm))
    made = compiler.clang("mixed.c", *arm, *REMARKS, model=model, on_failure="fail")
    assert kinds(made)["colour"] > 150
    assert output_on_arm(compiler, made) == printed


def test_asm_goto_with_outputs_is_left(compiler: Compiler) -> None:
    """LLVM stores such an output, spilled, on one of the ways only."""
    source = compiler.folder / "goto.c"
    source.write_text("""
#include <stdio.h>
__attribute__((noinline)) static int jumps(int x) {
  int y, q = x * 7;
  __asm__ goto("nop" : "=&r"(y) : "r"(x) : "cc" : out);
  return x * 3 + q;
out:
  return y - q;
}
int main(void) { printf("%d\\n", jumps(6)); }
""")
    printed = compiler.output(compiler.clang(source))
    for seed in (17, 21):
        made = compiler.clang(
            source, "-Rpass-missed=register-allocation", model=f"function:random?seed={seed}"
        )
        assert "jumps is left to the greedy allocator: an asm goto gives values" in made.stderr
        assert compiler.output(made) == printed
