# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Raw ends of a conversation, made from docs/protocol.md without the library."""

from __future__ import annotations

import contextlib
import importlib.util
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden"


def _load() -> Any:
    spec = importlib.util.spec_from_file_location("make_protocol", GOLDEN / "make_protocol.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


protocol = _load()
NAMES = {number: name for name, number in protocol.KINDS.items()}


class Frame:
    def __init__(self, header: bytes, payload: bytes) -> None:
        fields = struct.unpack("<4sIQHHIQQ", header)
        magic, checksum, _, kind, self.flags, self.stream, self.request, self.left = fields
        assert magic == b"MLBF"
        assert checksum == protocol.crc32c(header[:4] + bytes(4) + header[8:])
        self.kind = NAMES[kind]
        self.payload = payload

    def error(self) -> tuple[int, str]:
        assert self.kind == "error", (self.kind, self.payload)
        code, size = struct.unpack_from("<iI", self.payload)
        return code, self.payload[8 : 8 + size].decode()


class Peer:
    """One end of a socket that reads and writes frames."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        end.settimeout(20)

    def send(self, *messages: bytes) -> None:
        # The other side may have closed already: what it said before can still be read.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.end.sendall(b"".join(messages))

    def exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                more = self.end.recv(size - len(data))
            except ConnectionResetError:
                more = b""
            if not more:
                raise EOFError(f"{len(data)} of {size} bytes")
            data += more
        return data

    def receive(self) -> Frame:
        header = self.exactly(40)
        return Frame(header, self.exactly(struct.unpack_from("<Q", header, 8)[0]))

    def until(self, kind: str) -> Frame:
        while (frame := self.receive()).kind != kind:
            pass
        return frame

    def is_closed(self) -> bool:
        """True if the other side ends the connection; its last bytes are read."""
        try:
            while self.end.recv(65536):
                pass
        except ConnectionResetError:
            pass
        return True


@contextlib.contextmanager
def connected(uri: str) -> Iterator[Peer]:
    with socket.socket(socket.AF_UNIX) as end:
        end.connect(uri.partition(":")[2].partition("?")[0])
        yield Peer(end)


@contextlib.contextmanager
def fake_server(uri: str, behave: Callable[[Peer], None]) -> Iterator[None]:
    """Accepts one connection after another and misbehaves on each."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(uri.partition(":")[2])
    listener.listen()
    ended = threading.Event()
    ends: list[socket.socket] = []

    def run() -> None:
        while True:
            try:
                end, _ = listener.accept()
            except OSError:
                return
            if ended.is_set():
                end.close()
                return
            ends.append(end)
            with contextlib.suppress(EOFError, OSError):
                behave(Peer(end))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as waker:
            waker.connect(uri.partition(":")[2])
        thread.join(20)
        for end in ends:
            end.close()
        listener.close()


def welcome(hello: Frame, signature: bytes | None = None) -> bytes:
    nonce = hello.payload[12:28]
    head = b"MLBRIDGE" + struct.pack("<HH", 1, 0) + nonce + struct.pack("<Q", 1 << 28)
    head += protocol.text("bitstream") + protocol.text("fake")
    tail = (b"\0" if signature is None else b"\1" + signature) + protocol.mapping({})
    return bytes(protocol.frame("welcome", head + tail))
