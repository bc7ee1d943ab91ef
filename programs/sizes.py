# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bytes of executable sections (SHF_EXECINSTR) of 64-bit ELF files, read without tools."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

_SHF_EXECINSTR = 0x4
_SHT_NOBITS = 8
_HEADER = struct.Struct("16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("IIQQQQIIQQ")


class ElfError(ValueError):
    """Bytes that are no whole 64-bit ELF file."""


def executable_bytes(data: bytes, name: str = "object") -> int:
    """Sum of the sizes of the executable sections of the ELF64 file in `data`."""
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
    offset, entry_size, count = fields[6], fields[11], fields[12]
    if offset == 0:
        return 0
    if entry_size < _SECTION.size:
        raise ElfError(f"{name}: section headers of {entry_size} bytes, expected {_SECTION.size}")
    section = struct.Struct(order + _SECTION.format)
    if count == 0:  # 65280 sections and more: the number stands in the first header's size
        if offset + section.size > len(data):
            raise ElfError(f"{name}: section table at {offset} lies past the end ({len(data)})")
        count = section.unpack_from(data, offset)[5]
    end = offset + entry_size * count
    if end > len(data):
        raise ElfError(f"{name}: section table ends at {end}, the file at {len(data)}")
    total = 0
    for index in range(count):
        header = section.unpack_from(data, offset + index * entry_size)
        kind, flags, start, size = header[1], header[2], header[4], header[5]
        if not flags & _SHF_EXECINSTR:
            continue
        if kind != _SHT_NOBITS and start + size > len(data):
            raise ElfError(f"{name}: section {index} ends at {start + size}, past {len(data)}")
        total += size
    return total


def file_executable_bytes(path: Path) -> int:
    """`executable_bytes` of a file; OSError if it can't be read."""
    return executable_bytes(path.read_bytes(), str(path))


def main(arguments: list[str]) -> int:
    """Print the bytes of executable sections of each file named, and their sum."""
    total = 0
    for name in arguments:
        try:
            size = file_executable_bytes(Path(name))
        except (OSError, ElfError) as error:
            print(f"sizes: {error}", file=sys.stderr)
            return 1
        total += size
        print(f"{size:10d} {name}")
    print(f"{total:10d} total")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
