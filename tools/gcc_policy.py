# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The network of models/gcc-settings, which is one rule.

    gcc_policy.py make [-o FOLDER]
    gcc_policy.py random --seed N -o FOLDER

Of the functions of a file, those without loops that nothing in the file calls are compiled for
size, as models/gcc-settings/README.md says. `random` writes one for tests, which chooses among all
settings by weights of this seed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
from onnx import helper
from policy_networks import FLOAT, INT64, model

ROOT = Path(__file__).resolve().parents[1]
#: As the plugin knows them.
SETTINGS = ["stock", "size", "speed", "inline-less", "inline-more", "unroll", "keep-loops"]
FEATURES, LOOPS, CALLERS = 25, 14, 20


def network(seed: int | None = None) -> onnx.ModelProto:
    weights = np.zeros((FEATURES, len(SETTINGS)), np.float32)
    bias = np.zeros(len(SETTINGS), np.float32)
    if seed is None:
        size = SETTINGS.index("size")
        weights[[LOOPS, CALLERS], size] = -1
        bias[size] = 0.5
    else:
        weights = np.random.default_rng(seed).integers(-9, 10, weights.shape).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["features", "weights"], ["sums"]),
        helper.make_node("Add", ["sums", "bias"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["setting"], axis=0, keepdims=0),
    ]
    return model(
        "gcc-settings",
        nodes,
        {"features": (FLOAT, [FEATURES])},
        {"setting": (INT64, [])},
        {"weights": weights, "bias": bias},
        {"settings": ",".join(SETTINGS)},
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("do", choices=["make", "random"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", type=Path, default=ROOT / "models" / "gcc-settings", dest="folder")
    arguments = parser.parse_args()
    if arguments.do == "random" and arguments.folder == parser.get_default("folder"):
        parser.error("random: expected -o FOLDER, which isn't the shipped network's")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    chosen = network(arguments.seed if arguments.do == "random" else None)
    onnx.save(chosen, arguments.folder / "policy.onnx")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
