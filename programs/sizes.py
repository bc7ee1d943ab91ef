# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bytes of executable sections (SHF_EXECINSTR) of 64-bit ELF files."""

from __future__ import annotations

import sys
from pathlib import Path

from mlbridge.elf import ElfError, file_executable_bytes


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
