# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Both ends of each transport as version 1 of docs/protocol.md describes them, without the library:
peers that stay as they are, whatever the library becomes."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import queue
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import grpc

SECONDS = 20
#: How often who waits for shared memory looks at it without having been woken.
LOOK = 0.005


class End(Protocol):
    """One end of a connection."""

    def send(self, data: bytes) -> None: ...

    def receive(self, most: int) -> bytes:
        """Some bytes; none at the end. Raises TimeoutError."""

    def close(self) -> None: ...


#: Where it listens, and what accepts.
Listener = tuple[str, Callable[[], End]]


def wait(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if not poll.poll(1000 * SECONDS):
        raise TimeoutError


def place(uri: str) -> str:
    return uri.partition(":")[2].partition("?")[0]


# unix:


class SocketEnd:
    def __init__(self, end: socket.socket) -> None:
        self.end = end
        end.settimeout(SECONDS)

    def send(self, data: bytes) -> None:
        self.end.sendall(data)

    def receive(self, most: int) -> bytes:
        return self.end.recv(most)

    def close(self) -> None:
        self.end.close()


def connect_socket(uri: str) -> socket.socket:
    end = socket.socket(socket.AF_UNIX)
    end.connect(place(uri))
    return end


@contextlib.contextmanager
def listening_socket(uri: str) -> Iterator[Callable[[], socket.socket]]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place(uri))
        listener.listen()
        listener.settimeout(SECONDS)
        yield lambda: listener.accept()[0]


def connect_unix(uri: str) -> End:
    return SocketEnd(connect_socket(uri))


@contextlib.contextmanager
def listen_unix(uri: str) -> Iterator[Listener]:
    with listening_socket(uri) as accept:
        yield uri, lambda: SocketEnd(accept())


# shm:

RING, PAGE = 1 << 16, 4096
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class SharedEnd:
    """`reads` and `writes` are 0 for the ring to the server, 1 for the ring to the compiler. It
    wakes the peer after each step, which ignores it if it is awake."""

    def __init__(
        self, descriptor: int, ring: int, first: socket.socket, second: socket.socket, reads: int
    ) -> None:
        with open(descriptor, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), PAGE + 2 * ring)
        self.ring, self.first, self.second = ring, first, second
        self.reads, self.writes = reads, 1 - reads
        self.first.setblocking(False)
        self.second.setblocking(False)

    def at(self, ring: int, field: int, value: int | None = None) -> int:
        """Reads or writes one of written (0), taken (128), reader sleeps (256)."""
        where = 512 * ring + field
        if value is not None:
            struct.pack_into("<Q" if field < 256 else "<I", self.memory, where, value)
        return int(struct.unpack_from("<Q", self.memory, where)[0])

    def send(self, data: bytes) -> None:
        written = self.at(self.writes, 0)
        start = PAGE + self.writes * self.ring
        for k, byte in enumerate(data):
            while written + k - self.at(self.writes, 128) >= self.ring:
                self.doze(self.second)
            self.memory[start + (written + k) % self.ring] = byte
            self.at(self.writes, 0, written + k + 1)
        with contextlib.suppress(OSError):
            self.first.send(b"\0")

    def receive(self, most: int) -> bytes:
        taken = self.at(self.reads, 128)
        for _ in range(int(SECONDS / LOOK)):
            size = min(most, self.at(self.reads, 0) - taken)
            if size:
                start = PAGE + self.reads * self.ring
                data = bytes(self.memory[start + (taken + k) % self.ring] for k in range(size))
                self.at(self.reads, 128, taken + size)
                with contextlib.suppress(OSError):
                    self.second.send(b"\0")
                return data
            self.at(self.reads, 256, 1)
            if not self.doze(self.first):
                return b""
        raise TimeoutError

    def doze(self, bell: socket.socket) -> bool:
        """Waits a moment for the peer; false once it has gone."""
        if select.select([bell], [], [], LOOK)[0]:
            with contextlib.suppress(BlockingIOError):
                return bool(bell.recv(64))
        return True

    def close(self) -> None:
        self.first.close()
        self.second.close()


