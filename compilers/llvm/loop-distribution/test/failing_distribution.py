# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A server whose agents fail after a while: python3 failing_distribution.py URI KIND. Prints
"ready".

raises   the policy raises             dies     the process ends
silent   no answer                     masked   a node that waits for another
far      what is not there             between  the process ends between two agents' questions
negative the same, below 0
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import numpy as np

import mlbridge

#: Some loops have been distributed by then.
AFTER = 12


def main() -> None:
    uri, kind = sys.argv[1:]
    asked = 0
    before = ""

    def policy(observation: Any, context: mlbridge.CallContext) -> int:
        nonlocal asked, before
        asked += 1
        mask = observation["action_mask"]
        before, last = context.agent, before
        if asked > AFTER:
            if kind == "between" and (last, before) != ("node", "distribute"):
                return int(np.flatnonzero(mask)[-1])
            if kind == "raises":
                raise ValueError("no idea")
            if kind in ("dies", "between"):
                os._exit(3)
            if kind == "silent":
                signal.pause()
            if kind == "far":
                return len(mask)
            if kind == "negative":
                return -1
            if not mask.all():
                return int(np.flatnonzero(~mask)[0])
        allowed = np.flatnonzero(mask)
        return int(allowed[-1])

    mlbridge.serve(policy, uri, ready=lambda _: print("ready", flush=True))


if __name__ == "__main__":
    main()
