# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The optimizations whose agents are trained: what they are shown, how stock LLVM is started with
them, and what the code that it makes costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .._core import Signature, TensorSpec
from ..files import plugin
from ..rewards.loops import iteration_cycles
from ..spills import spill_costs

COLUMNS = 26  # of loop distribution's descriptions
MASK = TensorSpec("action_mask", "bool", [2])


def _many(name: str, kind: str, most: int, *columns: int) -> TensorSpec:
    return TensorSpec(name, kind, [None, *columns], [most, *(0 for _ in columns)])


def _agent(inputs: list[TensorSpec], output: str) -> Signature:
    return Signature(inputs, [TensorSpec(output, "int64")])


def _floats(name: str, *shape: int) -> TensorSpec:
    return TensorSpec(name, "float32", list(shape))


REGISTER_ALLOCATION = {
    "node": _agent(
        [
            _many("action_mask", "bool", 2048),
            _many("spill_weights", "float32", 2048),
            _many("annotations", "float32", 2048, 5),
            _many("edges", "int32", 65536, 2),
        ],
        "node",
    ),
    "task": _agent([MASK, _floats("node_properties", 9)], "task"),
    "colour": _agent(
        [
            TensorSpec("action_mask", "bool", [33]),
            _floats("node_properties", 5),
            _floats("registers", 33, 5),
        ],
        "colour",
    ),
    "split": _agent(
        [_many("action_mask", "bool", 200), _many("points", "float32", 200, 3)], "point"
    ),
}
LOOP_DISTRIBUTION = {
    "node": _agent(
        [
            _many("action_mask", "bool", 64),
            _many("nodes", "float32", 64, COLUMNS),
            _many("edges", "int32", 64 * 63 // 2, 2),
            _floats("previous", COLUMNS),
        ],
        "node",
    ),
    "distribute": _agent(
        [
            MASK,
            *(_floats(n, COLUMNS) for n in ("node", "previous", "together", "rest", "whole")),
            TensorSpec("checks", "int64", []),
        ],
        "distribute",
    ),
}


@dataclass(frozen=True)
class Optimization:
    """`pipeline` makes of a module what the optimization gets. `command` compiles a module with the
    agents at a URI, or as stock LLVM does if that is "", in the folder of which `cost` then tells
    what the code costs, in `unit`."""

    name: str
    agents: Mapping[str, Signature]
    pipeline: tuple[str, ...]
    command: Callable[[str, str], list[str]]
    cost: Callable[[Path], float]
    #: What is added to both costs, so that there is a ratio.
    least: float
    unit: str


def _asking(name: str, uri: str) -> list[str]:
    return [f"-{name}-model={uri}", f"-{name}-on-failure=fail"] if uri else []


def _allocate(module: str, uri: str) -> list[str]:
    return [
        *("llc-22", "-load", plugin("register-allocation"), "-O2", "-relocation-model=pic"),
        *("-filetype=null", "-pass-remarks-output=out.yaml", "-pass-remarks-filter=regalloc"),
        *(module, "-o", "-"),
        *_asking("register-allocation", uri),
    ]


def _distribute(module: str, uri: str) -> list[str]:
    asked = "mlbridge-loop-distribution," if uri else ""
    return [
        *("opt-22", "-load-pass-plugin", plugin("loop-distribution"), module, "-S", "-o", "out.ll"),
        # Only what has a name keeps it in the loop for when comparisons of addresses fail.
        f"-passes=loop-simplify,lcssa,loop(loop-rotate),instnamer,{asked}loop-vectorize,"
        "instcombine,simplifycfg,instnamer",
        *_asking("loop-distribution", uri),
    ]


OPTIMIZATIONS = {
    its.name: its
    for its in (
        Optimization(
            "register-allocation",
            REGISTER_ALLOCATION,
            ("-passes=default<O2>",),
            _allocate,
            lambda folder: sum(spill_costs(folder / "out.yaml").values()),
            1.0,
            "executions of spills, reloads and copies for each call, by LLVM's block frequencies",
        ),
        Optimization(
            "loop-distribution",
            LOOP_DISTRIBUTION,
            # Names that stay would be taken for those that the passes after it give.
            ("-passes=default<O1>", "-disable-loop-unrolling", "-discard-value-names"),
            _distribute,
            lambda folder: iteration_cycles(folder / "out.ll"),
            0.0,
            "cycles that llvm-mca predicts for an iteration of each innermost loop",
        ),
    )
}