def connect_shm(uri: str, major: int = 1) -> SharedEnd:
    first = connect_socket(uri)
    second, other = socket.socketpair()
    descriptor = os.memfd_create("old", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    size = PAGE + 2 * RING
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
    said = struct.pack("<8sHHIQQ", b"MLBSHMEM", major, 0, 0, size, RING)
    socket.send_fds(first, [said], [descriptor, other.fileno()])
    other.close()
    return SharedEnd(descriptor, RING, first, second, reads=1)


def accept_shm(first: socket.socket) -> End:
    first.settimeout(SECONDS)
    said, descriptors, _, _ = socket.recv_fds(first, 32, 2)
    magic, major, _, _, _, ring = struct.unpack("<8sHHIQQ", said)
    assert (magic, major) == (b"MLBSHMEM", 1)
    return SharedEnd(descriptors[0], ring, first, socket.socket(fileno=descriptors[1]), reads=0)


@contextlib.contextmanager
def listen_shm(uri: str) -> Iterator[Listener]:
    with listening_socket(uri) as accept:
        yield uri, lambda: accept_shm(accept())


# pipe:


class PipeEnd:
    """`writes` opens when it is first written to, if it can't be opened before."""

    def __init__(self, reads: int, writes: int | Path) -> None:
        self.reads, self.writes = reads, writes

    def send(self, data: bytes) -> None:
        if isinstance(self.writes, Path):
            self.writes = os.open(self.writes, os.O_WRONLY | os.O_NONBLOCK)
        os.write(self.writes, data)

    def receive(self, most: int) -> bytes:
        wait(self.reads)
        return os.read(self.reads, most)

    def close(self) -> None:
        os.close(self.reads)
        if isinstance(self.writes, int):
            os.close(self.writes)


def fifo(path: str, mode: int) -> int:
    with contextlib.suppress(FileExistsError):
        os.mkfifo(path, 0o600)
    return os.open(path, mode | os.O_NONBLOCK)


def connect_pipe(uri: str) -> End:
    base = place(uri)
    reads = os.open(base + ".in", os.O_RDONLY | os.O_NONBLOCK)
    fcntl.flock(reads, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return PipeEnd(reads, os.open(base + ".out", os.O_WRONLY | os.O_NONBLOCK))


@contextlib.contextmanager
def listen_pipe(uri: str) -> Iterator[Listener]:
    base = place(uri)
    os.mkfifo(base + ".in", 0o600)
    reads = fifo(base + ".out", os.O_RDONLY)
    fcntl.flock(reads, fcntl.LOCK_EX)
    yield uri, lambda: PipeEnd(reads, Path(base + ".in"))


def connect_folder(uri: str, version: int = 1) -> End:
    folder, name = Path(place(uri)), "compiler-0-0"
    rendezvous = os.open(folder / "rendezvous", os.O_WRONLY | os.O_NONBLOCK)
    reads = fifo(f"{folder}/{name}.in", os.O_RDONLY)
    writes = fifo(f"{folder}/{name}.out", os.O_RDWR)  # which needs no reader
    os.write(rendezvous, f"mlbridge-pipe {version} {name}\n".encode())
    os.close(rendezvous)
    return PipeEnd(reads, writes)


@contextlib.contextmanager
def listen_folder(uri: str) -> Iterator[Listener]:
    folder = Path(place(uri))
    folder.mkdir(0o700, exist_ok=True)
    rendezvous = fifo(f"{folder}/rendezvous", os.O_RDONLY)
    fcntl.flock(rendezvous, fcntl.LOCK_EX)

    def accept() -> End:
        wait(rendezvous)
        greeting, version, name = os.read(rendezvous, 4096).decode().split()
        assert (greeting, version) == ("mlbridge-pipe", "1")
        reads = fifo(f"{folder}/{name}.out", os.O_RDONLY)
        end = PipeEnd(reads, os.open(folder / f"{name}.in", os.O_WRONLY | os.O_NONBLOCK))
        for suffix in ("in", "out"):
            (folder / f"{name}.{suffix}").unlink()
        return end

    yield uri, accept
    os.close(rendezvous)


# grpc:


def encoded(data: bytes) -> bytes:
    """The message Bytes of bridge.proto."""
    size, length = len(data), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return b"\n" + length + bytes([size]) + data if data else b""


def decoded(message: bytes) -> bytes:
    at = 1
    while message and message[at] & 128:
        at += 1
    return message[at + 1 :]


SERVICE, METHOD = "mlbridge.v1.Bridge", "Converse"


class StreamEnd:
    def __init__(self, arriving: Iterable[bytes], channel: Any = None) -> None:
        self.leaving = queue.SimpleQueue[bytes | None]()
        self.arriving, self.channel, self.rest = iter(arriving), channel, b""

    def send(self, data: bytes) -> None:
        self.leaving.put(data)

    def receive(self, most: int) -> bytes:
        with contextlib.suppress(grpc.RpcError):
            while not self.rest:
                self.rest = next(self.arriving, b"") or b""
                if not self.rest:
                    break
        data, self.rest = self.rest[:most], self.rest[most:]
        return data

    def close(self) -> None:
        self.leaving.put(None)
        if self.channel:
            self.channel.close()


def connect_grpc(uri: str, method: str = f"/{SERVICE}/{METHOD}") -> End:
    channel = grpc.insecure_channel(place(uri))
    end = StreamEnd((), channel)
    call = channel.stream_stream(method, encoded, decoded)
    end.arriving = call(iter(end.leaving.get, None), timeout=SECONDS)
    return end


@contextlib.contextmanager
def listen_grpc(uri: str, name: str = SERVICE) -> Iterator[Listener]:
    accepted = queue.SimpleQueue[End]()

    def converse(arriving: Iterator[bytes], context: Any) -> Iterator[bytes]:
        context.send_initial_metadata((("mlbridge-transport", "1"),))
        end = StreamEnd(arriving)
        accepted.put(end)
        yield from iter(end.leaving.get, None)

    handler = grpc.stream_stream_rpc_method_handler(converse, decoded, encoded)
    server = grpc.server(ThreadPoolExecutor(2))
    service = grpc.method_handlers_generic_handler(name, {METHOD: handler})
    server.add_generic_rpc_handlers((service,))
    port = server.add_insecure_port(place(uri))
    server.start()
    try:
        yield f"grpc:localhost:{port}", lambda: accepted.get(timeout=SECONDS)
    finally:
        server.stop(None).wait()


Listening = Callable[[str], contextlib.AbstractContextManager[Listener]]
CONNECT: dict[str, Callable[[str], End]] = {
    "unix": connect_unix,
    "shm": connect_shm,
    "pipe": connect_pipe,
    "folder": connect_folder,
    "grpc": connect_grpc,
}
LISTEN: dict[str, Listening] = {
    "unix": listen_unix,
    "shm": listen_shm,
    "pipe": listen_pipe,
    "folder": listen_folder,
    "grpc": listen_grpc,
}


def relay(source: End, target: End, kept: bytearray) -> threading.Thread:
    """Hands on and keeps what comes, until it ends."""

    def run() -> None:
        with contextlib.suppress(OSError):
            while data := source.receive(1 << 16):
                kept.extend(data)
                target.send(data)
        target.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread
