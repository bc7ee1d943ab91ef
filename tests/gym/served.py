# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Environments in place of a compiler: served.py NAME ADDRESS."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import mlbridge
from mlbridge import Signature, TensorSpec, Turn

UNROLLER = {
    "select": Signature([TensorSpec("trips", "int64", [None], [3])], [TensorSpec("loop", "int64")]),
    "unroll": Signature(
        [TensorSpec("action_mask", "bool", [2]), TensorSpec("trips", "int64")],
        [TensorSpec("factor", "int64")],
    ),
}
COUNTDOWN = Signature(
    [TensorSpec("left", "int64"), TensorSpec("about", "string")], [TensorSpec("take", "int64")]
)


class Unroller:
    """Picks loops until none is left, and how often to unroll each."""

    def reset(self, unit: str, seed: int) -> Turn:
        """Three loops."""
        self.trips = [8, 1 + seed % 6, 3]
        return Turn("select", {"trips": self.trips})

    def step(self, agent: str, action: Mapping[str, Any]) -> tuple[Turn, dict[str, float], bool]:
        """Loops are taken modulo their number."""
        if agent == "select":
            self.selected = int(action["loop"]) % len(self.trips)
            trips = self.trips[self.selected]
            return Turn("unroll", {"action_mask": [True, trips >= 4], "trips": trips}), {}, False
        del self.trips[self.selected]
        rewards = {"unroll": float(action["factor"]), "select": -1.0}
        return Turn("select", {"trips": self.trips}), rewards, not self.trips


class Countdown:
    """Counts down. The unit says what goes wrong: "kill 2" in the second step."""

    def reset(self, unit: str, seed: int) -> dict[str, Any]:
        """From 3 to 12."""
        self.left, self.steps, self.unit = 3 + seed % 10, 0, unit
        if unit == "unreadable":
            raise ValueError("this module cannot be read")
        self.maybe("0")
        return {"left": self.left, "about": unit}

    def maybe(self, when: str) -> None:
        """What the unit says of this step."""
        if self.unit == f"kill {when}":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.unit == f"hang {when}":
            time.sleep(60)
        if self.unit == f"fail {when}":
            raise ValueError("the pass failed")

    def step(self, action: Mapping[str, Any]) -> tuple[dict[str, Any], float, bool, bool]:
        """Twenty steps at most."""
        self.left -= int(action["take"])
        self.steps += 1
        self.maybe(str(self.steps))
        seen = {"left": self.left, "about": self.unit}
        return seen, -1.0, self.left <= 0, self.steps == 20


started: list[subprocess.Popen[bytes]] = []


def starter(name: str) -> Callable[[str], subprocess.Popen[bytes]]:
    """Starts the environment `name` in a process of its own."""

    def start(address: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, __file__, name, address]))
        return started[-1]

    return start


if __name__ == "__main__":
    if sys.argv[1] == "unroller":
        mlbridge.serve_environment(Unroller(), sys.argv[2], UNROLLER, keep_serving=True)
    else:
        mlbridge.serve_environment(Countdown(), sys.argv[2], COUNTDOWN, keep_serving=True)
