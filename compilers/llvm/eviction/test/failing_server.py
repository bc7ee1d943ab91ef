# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A server that fails at the fourth question: python3 failing_server.py URI KIND. Prints "ready".

raises   the policy raises             dies     the process ends
silent   no answer                     masked   a position that can't be evicted
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import numpy as np

import mlbridge


def main() -> None:
    uri, kind = sys.argv[1:]
    asked = 0

    def policy(features: Any, _: mlbridge.CallContext) -> Any:
        nonlocal asked
        asked += 1
        mask = features["mask"].reshape(-1)
        if asked > 3 and kind == "raises":
            raise ValueError("no idea")
        if asked > 3 and kind == "dies":
            os._exit(3)
        if asked > 3 and kind == "silent":
            signal.pause()
        return np.flatnonzero(mask == (asked <= 3))[:1]

    mlbridge.serve(policy, uri, ready=lambda _: print("ready", flush=True))


if __name__ == "__main__":
    main()
