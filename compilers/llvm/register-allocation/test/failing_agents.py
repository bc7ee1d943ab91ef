# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A server whose agents fail after a while: python3 failing_agents.py URI KIND. Prints "ready".

raises   the policy raises             dies     the process ends
silent   no answer                     masked   what the mask forbids
far      what is not there
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import numpy as np

import mlbridge

#: Some spills and splits have been made by then.
AFTER = 60


def main() -> None:
    uri, kind = sys.argv[1:]
    asked = 0

    def policy(observation: Any, context: mlbridge.CallContext) -> int:
        nonlocal asked
        asked += 1
        mask = observation["action_mask"]
        if asked > AFTER and context.agent in ("node", "colour"):
            if kind == "raises":
                raise ValueError("no idea")
            if kind == "dies":
                os._exit(3)
            if kind == "silent":
                signal.pause()
            if kind == "far":
                return len(mask)
            if not mask.all():
                return int(np.flatnonzero(~mask)[0])
        allowed = np.flatnonzero(mask)
        return int(allowed[asked % len(allowed)])

    mlbridge.serve(policy, uri, ready=lambda _: print("ready", flush=True))


if __name__ == "__main__":
    main()
