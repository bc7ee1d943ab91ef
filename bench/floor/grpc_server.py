# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The floor of the round trip over gRPC, the model's side: grpc_server.py sweep|small HOST:PORT.

gRPC's synchronous C++ server calls Python for the NumPy work, through a shim (floor_grpc.cpp): one
stream of raw bytes, one buffer, views of it made beforehand. The grpcio of PyPI would be the
obvious server, but is no floor: its threads, futures and bytes objects cost several times what is
measured here. Nothing of the library, no handshake, one compiler, no errors. The other side is
grpc.cpp.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "round-trip"))
from policy import LARGEST, SMALL, weights


def main() -> None:
    """Answer until terminated."""
    which, address = sys.argv[1:]
    raw = np.zeros(LARGEST, np.float32)
    value = np.zeros(1, np.float32 if which == "sweep" else np.int64)
    layer = weights()
    layers = [layer[: 500 * i] for i in range(101)]
    raws = [raw[: 500 * i] for i in range(101)]
    small = raw[:SMALL]

    def answer_sweep(size: int) -> int:
        i = size // 2000
        value[0] = raws[i].dot(layers[i])
        return 4

    def answer_small(_size: int) -> int:
        value[0] = small.argmax()
        return 8

    serve = importlib.import_module("floor_grpc").serve
    serve(address, raw, value, answer_sweep if which == "sweep" else answer_small)


if __name__ == "__main__":
    main()
