# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Write policy.onnx from a checkpoint, and check that ONNX Runtime decides as PyTorch does.

    python models/phase-ordering-size/export.py

The graph is written operator by operator, so that the file depends on no exporter's version. It
takes one observation of the plugin; mask and arg max lie inside. The action list goes along as
metadata.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import torch
from corpus import POLICY, WORK, ActionList, load_actions
from network import MASKED, MOST_REPEATS, STEP_SCALE, Member, Policy
from onnx import TensorProto, helper, numpy_helper
from train import load_policy

OPSET = 17
IR_VERSION = 8
OBSERVATION = "phase-ordering-counts-1"


class Graph:
    """Nodes and constants under construction."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: Any) -> str:
        """Add a constant."""
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add an operator with one output."""
        self.nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output


def floats(value: float) -> np.ndarray[Any, Any]:
    """A scalar constant."""
    return np.array(value, np.float32)


def member_votes(graph: Graph, member: Member, index: int, inputs: str) -> str:
    """One perceptron's log-probabilities, [1, choices]."""
    prefix = f"member{index}_"
    mean = graph.constant(prefix + "mean", member.mean.numpy())
    scale = graph.constant(prefix + "scale", 1.0 / member.deviation.numpy())
    centred = graph.add("Sub", [inputs, mean], prefix + "centred")
    scaled = graph.add("Mul", [centred, scale], prefix + "scaled")
    value = graph.add("Clip", [scaled, "least", "most"], prefix + "input")
    linear = [layer for layer in member.layers if isinstance(layer, torch.nn.Linear)]
    for number, layer in enumerate(linear):
        name = f"{prefix}layer{number}"
        weight = graph.constant(name + "_weight", layer.weight.detach().numpy().T)
        bias = graph.constant(name + "_bias", layer.bias.detach().numpy())
        value = graph.add("Gemm", [value, weight, bias], name)
        if number + 1 < len(linear):
            value = graph.add("Relu", [value], name + "_relu")
    return graph.add("LogSoftmax", [value], prefix + "votes", axis=-1)


def build(policy: Policy, actions: ActionList, provenance: dict[str, str]) -> Any:
    """The ONNX model of a policy."""
    graph = Graph()
    for name, value in (
        ("zero", 0.0),
        ("most_repeats", MOST_REPEATS),
        ("step_scale", 1.0 / STEP_SCALE),
        ("least", -4.0),
        ("most", 4.0),
        ("half", 0.5),
        ("masked", MASKED),
    ):
        graph.constant(name, floats(value))
    graph.constant("first_axis", np.array([0], np.int64))
    often = graph.add("Clip", ["history", "zero", "most_repeats"], "often")
    number = graph.add("Cast", ["step"], "step_number", to=TensorProto.FLOAT)
    progress = graph.add("Mul", [number, "step_scale"], "progress")
    flat = graph.add("Concat", ["features", often, progress], "flat", axis=0)
    inputs = graph.add("Unsqueeze", [flat, "first_axis"], "inputs")
    votes = [
        member_votes(graph, cast(Member, member), index, inputs)
        for index, member in enumerate(policy.members)
    ]
    total = graph.add("Sum", votes, "total")
    row = graph.add("Squeeze", [total, "first_axis"], "row")
    allowed = graph.add("Greater", ["action_mask", "half"], "allowed")
    ranked = graph.add("Where", [allowed, row, "masked"], "ranked")
    graph.add("ArgMax", [ranked], "action", axis=0, keepdims=1)
    features, choices = policy.shape["features"], policy.choices
    inputs_info = [
        helper.make_tensor_value_info("features", TensorProto.FLOAT, [features]),
        helper.make_tensor_value_info("action_mask", TensorProto.FLOAT, [choices]),
        helper.make_tensor_value_info("history", TensorProto.FLOAT, [choices]),
        helper.make_tensor_value_info("step", TensorProto.INT64, [1]),
    ]
    output = helper.make_tensor_value_info("action", TensorProto.INT64, [1])
    model = helper.make_model(
        helper.make_graph(
            graph.nodes, "phase-ordering-size", inputs_info, [output], graph.constants
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        producer_name="mlbridge phase-ordering-size",
    )
    model.ir_version = IR_VERSION
    helper.set_model_props(
        model,
        {
            "phase-ordering.actions": actions.text,
            "phase-ordering.observation": OBSERVATION,
            **provenance,
        },
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def check(policy: Policy, path: Path, tries: int = 2000) -> int:
    """Compare PyTorch and ONNX Runtime; gives the number of different decisions."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    generator = np.random.default_rng(0)
    different = 0
    for _ in range(tries):
        observation = {
            "features": generator.normal(0, 1, policy.shape["features"]).astype(np.float32),
            "action_mask": (generator.random(policy.choices) < 0.7).astype(np.float32),
            "history": generator.integers(0, 4, policy.choices).astype(np.float32),
            "step": generator.integers(0, 12, 1),
        }
        observation["action_mask"][-1] = 1.0
        with torch.no_grad():
            expected = policy(**{k: torch.from_numpy(v) for k, v in observation.items()})
        got = session.run(["action"], observation)[0]
        different += int(got[0] != int(expected[0]))
    return different


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--checkpoint", type=Path, default=WORK / "checkpoint.pt")
    parser.add_argument("--output", type=Path, default=POLICY)
    options = parser.parse_args(arguments)
    policy, content = load_policy(options.checkpoint)
    actions = load_actions()
    if policy.choices != actions.stop + 1:
        print(f"export: the policy has {policy.choices} choices, the list {actions.stop} groups")
        return 1
    provenance = {
        "mlbridge.card": "models/phase-ordering-size/README.md",
        "mlbridge.license": "Apache-2.0 WITH LLVM-exception",
        "mlbridge.objective": "executable bytes of the object after clang-22 -Oz code generation",
        "mlbridge.training": f"seed {content['seed']}, {content['episodes']} episodes over the "
        f"bridge, validation {content['best_row']['validation']:.4f} x -Oz",
    }
    temporary = options.output.with_suffix(".tmp")
    onnx.save(build(policy, actions, provenance), str(temporary))
    different = check(policy, temporary)
    if different:
        print(f"export: {different} of 2000 decisions differ between PyTorch and ONNX Runtime")
        return 1
    temporary.replace(options.output)
    print(f"{options.output}: {options.output.stat().st_size} bytes; {provenance}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
