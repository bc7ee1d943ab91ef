# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""With an effort no allocation costs more than LLVM's, whatever the model says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import policies
import pytest
from compiler import Compiled, Compiler, options, serving

from mlbridge.spills import spill_costs


def costs(compiler: Compiler, source: str, **settings: Any) -> dict[str, float]:
    """The spill costs of each function."""
    record = compiler.folder / "record.yaml"
    remarks = (f"-pass-remarks-output={record}", "-pass-remarks-filter=^regalloc$")
    compiler.llc(compiler.bitcode(source), *remarks, **settings).checked()
    return spill_costs(record)


@pytest.mark.parametrize("source", ["floats.c", "integers.cpp"])
def test_no_function_costs_more_than_by_llvm(each_compiler: Compiler, source: str) -> None:
    compiler = each_compiler
    bad = f"native:{policies.least_used(compiler.folder / 'policy.onnx')}"
    usual = costs(compiler, source)
    believed = costs(compiler, source, model=bad, on_failure="fail")
    assert any(believed[name] > usual[name] for name in usual), "it is a bad policy"
    for effort in (1, 20):
        tried = costs(compiler, source, model=bad, on_failure="fail", effort=effort)
        assert all(tried[name] <= usual[name] for name in usual), effort


def test_what_is_better_is_kept_and_reported(each_compiler: Compiler) -> None:
    compiler = each_compiler
    bitcode = compiler.bitcode("integers.cpp")
    printed = compiler.output(compiler.llc(bitcode))
    model = f"native:{policies.least_used(compiler.folder / 'policy.onnx')}"
    settings: dict[str, Any] = {"model": model, "on_failure": "fail"}
    usual = costs(compiler, "integers.cpp")
    kept = costs(compiler, "integers.cpp", effort=40, **settings)
    made = compiler.llc(bitcode, "-pass-remarks=regalloc-eviction", effort=40, **settings)
    assert compiler.output(made) == printed
    reported = re.findall(
        r"remark: .*: (\S+): spills, .* cost (\S+) instead of (\S+)$", made.stderr, re.M
    )
    assert reported and len(made.stderr.splitlines()) == len(reported), "trials print nothing"
    last = {name: (float(cost), float(instead)) for name, cost, instead in reported}
    first = {name: float(instead) for name, _, instead in reversed(reported)}
    for name, (cost, instead) in last.items():
        assert cost < instead
        assert kept[name] == pytest.approx(cost)
        assert usual[name] == pytest.approx(first[name])
    assert {name for name in usual if kept[name] < usual[name]} == set(last)
    assert compiler.llc(bitcode, effort=40, **settings).object == made.object, "reproducible"


def test_a_model_that_agrees_with_llvm_costs_no_trial(compiler: Compiler) -> None:
    bitcode = compiler.bitcode("floats.c")
    plain = compiler.llc(bitcode).object
    model = f"native:{policies.stock(compiler.folder / 'policy.onnx')}"
    assert compiler.llc(bitcode, model=model, on_failure="fail", effort=9).object == plain


def tried(compiler: Compiler, then: str, source: str = "integers.cpp", **settings: Any) -> Compiled:
    """A model that does something in the processes that try."""
    model = compiler.folder / "tried.so"
    include = Path(__file__).resolve().parents[4] / "include"
    shared = ["-O1", "-fPIC", "-shared", f"-I{include}"]
    compiler.run("clang-22", *shared, compiler.inputs / "tried.c", "-o", model)
    compiler.environment = {"WHEN_TRIED": then}
    return compiler.llc(compiler.bitcode(source), model=f"aot:{model}", effort=3, **settings)


@pytest.mark.parametrize("then", ["crash", "exit"])
def test_a_trial_that_ends_is_noticed(each_compiler: Compiler, then: str) -> None:
    compiler = each_compiler
    plain = compiler.llc(compiler.bitcode("integers.cpp")).object
    made = tried(compiler, then)
    assert made.stderr.count("warning:") == 1 and "error:" not in made.stderr
    assert "a process that tried an allocation ended too early" in made.stderr
    assert "LLVM's own heuristic decides" in made.stderr
    assert made.object == plain
    failed = tried(compiler, then, on_failure="fail")
    assert (
        failed.code != 0 and "a process that tried an allocation ended too early" in failed.stderr
    )


def test_a_model_that_fails_when_tried_has_failed(each_compiler: Compiler) -> None:
    compiler = each_compiler
    plain = compiler.llc(compiler.bitcode("integers.cpp")).object
    made = tried(compiler, "fail")
    assert made.stderr.count("warning:") == 1 and "LLVM's own heuristic decides" in made.stderr
    assert made.object == plain
    assert tried(compiler, "fail", on_failure="fail").code != 0


@pytest.mark.nightly
def test_a_trial_that_does_not_end_is_ended(compiler: Compiler) -> None:
    """After a minute."""
    plain = compiler.llc(compiler.bitcode("integers.cpp")).object
    made = tried(compiler, "hang")
    assert made.stderr.count("warning:") == 1 and "took longer than a minute" in made.stderr
    assert made.object == plain


def test_trials_are_silent(compiler: Compiler) -> None:
    assert not tried(compiler, "print").stderr


@pytest.mark.parametrize("effort", ["-1", "101", "many", "1.5"])
def test_an_effort_that_makes_no_sense(compiler: Compiler, effort: str) -> None:
    model = "native:" + policies.least_used(compiler.folder / "policy.onnx")
    made = compiler.llc(compiler.bitcode("floats.c"), model=model, effort=effort)
    assert made.code != 0
    assert f"-regalloc-eviction-effort: expected 0 to 100, got '{effort}'" in made.stderr


@pytest.mark.parametrize("optimization", ["eviction", "priority"])
def test_a_connection_is_not_shared(compiler: Compiler, optimization: str) -> None:
    """By processes that would read each other's answers."""
    inside = "native:" + policies.least_used(compiler.folder / "policy.onnx")
    with serving(lambda features, _: features["li_size"], compiler.folder) as uri:
        models = {"eviction": inside, optimization: uri}
        asking = [o for q, m in models.items() for o in options(f"regalloc-{q}", model=m)]
        bitcode = compiler.bitcode("floats.c")
        made = compiler.llc(bitcode, *asking, effort=1)
    assert made.code != 0 and "can't share a connection" in made.stderr and uri in made.stderr


def test_a_link_with_threads_compares_nothing(compiler: Compiler) -> None:
    folder = compiler.folder
    driver = ("clang++-22", "-O2", "-flto=thin", "-fPIC")
    compiler.run(*driver, "-c", compiler.inputs / "integers.cpp", "-o", folder / "part.o")
    model = "native:" + policies.least_used(folder / "policy.onnx")
    line = [*driver, "-shared", "-fuse-ld=lld", f"-Wl,--load-pass-plugin={compiler.plugin}"]
    made = [folder / "stock.so", folder / "asked.so"]
    compiler.run(*line, folder / "part.o", "-o", made[0])
    environment = {
        "MLBRIDGE_REGALLOC_EVICTION_MODEL": model,
        "MLBRIDGE_REGALLOC_EVICTION_EFFORT": "1",
    }
    done = compiler.run(*line, folder / "part.o", "-o", made[1], environment=environment)
    assert done.stderr.count("warning:") == 1
    assert "this process has several threads" in done.stderr
    assert made[0].read_bytes() == made[1].read_bytes()
