# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""With an effort no allocation costs more than LLVM's, whatever the model says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import policies
import pytest
from allocator import INPUTS, Allocator, Made, serving

from mlbridge.spills import spill_costs


def costs(allocator: Allocator, source: str, **settings: Any) -> dict[str, float]:
    """Of each function."""
    record = allocator.folder / "record.yaml"
    remarks = (f"-pass-remarks-output={record}", "-pass-remarks-filter=^regalloc$")
    allocator.llc(allocator.bitcode(source), *remarks, **settings)
    return spill_costs(record)


@pytest.mark.parametrize("source", ["floats.c", "integers.cpp"])
def test_no_function_costs_more_than_by_llvm(each_allocator: Allocator, source: str) -> None:
    allocator = each_allocator
    bad = f"native:{policies.least_used(allocator.folder / 'policy.onnx')}"
    usual = costs(allocator, source)
    believed = costs(allocator, source, model=bad, on_failure="fail")
    assert any(believed[name] > usual[name] for name in usual), "it is a bad policy"
    for effort in (1, 20):
        tried = costs(allocator, source, model=bad, on_failure="fail", effort=effort)
        assert all(tried[name] <= usual[name] for name in usual), effort


def test_what_is_better_is_kept_and_reported(each_allocator: Allocator) -> None:
    allocator = each_allocator
    bitcode = allocator.bitcode("integers.cpp")
    printed = allocator.output(allocator.llc(bitcode))
    model = f"native:{policies.least_used(allocator.folder / 'policy.onnx')}"
    settings: dict[str, Any] = {"model": model, "on_failure": "fail"}
    usual = costs(allocator, "integers.cpp")
    kept = costs(allocator, "integers.cpp", effort=40, **settings)
    made = allocator.llc(bitcode, "-pass-remarks=regalloc-eviction", effort=40, **settings)
    assert allocator.output(made) == printed
    reported = re.findall(
        r"remark: .*: (\S+): spills, .* cost (\S+) instead of (\S+)$", made.said, re.M
    )
    assert reported and len(made.said.splitlines()) == len(reported), "trials print nothing"
    last = {name: (float(cost), float(instead)) for name, cost, instead in reported}
    first = {name: float(instead) for name, _, instead in reversed(reported)}
    for name, (cost, instead) in last.items():
        assert cost < instead
        assert kept[name] == pytest.approx(cost)
        assert usual[name] == pytest.approx(first[name])
    assert {name for name in usual if kept[name] < usual[name]} == set(last)
    assert allocator.llc(bitcode, effort=40, **settings).object == made.object, "reproducible"


def test_a_model_that_agrees_with_llvm_costs_no_trial(allocator: Allocator) -> None:
    bitcode = allocator.bitcode("floats.c")
    plain = allocator.llc(bitcode).object
    model = f"native:{policies.stock(allocator.folder / 'policy.onnx')}"
    assert allocator.llc(bitcode, model=model, on_failure="fail", effort=9).object == plain


def tried(allocator: Allocator, then: str, source: str = "integers.cpp", **settings: Any) -> Made:
    """A model that does something in the processes that try."""
    model = allocator.folder / "tried.so"
    include = Path(__file__).resolve().parents[4] / "include"
    shared = ["-O1", "-fPIC", "-shared", f"-I{include}"]
    allocator.run("clang-22", *shared, INPUTS / "tried.c", "-o", model)
    allocator.environment = {"WHEN_TRIED": then}
    return allocator.llc(allocator.bitcode(source), model=f"aot:{model}", effort=3, **settings)


@pytest.mark.parametrize("then", ["crash", "exit"])
def test_a_trial_that_ends_is_noticed(each_allocator: Allocator, then: str) -> None:
    allocator = each_allocator
    plain = allocator.llc(allocator.bitcode("integers.cpp")).object
    made = tried(allocator, then)
    assert made.said.count("warning:") == 1 and "error:" not in made.said
    assert "a process that tried an allocation ended too early" in made.said
    assert "LLVM's own heuristic decides" in made.said
    assert made.object == plain
    failed = tried(allocator, then, on_failure="fail", check=False)
    assert failed.code != 0 and "a process that tried an allocation ended too early" in failed.said


def test_a_model_that_fails_when_tried_has_failed(each_allocator: Allocator) -> None:
    allocator = each_allocator
    plain = allocator.llc(allocator.bitcode("integers.cpp")).object
    made = tried(allocator, "fail")
    assert made.said.count("warning:") == 1 and "LLVM's own heuristic decides" in made.said
    assert made.object == plain
    assert tried(allocator, "fail", on_failure="fail", check=False).code != 0


@pytest.mark.nightly
def test_a_trial_that_does_not_end_is_ended(allocator: Allocator) -> None:
    """After a minute."""
    plain = allocator.llc(allocator.bitcode("integers.cpp")).object
    made = tried(allocator, "hang")
    assert made.said.count("warning:") == 1 and "took longer than a minute" in made.said
    assert made.object == plain


def test_trials_are_silent(allocator: Allocator) -> None:
    assert not tried(allocator, "print").said


@pytest.mark.parametrize("effort", ["-1", "101", "many", "1.5"])
def test_an_effort_that_makes_no_sense(allocator: Allocator, effort: str) -> None:
    model = "native:" + policies.least_used(allocator.folder / "policy.onnx")
    made = allocator.llc(allocator.bitcode("floats.c"), check=False, model=model, effort=effort)
    assert made.code != 0
    assert f"-regalloc-eviction-effort: expected 0 to 100, got '{effort}'" in made.said


@pytest.mark.parametrize("optimization", ["eviction", "priority"])
def test_a_connection_is_not_shared(allocator: Allocator, optimization: str) -> None:
    """By processes that would read each other's answers."""
    inside = "native:" + policies.least_used(allocator.folder / "policy.onnx")
    with serving(lambda features, _: features["li_size"], allocator.folder / "socket") as uri:
        models = {"eviction": inside, optimization: uri}
        options = [o for q, m in models.items() for o in allocator.options({"model": m}, q)]
        bitcode = allocator.bitcode("floats.c")
        made = allocator.llc(bitcode, *options, check=False, effort=1)
    assert made.code != 0 and "can't share a connection" in made.said and uri in made.said


def test_a_link_with_threads_compares_nothing(allocator: Allocator) -> None:
    folder = allocator.folder
    compiler = ["clang++-22", "-O2", "-flto=thin", "-fPIC"]
    allocator.run(*compiler, "-c", INPUTS / "integers.cpp", "-o", folder / "part.o")
    model = "native:" + policies.least_used(folder / "policy.onnx")
    line = [*compiler, "-shared", "-fuse-ld=lld", f"-Wl,--load-pass-plugin={allocator.plugin}"]
    made = [folder / "stock.so", folder / "asked.so"]
    allocator.run(*line, folder / "part.o", "-o", made[0])
    environment = {
        "MLBRIDGE_REGALLOC_EVICTION_MODEL": model,
        "MLBRIDGE_REGALLOC_EVICTION_EFFORT": "1",
    }
    done = allocator.run(*line, folder / "part.o", "-o", made[1], environment=environment)
    assert done.stderr.count("warning:") == 1
    assert "this process has several threads" in done.stderr
    assert made[0].read_bytes() == made[1].read_bytes()
