# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The floor of the round trip, the model's side.

    server.py sweep|small pipe|unix|shm raw|json PATH [blocks]
    server.py sweep|small grpc raw HOST:PORT

Reads into one buffer, before which it yields the processor for a moment unless it blocks at once,
views of it made beforehand, the same NumPy work, one write. Nothing of the library, no handshake,
one compiler, no errors. The other side is channel.cpp or grpc.cpp.
"""

from __future__ import annotations

import fcntl
import importlib
import mmap
import os
import select
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "round-trip"))
from policy import LARGEST, SMALL, weights

F_SETPIPE_SZ = 1031


def views(x: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """The layer and x for 0, 500 … of its numbers, and the numbers of a small query."""
    layer, sizes = weights(), [500 * i for i in range(101)]
    return [layer[:size] for size in sizes], [x[:size] for size in sizes], x[:SMALL]


def accepted(path: str) -> socket.socket:
    """The one connection to a socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(path)
        listening.listen(1)
        print("listening", flush=True)
        return listening.accept()[0]


def connect(kind: str, path: str) -> tuple[int, int]:
    """Descriptors to read and to write."""
    if kind == "pipe":
        os.mkfifo(path + ".in", 0o600)
        os.mkfifo(path + ".out", 0o600)
        print("listening", flush=True)
        reader = os.open(path + ".out", os.O_RDONLY)
        writer = os.open(path + ".in", os.O_WRONLY)
        for fd in (reader, writer):
            fcntl.fcntl(fd, F_SETPIPE_SZ, 1 << 20)
        return reader, writer
    fd = accepted(path).detach()
    return fd, fd


def serve_shared(which: str, path: str) -> None:
    """Over shared memory, as channel.cpp lays it out: spin, look and yield a moment, then sleep."""
    _, (memory, bell, client_bell), _, _ = socket.recv_fds(accepted(path), 1, 3)
    shared = mmap.mmap(memory, 1 << 20)
    words = memoryview(shared).cast("Q")
    raw = np.frombuffer(shared, np.float32, LARGEST, 4096)
    value = np.frombuffer(shared, np.float32 if which == "sweep" else np.int64, 1, 2048)
    layers, raws, small = views(raw)
    is_sweep = which == "sweep"
    now, sched_yield = time.perf_counter_ns, os.sched_yield
    number = spins_in_vain = waits_without_spin = 0
    while True:
        if waits_without_spin > 0:
            waits_without_spin -= 1
        elif words[0] == number:
            end = now() + 20_000
            while words[0] == number and now() < end:
                pass
            spins_in_vain = 0 if words[0] != number else min(spins_in_vain + 1, 10)
            waits_without_spin = 0 if spins_in_vain < 3 else 1 << spins_in_vain
        if words[0] == number:
            end = now() + 30_000
            while words[0] == number:
                sched_yield()
                if now() < end:
                    continue
                words[8] = 1
                sched_yield()  # orders the two
                if words[0] == number:
                    os.eventfd_read(bell)
        number += 1
        size = words[1]
        if size == 0:
            words[16] = number
            return
        if is_sweep:
            i = size // 2000
            value[0] = raws[i].dot(layers[i])
        else:
            value[0] = small.argmax()
        words[16] = number
        if words[24]:
            words[24] = 0
            os.eventfd_write(client_bell, 1)


def receiver(reader: int) -> Callable[[memoryview], int]:
    """Reads what is there, and looks and yields a moment before it sleeps."""
    os.set_blocking(reader, False)
    waiting = select.poll()
    waiting.register(reader, select.POLLIN)
    now, sched_yield, readv = time.perf_counter_ns, os.sched_yield, os.readv

    def receive(to: memoryview) -> int:
        end = now() + 30_000
        while True:
            sched_yield()
            try:
                return readv(reader, [to])
            except BlockingIOError:
                if now() >= end:
                    waiting.poll()

    return receive


def serve_grpc(which: str, address: str) -> None:
    """gRPC's synchronous C++ server calls Python for the NumPy work, through a shim
    (floor_grpc.cpp): one stream of raw bytes. The grpcio of PyPI would be the obvious server, but
    is no floor: its threads, futures and bytes objects cost several times what is measured here.
    """
    raw = np.zeros(LARGEST, np.float32)
    value = np.zeros(1, np.float32 if which == "sweep" else np.int64)
    layers, raws, small = views(raw)

    def answer_sweep(size: int) -> int:
        i = size // 2000
        value[0] = raws[i].dot(layers[i])
        return 4

    def answer_small(_size: int) -> int:
        value[0] = small.argmax()
        return 8

    serve = importlib.import_module("floor_grpc").serve
    serve(address, raw, value, answer_sweep if which == "sweep" else answer_small)


def main() -> None:
    """Answer until the other side is gone, or until terminated."""
    which, kind, serdes, path, *blocks = sys.argv[1:]
    if kind in ("shm", "grpc"):
        (serve_shared if kind == "shm" else serve_grpc)(which, path)
        return
    reader, writer = connect(kind, path)
    buffer = bytearray(8 + LARGEST * 16 + 128)
    whole = memoryview(buffer)
    length = np.frombuffer(buffer, np.uint64, 1)
    raw = np.frombuffer(buffer, np.float32, LARGEST, 8)
    numbers = np.zeros(LARGEST, np.float32)
    answer = bytearray(12 if which == "sweep" else 16)
    np.frombuffer(answer, np.uint64, 1)[0] = len(answer) - 8
    value = np.frombuffer(answer, np.float32 if which == "sweep" else np.int64, 1, 8)
    layers, raws, small_raw = views(raw)
    _, parsed, small_parsed = views(numbers)
    parse: Callable[[memoryview, int, np.ndarray], int] | None = None
    if serdes == "json":
        parse = importlib.import_module("floor_json").parse
    readv, write = os.readv, os.write
    receive = receiver(reader) if not blocks else lambda to: readv(reader, [to])
    while True:
        have = receive(whole)
        if have == 0:
            return
        need = 8 + int(length[0])
        while have < need:
            have += receive(whole[have:])
        if parse is not None:
            count = parse(whole[8:], need - 8, numbers)
            if which == "sweep":
                i = count // 500
                text = b'{"y":[%a]}' % float(parsed[i].dot(layers[i]))
            else:
                text = b'{"y":[%d]}' % small_parsed.argmax()
            write(writer, len(text).to_bytes(8, "little") + text)
            continue
        if which == "sweep":
            i = (need - 8) // 2000
            value[0] = raws[i].dot(layers[i])
        else:
            value[0] = small_raw.argmax()
        write(writer, answer)


if __name__ == "__main__":
    main()
