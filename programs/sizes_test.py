# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ELF reader against files built here byte by byte and against a compiler's object."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from mlbridge.elf import ElfError, executable_bytes, file_executable_bytes
from programs.sizes import main

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
        (b"", "0 bytes"),
        (b"\x7fELF", "4 bytes"),
        (b"!<arch>\n" + bytes(100), "not with the ELF magic"),
        (b"\x7fELF\x01" + bytes(100), "ELF class 1"),
        (b"\x7fELF\x02\x07" + bytes(100), "encoding 7"),
        (elf([(1, 0x6, 10)])[:-1], "section table ends"),
        (elf([(1, 0x6, 10)], table_count=1 << 40), "section table ends"),
    ],
)
def test_damaged_files_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(ElfError, match=message):
        executable_bytes(data)


def test_section_that_lies_past_the_end_is_refused() -> None:
    data = bytearray(elf([(1, 0x6, 10)]))
    struct.pack_into("<Q", data, len(data) - 64 + 32, 1 << 60)
    with pytest.raises(ElfError, match="section 1 ends at"):
        executable_bytes(bytes(data))


def test_a_compilers_object_against_binutils(tmp_path: Path) -> None:
    source = tmp_path / "a.c"
    source.write_text(
        "int data[9]; int f(int x) { return data[x] * 3; }\n"
        '__attribute__((section(".text.own"))) int g(void) { return f(2); }\n'
    )
    target = tmp_path / "a.o"
    subprocess.run(["clang-22", "-Oz", "-c", source, "-o", target], check=True, timeout=60)
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


def test_command_names_the_file_it_cannot_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.o").write_bytes(b"text")
    assert main([str(tmp_path / "bad.o")]) == 1
    assert "bad.o: 4 bytes" in capsys.readouterr().err
    (tmp_path / "good.o").write_bytes(elf([(1, 0x6, 12)]))
    assert main([str(tmp_path / "good.o")]) == 0
    assert "12 total" in capsys.readouterr().out
