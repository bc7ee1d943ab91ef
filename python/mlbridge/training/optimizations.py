# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The optimizations whose agents are trained: their signatures, the command that starts stock LLVM
with them, and the cost of the code that it makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .._core import Signature, TensorSpec
from ..files import plugin
from ..rewards.loops import iteration_cycles
from ..spills import spill_costs

COLUMNS = 26  # in a description of loop distribution
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
class TrainedAgents:
    """The agents of an optimization, and how they are trained.

    `pipeline` prepares a module for the optimization. `command` compiles a module in a folder, with
    the agents at a URI, or as stock LLVM does if that is ""; `cost` of that folder is the cost of
    the code, in `unit`.
    """

    name: str
    agents: Mapping[str, Signature]
    pipeline: tuple[str, ...]
    command: Callable[[str, str], list[str]]
    cost: Callable[[Path], float]
    #: Added to both costs, so that there is a ratio.
    least: float
    unit: str


def _model_options(name: str, uri: str) -> list[str]:
    return [f"-{name}-model={uri}", f"-{name}-on-failure=fail"] if uri else []


def _allocate(module: str, uri: str) -> list[str]:
    return [
        *("llc-22", "-load", plugin("register-allocation"), "-O2", "-relocation-model=pic"),
        *("-filetype=null", "-pass-remarks-output=out.yaml", "-pass-remarks-filter=regalloc"),
        *(module, "-o", "-"),
        *_model_options("register-allocation", uri),
    ]


def _distribute(module: str, uri: str) -> list[str]:
    plugin_pass = "mlbridge-loop-distribution," if uri else ""
    return [
        *("opt-22", "-load-pass-plugin", plugin("loop-distribution"), module, "-S", "-o", "out.ll"),
        # In the loop for failed comparisons of addresses, values keep only names that they have.
        f"-passes=loop-simplify,lcssa,loop(loop-rotate),instnamer,{plugin_pass}loop-vectorize,"
        "instcombine,simplifycfg,instnamer",
        *_model_options("loop-distribution", uri),
    ]


TRAINED = {
    optimization.name: optimization
    for optimization in (
        TrainedAgents(
            "register-allocation",
            REGISTER_ALLOCATION,
            ("-passes=default<O2>",),
            _allocate,
            lambda folder: sum(spill_costs(folder / "out.yaml").values()),
            1.0,
            "executions of spills, reloads and copies for each call, by LLVM's block frequencies",
        ),
        TrainedAgents(
            "loop-distribution",
            LOOP_DISTRIBUTION,
            # Names that stay would be taken for names that the passes after it give.
            ("-passes=default<O1>", "-disable-loop-unrolling", "-discard-value-names"),
            _distribute,
            lambda folder: iteration_cycles(folder / "out.ll"),
            0.0,
            "cycles that llvm-mca predicts for an iteration of each innermost loop",
        ),
    )
}
