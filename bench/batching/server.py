# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The model of the batching benchmark, and its floor: server.py one|batch unix:PATH|bare:PATH.

A network 300-256-128-15 in PyTorch on one thread. At bare:PATH it is behind bare sockets, where a
request is the inputs and an answer the outputs, nothing else, and batches are complete when
everybody who is connected has asked.
"""

from __future__ import annotations

import select
import socket
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import mlbridge

INPUTS, OUTPUTS = 300, 15
Network = Callable[[Tensor], Tensor]


def network() -> Network:
    """Always the same weights; no gradients."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    layers = nn.Sequential(
        nn.Linear(INPUTS, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, OUTPUTS)
    )
    evaluated: Network = layers.eval()
    return evaluated


def serve(evaluate: Network, kind: str, uri: str) -> None:
    """Through the library."""

    def one(observation: Mapping[str, Any], context: mlbridge.CallContext) -> Any:
        return evaluate(torch.from_numpy(observation["x"])[None])[0].numpy()

    def many(observations: Mapping[str, Any], contexts: Any) -> Any:
        return evaluate(torch.from_numpy(observations["x"])).numpy()

    signature = mlbridge.Signature(
        [mlbridge.TensorSpec("x", "float32", [INPUTS])],
        [mlbridge.TensorSpec("y", "float32", [OUTPUTS])],
    )
    with mlbridge.Server(uri, signature) as server:
        print("ready", flush=True)
        if kind == "one":
            server.serve_forever(one)
        else:
            server.serve_batches(many, max_batch=8, max_wait=0.0005)


def serve_bare(evaluate: Network, kind: str, path: str) -> None:
    """Without it."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    print("ready", flush=True)
    poller = select.epoll()
    poller.register(listener, select.EPOLLIN)
    ends: dict[int, socket.socket] = {}
    rows = np.zeros((64, INPUTS), np.float32)
    asked: list[socket.socket] = []

    def answer() -> None:
        outputs = evaluate(torch.from_numpy(rows[: len(asked)])).numpy()
        for end, row in zip(asked, outputs, strict=True):
            end.sendall(row)
        asked.clear()

    while True:
        for number, _ in poller.poll():
            if number == listener.fileno():
                end, _ = listener.accept()
                ends[end.fileno()] = end
                poller.register(end, select.EPOLLIN)
                continue
            end = ends[number]
            if not end.recv_into(rows[len(asked)], flags=socket.MSG_WAITALL):
                poller.unregister(end)
                del ends[number]
                end.close()
                continue
            asked.append(end)
            if kind == "one":
                answer()
        if asked and len(asked) >= len(ends):
            answer()


def main(kind: str, uri: str) -> None:
    """Serve until ended."""
    warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
    if uri.startswith("bare:"):
        serve_bare(network(), kind, uri.removeprefix("bare:"))
    else:
        serve(network(), kind, uri)


if __name__ == "__main__":
    main(*sys.argv[1:])
