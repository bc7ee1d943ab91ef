# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reading protobuf messages and flat buffers field by field, without the packages for them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ..errors import InvalidModel


class Field(NamedTuple):
    """A field of a protobuf message: a number, or bytes."""

    number: int
    value: int
    payload: bytes


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise InvalidModel(f"no protobuf message: the number at byte {at} does not end")


def fields(data: bytes) -> Iterator[Field]:
    """The fields of a message in their order."""
    at = 0
    while at < len(data):
        start = at
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        value, payload = 0, b""
        if kind == 0:
            value, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            payload, at = data[at : at + size], at + size
            value = int.from_bytes(payload, "little")
        elif kind == 2:
            size, at = _varint(data, at)
            payload, at = data[at : at + size], at + size
        if kind not in (0, 1, 2, 5) or number == 0 or at > len(data):
            raise InvalidModel(f"no protobuf message: field at byte {start} of {len(data)}")
        yield Field(number, value, payload)


def signed(value: int) -> int:
    """An int64 that was read as an unsigned number."""
    return value - (1 << 64) if value >= 1 << 63 else value


def integers(field: Field) -> list[int]:
    """The numbers of a repeated int64 field, packed or not."""
    if not field.payload:
        return [signed(field.value)]
    found, at = [], 0
    while at < len(field.payload):
        value, at = _varint(field.payload, at)
        found.append(signed(value))
    return found


def text(payload: bytes) -> str:
    """A string field."""
    return payload.decode("utf-8", "replace")


class Table:
    """A table of a flat buffer."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at
        self.vtable = at - self._unpack("<i", at)

    def _unpack(self, form: str, at: int) -> int:
        try:
            (value,) = struct.unpack_from(form, self.data, at) if at >= 0 else (None,)
        except struct.error:
            value = None
        if value is None:
            raise InvalidModel(f"no flat buffer: byte {at} of {len(self.data)}")
        return int(value)

    def _field(self, number: int) -> int:
        """Where field `number` lies, or 0."""
        slot = 4 + 2 * number
        if slot + 2 > self._unpack("<H", self.vtable):
            return 0
        offset = self._unpack("<H", self.vtable + slot)
        return self.at + offset if offset else 0

    def _target(self, at: int) -> int:
        return at + self._unpack("<I", at)

    def number(self, number: int, form: str = "<i", default: int = 0) -> int:
        at = self._field(number)
        return self._unpack(form, at) if at else default

    def table(self, number: int) -> Table | None:
        at = self._field(number)
        return Table(self.data, self._target(at)) if at else None

    def _bytes(self, at: int) -> bytes:
        size = self._unpack("<I", at)
        if size > len(self.data) - at - 4:
            raise InvalidModel(f"no flat buffer: {size} bytes at {at} of {len(self.data)}")
        return self.data[at + 4 : at + 4 + size]

    def string(self, number: int) -> str:
        at = self._field(number)
        return text(self._bytes(self._target(at))) if at else ""

    def byte_count(self, number: int) -> int:
        """The length of a vector of bytes."""
        at = self._field(number)
        return len(self._bytes(self._target(at))) if at else 0

    def _vector(self, number: int) -> tuple[int, int]:
        at = self._field(number)
        if not at:
            return 0, 0
        start = self._target(at)
        count = self._unpack("<I", start)
        if count > len(self.data) // 4:
            raise InvalidModel(f"no flat buffer: {count} elements at {start}")
        return start + 4, count

    def strings(self, number: int) -> list[str]:
        start, count = self._vector(number)
        return [text(self._bytes(self._target(start + 4 * i))) for i in range(count)]

    def tables(self, number: int) -> list[Table]:
        start, count = self._vector(number)
        return [Table(self.data, self._target(start + 4 * i)) for i in range(count)]

    def longs(self, number: int) -> list[int]:
        start, count = self._vector(number)
        return [self._unpack("<q", start + 8 * i) for i in range(count)]
