# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The model of the batching benchmark: server.py one|batch URI."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch
from network import INPUTS, OUTPUTS, network

import mlbridge

SIGNATURE = mlbridge.Signature(
    [mlbridge.TensorSpec("x", "float32", [INPUTS])],
    [mlbridge.TensorSpec("y", "float32", [OUTPUTS])],
)


def main(kind: str, uri: str) -> None:
    """Serve until ended."""
    evaluate = network()

    def one(observation: Mapping[str, Any], context: mlbridge.Context) -> Any:
        return evaluate(torch.from_numpy(observation["x"])[None])[0].numpy()

    def many(observations: Mapping[str, Any], contexts: Any) -> Any:
        return evaluate(torch.from_numpy(observations["x"])).numpy()

    with mlbridge.Server(uri, SIGNATURE) as server:
        print("ready", flush=True)
        if kind == "one":
            server.serve_forever(one)
        else:
            server.serve_batches(many, max_batch=8, max_wait=0.0005)


if __name__ == "__main__":
    import warnings

    warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
    main(*sys.argv[1:])
