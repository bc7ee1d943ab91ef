# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An environment that gives NaN: unsound.py URI reward|observation."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import mlbridge
from mlbridge import Signature, TensorSpec

NAN = float("nan")
SIGNATURE = Signature(
    [TensorSpec("action_mask", "bool", [3]), TensorSpec("left", "float32")],
    [TensorSpec("take", "int64")],
)


class Unsound:
    """Never done."""

    def __init__(self, what: str) -> None:
        self.left, self.reward = (NAN, 1.0) if what == "observation" else (1.0, NAN)

    def seen(self) -> dict[str, Any]:
        """Everything is allowed."""
        return {"action_mask": [True] * 3, "left": self.left}

    def reset(self, unit: str, seed: int) -> dict[str, Any]:
        """Always the same."""
        return self.seen()

    def step(self, action: Mapping[str, Any]) -> tuple[dict[str, Any], float, bool]:
        """Always the same."""
        return self.seen(), self.reward, False


if __name__ == "__main__":
    environment = Unsound(sys.argv[2])
    mlbridge.serve_environment(environment, sys.argv[1], SIGNATURE, keep_serving=True)
