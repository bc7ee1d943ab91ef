# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The floor of the batching benchmark: the same network behind bare sockets.

    bare_server.py one|batch PATH

A request is the inputs and an answer the outputs, nothing else. Batches are complete when everybody
who is connected has asked.
"""

from __future__ import annotations

import select
import socket
import sys

import numpy as np
import torch
from network import INPUTS, network


def main(kind: str, path: str) -> None:
    """Serve until ended."""
    evaluate = network()
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


if __name__ == "__main__":
    main(*sys.argv[1:])
