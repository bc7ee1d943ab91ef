# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sections of ELF files, read without tools."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .errors import InvalidArgument

_SHF_EXECINSTR = 0x4
_SHT_NOBITS = 8
_ET_REL, _ET_EXEC, _ET_DYN = 1, 2, 3
_STT_FUNC = 2
#: What belongs to no function: padding, code that has no symbol.
OTHER = "(other code)"
# Header and section header of each ELF class.
_LAYOUTS = {1: ("16sHHIIIIIHHHHHH", "10I"), 2: ("16sHHIQQQIHHHHHH", "IIQQQQIIQQ")}
_ORDERS = {1: "<", 2: ">"}


class Section(NamedTuple):
    """A section; `contents` is empty if it has none in the file."""

    name: bytes
    flags: int
    size: int
    contents: memoryview


def _kind(start: bytes) -> int | None:
    if len(start) < 18 or start[:4] != b"\x7fELF" or start[5] not in _ORDERS:
        return None
    kind: int = struct.unpack_from(_ORDERS[start[5]] + "H", start, 16)[0]
    return kind


def is_object(start: bytes) -> bool:
    """True for the first 18 bytes or more of a relocatable ELF file."""
    return _kind(start) == _ET_REL


def is_linked(start: bytes) -> bool:
    """True for the first 18 bytes or more of an executable or shared object."""
    return _kind(start) in (_ET_EXEC, _ET_DYN)


def has_code(start: bytes) -> bool:
    """True for the first 18 bytes or more of an object file, executable or shared object."""
    return is_object(start) or is_linked(start)


def sections(data: bytes, name: str = "object") -> Iterator[Section]:
    """The sections of the ELF file in `data`.

    Raises InvalidArgument, which names `name`, if it is no whole ELF file.
    """

    def bad(problem: str) -> InvalidArgument:
        return InvalidArgument(f"{name}: {problem}")

    if data[:4] != b"\x7fELF":
        raise bad(f"starts with {data[:4].hex()}, not with the ELF magic")
    if len(data) < 6 or data[4] not in _LAYOUTS or data[5] not in _ORDERS:
        raise bad(f"ELF class and encoding are {data[4:6].hex()}, expected 1 or 2 each")
    header, section = (struct.Struct(_ORDERS[data[5]] + form) for form in _LAYOUTS[data[4]])
    if len(data) < header.size:
        raise bad(f"{len(data)} bytes, an ELF header has {header.size}")
    fields = header.unpack_from(data)
    offset, entry_size, count, names = fields[6], fields[11], fields[12], fields[13]
    if offset == 0:
        return
    if entry_size < section.size:
        raise bad(f"section headers of {entry_size} bytes, expected {section.size}")
    if count == 0 or names == 0xFFFF:  # too many: the numbers stand in the first header
        if offset + section.size > len(data):
            raise bad(f"section table at {offset} lies past the end ({len(data)})")
        first = section.unpack_from(data, offset)
        count, names = count or first[5], first[6] if names == 0xFFFF else names
    end = offset + entry_size * count
    if end > len(data):
        raise bad(f"section table ends at {end}, the file at {len(data)}")
    headers = [section.unpack_from(data, offset + entry_size * index) for index in range(count)]
    texts = headers[names] if names < count else None
    for index, (at, kind, flags, _, start, size, *_) in enumerate(headers):
        inside = 0 if kind == _SHT_NOBITS or index == 0 else size
        if start + inside > len(data):
            raise bad(f"section {index} ends at {start + size}, past {len(data)}")
        title = b""
        if texts is not None and at < texts[5] and texts[4] + texts[5] <= len(data):
            title = data[texts[4] + at : texts[4] + texts[5]].partition(b"\0")[0]
        yield Section(title, flags, size, memoryview(data)[start : start + inside])


def code_bytes(data: bytes, name: str = "object") -> dict[str, int]:
    """The executable bytes of each function by the symbol table of the ELF file in `data`, and of
    OTHER: together those of its executable sections. Functions that share an address count once.

    Raises InvalidArgument, which names `name`, if it is no whole ELF file.
    """
    found = list(sections(data, name))
    tables = {section.name: section.contents for section in found}
    symbols, texts = tables.get(b".symtab", b""), bytes(tables.get(b".strtab", b""))
    if not symbols:
        symbols, texts = tables.get(b".dynsym", b""), bytes(tables.get(b".dynstr", b""))
    wide = data[4] == 2
    form = struct.Struct(_ORDERS[data[5]] + ("IBBHQQ" if wide else "IIIBBH"))
    at_address: dict[tuple[int, int], tuple[int, int]] = {}
    for fields in form.iter_unpack(symbols[: len(symbols) // form.size * form.size]):
        title, kind, index, address, size = (
            (fields[0], fields[1], fields[3], fields[4], fields[5])
            if wide
            else (fields[0], fields[3], fields[5], fields[1], fields[2])
        )
        if kind & 15 != _STT_FUNC or index >= len(found) or not found[index].flags & _SHF_EXECINSTR:
            continue
        place = index, address
        at_address[place] = max((size, title), at_address.get(place, (0, 0)))
    sizes: dict[str, int] = {}
    for size, title in at_address.values():
        called = texts[title:].partition(b"\0")[0].decode(errors="replace")
        sizes[called] = sizes.get(called, 0) + size
    rest = sum(s.size for s in found if s.flags & _SHF_EXECINSTR) - sum(sizes.values())
    if rest < 0:  # functions overlap
        return {OTHER: rest + sum(sizes.values())}
    return sizes | ({OTHER: rest} if rest else {})


def executable_bytes(data: bytes, name: str = "object") -> int:
    """Sum of the sizes of the executable sections (SHF_EXECINSTR) of the ELF file in `data`."""
    return sum(s.size for s in sections(data, name) if s.flags & _SHF_EXECINSTR)


def file_executable_bytes(path: str | os.PathLike[str]) -> int:
    """`executable_bytes` of a file; OSError if it can't be read."""
    return executable_bytes(Path(path).read_bytes(), os.fspath(path))
