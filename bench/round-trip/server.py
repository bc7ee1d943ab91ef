# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The model's side of the round trip, through the library: server.py sweep|small URI."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from policy import LARGEST, SMALL, STEP, weights

import mlbridge

WEIGHTS = weights()
# Made beforehand, as the floor's.
LAYERS = [WEIGHTS[: STEP * i] for i in range(LARGEST // STEP + 1)]


def sweep(observation: Mapping[str, Any], _context: mlbridge.CallContext) -> Any:
    """One fully connected layer."""
    x = observation["x"]
    return x.dot(LAYERS[x.size // STEP])


def small(observation: Mapping[str, Any], _context: mlbridge.CallContext) -> Any:
    """The largest of sixteen."""
    return observation["x"].argmax()


def main() -> None:
    """Serve until stopped."""
    which, uri = sys.argv[1:]
    spec = mlbridge.TensorSpec
    if which == "sweep":
        signature = mlbridge.Signature([spec("x", np.float32, [-1])], [spec("y", np.float32, [1])])
    else:
        signature = mlbridge.Signature([spec("x", np.float32, [SMALL])], [spec("y", np.int64, [1])])
    mlbridge.serve(sweep if which == "sweep" else small, uri, signature)


if __name__ == "__main__":
    main()
