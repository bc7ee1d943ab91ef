# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ELF reader against files built here byte by byte and against a compiler's object."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from mlbridge import InvalidArgument
from mlbridge.elf import executable_bytes, file_executable_bytes, is_object

Section = tuple[int, int, int]  # type, flags, size


def elf(sections: list[Section], order: str = "<", table_count: int | None = None) -> bytes:
    """An ELF64 file with these sections, their bytes after the header, the table at the end."""
    body = b""
    headers = struct.pack(order + "IIQQQQIIQQ", 0, 0, 0, 0, 0, table_count or 0, 0, 0, 0, 0)
    for kind, flags, size in sections:
        headers += struct.pack(
            order + "IIQQQQIIQQ", 0, kind, flags, 0, 64 + len(body), size, 0, 0, 1, 0
        )
        if kind != 8:
            body += b"\x90" * size
    count = len(sections) + 1
    ident = b"\x7fELF\x02" + (b"\x01" if order == "<" else b"\x02") + b"\x01" + bytes(9)
    header = struct.pack(
        order + "16sHHIQQQIHHHHHH",
        ident, 1, 62, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64,
        0 if table_count is not None else count, 0,
    )  # fmt: skip
    return header + body + headers


def test_only_executable_sections_count() -> None:
    data = elf([(1, 0x6, 100), (1, 0x2, 50), (1, 0x6, 7), (1, 0x3, 9), (1, 0x206, 5)])
    assert executable_bytes(data) == 112


def test_big_endian_and_extended_section_count() -> None:
    assert executable_bytes(elf([(1, 0x6, 33)], order=">")) == 33
    assert executable_bytes(elf([(1, 0x6, 33), (1, 0x6, 1)], table_count=3)) == 34


def test_section_without_bytes_in_the_file_counts_its_size() -> None:
    assert executable_bytes(elf([(8, 0x6, 4096)])) == 4096


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not with the ELF magic"),
        (b"\x7fELF", "class and encoding"),
        (b"\x7fELF\x02\x01", "6 bytes"),
        (b"!<arch>\n" + bytes(100), "not with the ELF magic"),
        (b"\x7fELF\x03\x01" + bytes(100), "class and encoding are 0301"),
        (b"\x7fELF\x02\x07" + bytes(100), "class and encoding are 0207"),
        (elf([(1, 0x6, 10)])[:-1], "section table ends"),
        (elf([(1, 0x6, 10)], table_count=1 << 40), "section table ends"),
    ],
)
def test_damaged_files_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        executable_bytes(data)


def test_section_that_lies_past_the_end_is_refused() -> None:
    data = bytearray(elf([(1, 0x6, 10)]))
    struct.pack_into("<Q", data, len(data) - 64 + 32, 1 << 60)
    with pytest.raises(InvalidArgument, match="section 1 ends at"):
        executable_bytes(bytes(data))


def test_objects_are_told_from_other_files() -> None:
    assert is_object(elf([])) and is_object(elf([], order=">"))
    assert not is_object(elf([])[:17])
    assert not is_object(elf([])[:16] + b"\x02\x00" + bytes(50))  # a program
    assert not is_object(b"!<arch>\n" + bytes(50))


@pytest.mark.parametrize("machine", [(), ("-m32",)])
def test_a_compilers_object_against_binutils(tmp_path: Path, machine: tuple[str, ...]) -> None:
    source = tmp_path / "a.c"
    source.write_text(
        "int data[9]; int f(int x) { return data[x] * 3; }\n"
        '__attribute__((section(".text.own"))) int g(void) { return f(2); }\n'
    )
    target = tmp_path / "a.o"
    subprocess.run(
        ["clang-22", *machine, "-Oz", "-c", source, "-o", target], check=True, timeout=60
    )
    listing = subprocess.run(
        ["llvm-readelf-22", "-S", "-W", target],
        check=True, capture_output=True, text=True, timeout=60,
    ).stdout  # fmt: skip
    expected = 0
    for line in listing.splitlines():
        words = line.replace("[ ", "[").split()
        if len(words) > 7 and words[0].startswith("[") and "X" in words[7]:
            expected += int(words[5], 16)
    assert expected > 0
    assert file_executable_bytes(target) == expected
