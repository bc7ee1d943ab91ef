# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bytes of executable sections (SHF_EXECINSTR) of ELF files, read without tools."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from .errors import InvalidArgument

_SHF_EXECINSTR = 0x4
_SHT_NOBITS = 8
_ET_REL = 1
# By the ELF class: header and section header.
_LAYOUTS = {
    1: (struct.Struct("16sHHIIIIIHHHHHH"), struct.Struct("10I")),
    2: (struct.Struct("16sHHIQQQIHHHHHH"), struct.Struct("IIQQQQIIQQ")),
}
_ORDERS = {1: "<", 2: ">"}


def is_object(start: bytes) -> bool:
    """Whether a file that starts with these 18 bytes or more is a relocatable ELF file."""
    if len(start) < 18 or start[:4] != b"\x7fELF" or start[5] not in _ORDERS:
        return False
    return struct.unpack_from(_ORDERS[start[5]] + "H", start, 16) == (_ET_REL,)


def executable_bytes(data: bytes, name: str = "object") -> int:
    """Sum of the sizes of the executable sections of the ELF file in `data`.

    Raises InvalidArgument, which names `name`, if it is no whole ELF file.
    """
    if data[:4] != b"\x7fELF":
        raise InvalidArgument(f"{name}: starts with {data[:4].hex()}, not with the ELF magic")
    if len(data) < 6 or data[4] not in _LAYOUTS or data[5] not in _ORDERS:
        raise InvalidArgument(
            f"{name}: ELF class and encoding are {data[4:6].hex()}, expected 1 or 2 each"
        )
    header, section = (struct.Struct(_ORDERS[data[5]] + s.format) for s in _LAYOUTS[data[4]])
    if len(data) < header.size:
        raise InvalidArgument(f"{name}: {len(data)} bytes, an ELF header has {header.size}")
    fields = header.unpack_from(data)
    offset, entry_size, count = fields[6], fields[11], fields[12]
    if offset == 0:
        return 0
    if entry_size < section.size:
        raise InvalidArgument(
            f"{name}: section headers of {entry_size} bytes, expected {section.size}"
        )
    if count == 0:  # 65280 sections and more: the number stands in the first header's size
        if offset + section.size > len(data):
            raise InvalidArgument(
                f"{name}: section table at {offset} lies past the end ({len(data)})"
            )
        count = section.unpack_from(data, offset)[5]
    end = offset + entry_size * count
    if end > len(data):
        raise InvalidArgument(f"{name}: section table ends at {end}, the file at {len(data)}")
    total = 0
    for index in range(count):
        entry = section.unpack_from(data, offset + index * entry_size)
        kind, flags, start, size = entry[1], entry[2], entry[4], entry[5]
        if not flags & _SHF_EXECINSTR:
            continue
        if kind != _SHT_NOBITS and start + size > len(data):
            raise InvalidArgument(
                f"{name}: section {index} ends at {start + size}, past {len(data)}"
            )
        total += size
    return total


def file_executable_bytes(path: str | os.PathLike[str]) -> int:
    """`executable_bytes` of a file; OSError if it can't be read."""
    return executable_bytes(Path(path).read_bytes(), os.fspath(path))
