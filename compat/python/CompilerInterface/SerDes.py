# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The bytes of requests and advice, in both formats of the 2024 release."""

from __future__ import annotations

import ctypes
import json
import struct
from typing import Any, Protocol

from . import log_reader
from .log_reader import ProtocolError

LARGEST_MESSAGE = 1 << 30


class Stream(Protocol):
    """What a request is read from: a file, or the pipe of an interface."""

    def read(self, size: int, /) -> bytes: ...


class NpEncoder(json.JSONEncoder):
    """Numbers of ctypes, NumPy and PyTorch as Python's own; arrays as lists."""

    def default(self, o: Any) -> Any:
        if isinstance(o, ctypes._SimpleCData):
            return o.value
        if hasattr(o, "tolist"):
            return o.tolist()
        raise TypeError(f"advice of type {type(o).__name__} cannot be sent to the compiler")


def raw(value: Any) -> bytes:
    """int: 4 bytes, float: 4, ctypes.c_long and c_double: 8, one character: 1; lists in a row."""
    if isinstance(value, ctypes._SimpleCData):
        return bytes(value)
    if isinstance(value, int):  # bool as well: its 4 bytes begin with the one that is read
        if not -(1 << 31) <= value < 1 << 31:
            raise OverflowError(f"{value} does not fit in 4 bytes; use ctypes.c_long({value})")
        return struct.pack("<i", value)
    if isinstance(value, float):
        return struct.pack("<f", value)
    if isinstance(value, str):
        if len(value) != 1 or ord(value) > 255:
            raise ValueError(f"{value!r} is not a single one-byte character")
        return value.encode("latin-1")
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, (list, tuple)):
        return b"".join(raw(v) for v in value)
    if hasattr(value, "dtype") and hasattr(value, "tobytes"):  # NumPy: as wide as it is
        return bytes(value.tobytes())
    return raw(NpEncoder().default(value))


def read_exactly(stream: Stream, size: int, what: str) -> bytes:
    data = b""
    while len(data) < size:
        part = stream.read(size - len(data))
        if not part:
            raise EOFError(
                f"the compiler closed its pipe after {len(data)} of {size} bytes of {what}"
            )
        data = data + part if data else part
    return data


def read_message(stream: Stream) -> bytes:
    """8 bytes of length, little-endian, and so many bytes."""
    size = int.from_bytes(read_exactly(stream, 8, "the length"), "little")
    if size > LARGEST_MESSAGE:
        raise ProtocolError(
            f"a message of {size} bytes is announced; the limit is {LARGEST_MESSAGE}"
        )
    parts, left = [], size
    while left:  # memory only for what has come
        part = read_exactly(stream, min(left, 1 << 20), "the message")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


class SerDes:
    """`data_format`: "json", "bytes" or "protobuf" (whose messages pass as they are)."""

    def __init__(self, data_format: str | None) -> None:
        self.buffer: Any = None
        self.data_format = data_format
        self.read_stream_iter: Any = None
        self.serMap = {
            "json": self.serializeJson,
            "bytes": self.serializeBytes,
            "protobuf": self.serializeProtobuf,
        }
        self.desMap = {
            "json": self.deserializeJson,
            "bytes": self.deserializeBytes,
            "protobuf": self.deserializeProtobuf,
        }
        if data_format not in self.serMap:
            raise ValueError(
                f"data_format {data_format!r} is unknown; there are {', '.join(self.serMap)}"
            )

    def deserializeData(self, rawdata: Stream) -> Any:
        """Reads one request."""
        return self.desMap[str(self.data_format)](rawdata)

    def deserializeJson(self, datastream: Stream) -> Any:
        message = read_message(datastream)
        try:
            return json.loads(message)
        except ValueError as error:
            raise ProtocolError(f"the request is not valid JSON: {error}") from None

    def deserializeBytes(self, datastream: Stream) -> list[log_reader.TensorValue]:
        return log_reader.read_observation(read_message(datastream))

    def deserializeProtobuf(self, datastream: Stream) -> Any:
        raise NotImplementedError("protobuf messages come over gRPC, not over pipes")

    def serializeData(self, data: Any) -> None:
        """Keeps the advice for getOutputBuffer."""
        self.serMap[str(self.data_format)](data)

    def serializeJson(self, data: Any) -> None:
        self._keep(json.dumps({"out": data}, cls=NpEncoder).encode())

    def serializeBytes(self, data: Any) -> None:
        self._keep(raw(data))

    def serializeProtobuf(self, data: Any) -> None:
        self.buffer = data

    def _keep(self, message: bytes) -> None:
        self.buffer = len(message).to_bytes(8, "little") + message

    def getOutputBuffer(self) -> Any:
        """The serialized advice, once."""
        out, self.buffer = self.buffer, None
        return out
