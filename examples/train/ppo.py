# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains a policy of phase ordering, and writes it as an ONNX file for unmodified clang.

    python3 ppo.py MODULE.bc … --steps 20000 -o policy.onnx
    clang-22 $(mlbridge flags phase-ordering --model native:policy.onnx) -Oz -c f.c

Gymnasium drives stock opt; Maskable PPO of Stable-Baselines3 learns to make objects smaller.
"""

import argparse
import sys
from typing import Any

import gymnasium
import numpy as np
import onnx
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.logger import HumanOutputFormat, Logger

import mlbridge.gym  # noqa: F401 - registers the environment


class Policy(torch.nn.Module):
    """Gives the best action that the mask allows; the pass has its inputs by name."""

    def __init__(self, trained: Any) -> None:
        super().__init__()
        self.names = list(trained.observation_space.spaces)
        self.layers, self.last = trained.mlp_extractor, trained.action_net

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        seen = dict(zip(self.names, inputs, strict=True))
        vector = torch.cat([seen[name].reshape(1, -1).float() for name in self.names], 1)
        scores = self.last(self.layers.forward_actor(vector))
        return torch.where(seen["action_mask"].reshape(1, -1) > 0, scores, -1e9).argmax(1)


def export(policy: Policy, env: Any, path: str) -> None:
    """Writes the policy with the metadata that the pass compares: groups of passes, observation."""
    specs = {spec.name: spec for spec in env.layout.signature.inputs}
    zeros = [np.zeros(specs[name].shape, specs[name].dtype) for name in policy.names]
    torch.onnx.export(
        policy, tuple(map(torch.from_numpy, zeros)), path, dynamo=False, opset_version=17,
        input_names=policy.names, output_names=["action"],
    )  # fmt: skip
    model = onnx.load(path)
    onnx.helper.set_model_props(model, env.model_metadata)
    onnx.save(model, path)


def play(model: Any, env: Any) -> tuple[str, int, int]:
    """An episode without chance: its module, and its executable bytes beside those of -Oz."""
    observation, info = env.reset()
    over = False
    while not over:
        action, _ = model.predict(observation, action_masks=info["action_mask"], deterministic=True)
        observation, _, terminated, truncated, info = env.step(int(action))
        over = terminated or truncated
    return info["unit"], int(info["code_bytes"][0]), int(info["oz_code_bytes"][0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="+", help="unoptimized bitcode, or folders of it")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", dest="output", default="policy.onnx")
    options = parser.parse_args()
    env = gymnasium.make("mlbridge/PhaseOrdering-v0", corpus=options.modules)
    model = MaskablePPO("MultiInputPolicy", env, n_steps=256, device="cpu", seed=options.seed)
    model.set_logger(Logger(None, [HumanOutputFormat(sys.stdout)]))
    model.learn(options.steps)
    print("{}: {} bytes, {} at -Oz".format(*play(model, env)))
    export(Policy(model.policy).eval(), env.unwrapped, options.output)
    env.close()


if __name__ == "__main__":
    main()
