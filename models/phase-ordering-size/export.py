# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Write policy.onnx from a checkpoint, and check that ONNX Runtime decides as PyTorch does.

    python models/phase-ordering-size/export.py

The network takes one observation of the plugin; mask and arg max lie inside. The action list goes
along as metadata.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import onnx
import torch
from bridge import OBSERVATION
from corpus import POLICY, WORK, load_actions
from network import Policy
from train import load_policy


def write(policy: Policy, path: Path, metadata: dict[str, str]) -> None:
    """The ONNX model of a policy."""
    choices = policy.choices
    example = {
        "features": torch.zeros(policy.shape["features"]),
        "action_mask": torch.ones(choices),
        "history": torch.zeros(choices),
        "step": torch.zeros(1, dtype=torch.int64),
    }
    torch.onnx.export(
        policy,
        tuple(example.values()),
        path,
        dynamo=False,
        opset_version=17,
        input_names=list(example),
        output_names=["action"],
    )
    model = onnx.load(path)
    onnx.helper.set_model_props(model, metadata)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


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
    metadata = {
        "phase-ordering.actions": actions.text,
        "phase-ordering.observation": OBSERVATION,
        "mlbridge.card": "models/phase-ordering-size/README.md",
        "mlbridge.license": "Apache-2.0 WITH LLVM-exception",
        "mlbridge.objective": "executable bytes of the object after clang-22 -Oz code generation",
        "mlbridge.training": f"seed {content['seed']}, {content['episodes']} episodes over the "
        f"bridge, validation {content['best_row']['validation']:.4f} x -Oz",
    }
    temporary = options.output.with_suffix(".tmp")
    write(policy, temporary, metadata)
    different = check(policy, temporary)
    if different:
        print(f"export: {different} of 2000 decisions differ between PyTorch and ONNX Runtime")
        return 1
    temporary.replace(options.output)
    print(
        f"{options.output}: {options.output.stat().st_size} bytes; {metadata['mlbridge.training']}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
