# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What users of policy.onnx rely on: its metadata, its signature, its respect for the mask."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime isn't installed")

HERE = Path(__file__).resolve().parent
POLICY = HERE / "policy.onnx"
ACTIONS = json.loads((HERE / "actions.json").read_text())
MOST_PASSES = 15
ADAPTORS = {"function", "loop", "loop-mssa", "cgscc", "devirt", "module", "repeat"}


def passes_of(pipeline: str) -> list[str]:
    """The passes that a pipeline's text names, without adaptors and their parameters."""
    without_parameters = re.sub(r"<[^<>]*>", "", pipeline)
    return [n for n in re.split(r"[(),\s]+", without_parameters) if n and n not in ADAPTORS]


@pytest.fixture(scope="module")
def session() -> Any:
    return onnxruntime.InferenceSession(str(POLICY), providers=["CPUExecutionProvider"])


@pytest.fixture(scope="module")
def metadata(session: Any) -> dict[str, str]:
    found: dict[str, str] = session.get_modelmeta().custom_metadata_map
    return found


def observation(session: Any, generator: np.random.Generator) -> dict[str, Any]:
    shapes = {i.name: i.shape for i in session.get_inputs()}
    mask = np.zeros(shapes["action_mask"], np.float32)
    mask[generator.integers(0, len(mask), 3)] = 1.0
    return {
        "features": generator.normal(0, 2, shapes["features"]).astype(np.float32),
        "action_mask": mask,
        "history": generator.integers(0, 3, shapes["history"]).astype(np.float32),
        "step": generator.integers(0, 12, shapes["step"]),
    }


def test_signature_is_that_of_the_plugin(session: Any) -> None:
    choices = len(ACTIONS["actions"]) + 1  # the last means stop
    inputs = {i.name: (i.type, i.shape) for i in session.get_inputs()}
    assert inputs == {
        "features": ("tensor(float)", [120]),
        "action_mask": ("tensor(float)", [choices]),
        "history": ("tensor(float)", [choices]),
        "step": ("tensor(int64)", [1]),
    }
    assert [(o.name, o.type, o.shape) for o in session.get_outputs()] == [
        ("action", "tensor(int64)", [1])
    ]


def test_metadata_holds_the_committed_action_list(metadata: dict[str, str]) -> None:
    assert metadata["phase-ordering.observation"] == "phase-ordering-counts-1"
    listed = json.loads(metadata["phase-ordering.actions"])
    assert listed == ACTIONS


def test_no_action_is_a_stock_pipeline(metadata: dict[str, str]) -> None:
    for action in json.loads(metadata["phase-ordering.actions"])["actions"]:
        passes = passes_of(action["passes"])
        assert 1 <= len(passes) <= MOST_PASSES, action["name"]
        assert not any(re.match(r"(default|lto|thinlto)", name) for name in passes), action["name"]
        if "instcombine" in passes:  # else it aborts the compiler where it finds no fixpoint
            assert "instcombine<no-verify-fixpoint>" in action["passes"]


def test_passes_are_counted_through_adaptors() -> None:
    text = "cgscc(devirt<4>(inline,function(sroa<modify-cfg>,early-cse<memssa>))),globaldce"
    assert passes_of(text) == ["inline", "sroa", "early-cse", "globaldce"]


def test_only_allowed_actions_are_chosen(session: Any) -> None:
    generator = np.random.default_rng(1)
    for _ in range(300):
        inputs = observation(session, generator)
        action = session.run(["action"], inputs)[0]
        assert action.shape == (1,)
        assert inputs["action_mask"][action[0]] == 1.0


def test_the_file_is_small() -> None:
    assert POLICY.stat().st_size < 500_000


def test_fixed_order_names_its_groups() -> None:
    fixed = json.loads((HERE / "best-fixed-order.json").read_text())
    assert [ACTIONS["actions"][a]["name"] for a in fixed["order"]] == fixed["names"]
