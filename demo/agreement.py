# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether other engines decided as `onnx:` did, and what a decision that differs was about.

Engines add up a network's sums in different orders, so two actions whose scores are nearly equal
may change places. Such a near-tie is counted and shown; anything else that differs is a failure.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

import mlbridge
from demo.measure import Result
from programs.build import compile_file
from programs.catalog import Program
from programs.plugin import plugin_flags

REFERENCE = "onnx"
# What the native engine promises against ONNX Runtime (src/engine/native/README.md), relative to
# the largest score.
TOLERANCE = 1e-4
PASSED_ON = ("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze")


@dataclass(frozen=True)
class Difference:
    """The first decision of a module that is another one; `gap` is that of the two best scores."""

    program: str
    source: str
    step: int
    expected: int | None
    chosen: int | None
    gap: float | None = None

    def is_near_tie(self) -> bool:
        return self.gap is not None and self.gap <= TOLERANCE

    def __str__(self) -> str:
        gap = "with unknown scores" if self.gap is None else f"{self.gap:.1e} apart"
        return (
            f"{self.program}, {self.source}, step {self.step}: {self.chosen} instead of"
            f" {self.expected}, {gap}"
        )


@dataclass
class Agreement:
    """One engine against the reference. Decisions after a different one are of other modules."""

    engine: str
    programs: list[str] = field(default_factory=list)
    decisions: int = 0
    same: int = 0
    objects: int = 0
    differences: list[Difference] = field(default_factory=list)
    other_objects: list[str] = field(default_factory=list)  # although decided the same

    def near_ties(self) -> list[Difference]:
        return [one for one in self.differences if one.is_near_tie()]

    def different(self) -> list[Difference]:
        return [one for one in self.differences if not one.is_near_tie()]

    def summary(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "engine": self.engine,
            "programs": self.programs,
            "decisions": self.decisions,
            "same": self.same,
            "near_ties": [str(one) for one in self.near_ties()],
            "different": [str(one) for one in self.different()],
            "objects": self.objects,
            "objects_different": self.other_objects,
        }


def first_difference(expected: Sequence[int], chosen: Sequence[int]) -> int | None:
    """The first step at which two episodes part, if they do."""
    pairs = enumerate(zip_longest(expected, chosen))
    return next((step for step, (one, other) in pairs if one != other), None)


def compare(agreement: Agreement, result: Result, engine: str, model: Path) -> None:
    """Add one program's builds to what is known of an engine."""
    expected, build = result.builds[REFERENCE], result.builds[engine]
    agreement.programs.append(result.program.name)
    for source, data in expected.objects.items():
        want, got = ((one.actions or {}).get(source, []) for one in (expected, build))
        step = first_difference(want, got)
        if step is not None:
            at = [episode[step] if step < len(episode) else None for episode in (want, got)]
            gap = gap_at(step, source, result.program, model)
            agreement.differences.append(
                Difference(result.program.name, source, step, at[0], at[1], gap)
            )
            agreement.decisions += step + 1
            agreement.same += step
            continue
        agreement.decisions += len(want)
        agreement.same += len(want)
        agreement.objects += 1
        if build.objects.get(source) != data:
            agreement.other_objects.append(f"{result.program.name}, {source}")


def agreements(results: Sequence[Result], model: Path) -> list[Agreement]:
    """Each engine that was asked besides the reference, of the programs for which it was; scores
    are looked up where they differ."""
    found: dict[str, Agreement] = {}
    for result in results:
        for name, build in result.builds.items():
            if build.actions is not None and name != REFERENCE:
                compare(found.setdefault(name, Agreement(name)), result, name, model)
    return list(found.values())


def gap_at(step: int, source: str, program: Program, model: Path) -> float | None:
    """The gap of the scores in a step, if known: the reference decides the module once more."""
    try:
        with scoring_server(model) as (uri, gaps), tempfile.TemporaryDirectory() as folder:
            flags = ["-Oz", *plugin_flags(uri)]
            target = Path(folder) / "object.o"
            compile_file(program, source, target, flags=flags)
    except Unscored:
        return None
    return gaps[step] if step < len(gaps) else None


class Unscored(Exception):
    """The network's action is no ArgMax, so that nothing is known of its scores."""


def scored(model: onnx.ModelProto) -> tuple[onnx.ModelProto, str]:
    """The network with what its ArgMax chooses from as another output, and that output's name."""
    makers = {name: node for node in model.graph.node for name in node.output}
    node = makers.get(model.graph.output[0].name)
    while node is not None and node.op_type in PASSED_ON:
        node = makers.get(node.input[0])
    if node is None or node.op_type != "ArgMax":
        raise Unscored
    name = node.input[0]
    model.graph.output.append(onnx.ValueInfoProto(name=name))
    return model, name


def gap_of(scores: np.ndarray[Any, Any]) -> float:
    """The distance of the two largest, as a part of the larger one."""
    second, best = np.sort(scores.astype(np.float64).ravel())[-2:]
    return float((best - second) / max(abs(best), abs(second), np.finfo(np.float32).tiny))


@contextmanager
def scoring_server(model: Path) -> Iterator[tuple[str, list[float]]]:
    """Serves the network from this process at a URI, and keeps the gap of the scores of each
    answer."""
    loaded, name = scored(onnx.load(model))
    session = onnxruntime.InferenceSession(
        loaded.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    opened = mlbridge.Model.open(f"onnx:{model}")
    signature = opened.model_signature
    assert signature is not None
    output = signature.outputs[0].name
    gaps: list[float] = []

    def answer(observation: Mapping[str, Any], _: mlbridge.CallContext) -> dict[str, Any]:
        action, scores = session.run([output, name], dict(observation))
        gaps.append(gap_of(scores))
        return {output: action}

    with (
        tempfile.TemporaryDirectory(prefix="mlbridge-scores-") as folder,
        mlbridge.Server(f"unix:{folder}/scores.sock", signature, opened.metadata) as server,
    ):
        thread = threading.Thread(target=server.serve_forever, args=(answer,))
        thread.start()
        try:
            yield server.address, gaps
        finally:
            server.stop()
            thread.join()
