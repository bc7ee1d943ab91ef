# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A server for the tests: python3 policy_server.py URI BEHAVIOUR [ARGUMENT]. Prints "ready".

sequence I,J,…   these actions, then stop         raise K     raises at step K
die K            ends the process at step K       block K     never answers at step K
answer X         this action (text is answered as text)
actions FILE     that list of actions as metadata; action 0, then stop
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlbridge


def main() -> None:
    uri, behaviour, argument = sys.argv[1], sys.argv[2], [*sys.argv, ""][3]
    metadata = {}
    if behaviour == "actions":
        metadata["phase-ordering.actions"] = Path(argument).read_text()

    def policy(observation: Mapping[str, Any], context: mlbridge.CallContext) -> Any:
        step = int(observation["step"][0])
        stop = len(observation["action_mask"]) - 1
        if behaviour == "sequence":
            order = [int(text) for text in argument.split(",")]
            return order[step] if step < len(order) else stop
        if behaviour == "actions":
            return 0 if step == 0 else stop
        if behaviour == "answer":
            return int(argument) if argument.lstrip("-").isdigit() else argument
        if step < int(argument):
            return step
        if behaviour == "raise":
            raise ValueError(f"no idea about {context.unit}")
        if behaviour == "block":
            signal.pause()
        os._exit(3)

    mlbridge.serve(policy, uri, None, metadata, ready=lambda _: print("ready", flush=True))


if __name__ == "__main__":
    main()
