# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sections of 64-bit ELF files, read without tools."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_SHF_EXECINSTR = 0x4
_SHT_NOBITS = 8
_HEADER = struct.Struct("16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("IIQQQQIIQQ")


class ElfError(ValueError):
    """Bytes that are no whole 64-bit ELF file."""


class Section(NamedTuple):
    """A section; `contents` is empty if it has none in the file."""

    name: bytes
    flags: int
    size: int
    contents: memoryview


def sections(data: bytes, name: str = "object") -> Iterator[Section]:
    """The sections of the ELF64 file in `data`, which messages call `name`. ElfError."""
    if len(data) < _HEADER.size:
        raise ElfError(f"{name}: {len(data)} bytes, an ELF64 header has {_HEADER.size}")
    if data[:4] != b"\x7fELF":
        raise ElfError(f"{name}: starts with {data[:4].hex()}, not with the ELF magic")
    if data[4] != 2:
        raise ElfError(f"{name}: ELF class {data[4]}, expected 2 (64 bit)")
    if data[5] not in (1, 2):
        raise ElfError(f"{name}: ELF data encoding {data[5]}, expected 1 or 2")
    order = "<" if data[5] == 1 else ">"
    fields = struct.unpack_from(order + _HEADER.format, data)
    offset, entry_size, count, names = fields[6], fields[11], fields[12], fields[13]
    if offset == 0:
        return
    if entry_size < _SECTION.size:
        raise ElfError(f"{name}: section headers of {entry_size} bytes, expected {_SECTION.size}")
    section = struct.Struct(order + _SECTION.format)
    if count == 0 or names == 0xFFFF:  # too many: the numbers stand in the first header
        if offset + section.size > len(data):
            raise ElfError(f"{name}: section table at {offset} lies past the end ({len(data)})")
        first = section.unpack_from(data, offset)
        count, names = count or first[5], first[6] if names == 0xFFFF else names
    end = offset + entry_size * count
    if end > len(data):
        raise ElfError(f"{name}: section table ends at {end}, the file at {len(data)}")
    headers = [section.unpack_from(data, offset + entry_size * index) for index in range(count)]
    texts = headers[names] if names < count else None
    for index, (at, kind, flags, _, start, size, *_) in enumerate(headers):
        inside = 0 if kind == _SHT_NOBITS or index == 0 else size
        if start + inside > len(data):
            raise ElfError(f"{name}: section {index} ends at {start + size}, past {len(data)}")
        title = b""
        if texts is not None and at < texts[5] and texts[4] + texts[5] <= len(data):
            title = data[texts[4] + at : texts[4] + texts[5]].partition(b"\0")[0]
        yield Section(title, flags, size, memoryview(data)[start : start + inside])


def executable_bytes(data: bytes, name: str = "object") -> int:
    """Sum of the sizes of the executable sections of the ELF64 file in `data`. ElfError."""
    return sum(s.size for s in sections(data, name) if s.flags & _SHF_EXECINSTR)


def file_executable_bytes(path: Path) -> int:
    """`executable_bytes` of a file; OSError if it can't be read."""
    return executable_bytes(path.read_bytes(), str(path))
