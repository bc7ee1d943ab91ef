# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The sources that mlbridge compile makes, for itself or for a build of the user's own."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from .. import _core

PACKAGE = Path(__file__).resolve().parent.parent
# From the least to the most preferred: the one that is chosen at run time is the last of those that
# the CPU has. Name in C++, and the machine that has it.
INSTRUCTION_SETS = {
    "portable": ("Portable", ""),
    "neon": ("Neon", "__aarch64__"),
    "avx2": ("Avx2", "__x86_64__"),
    "avx512": ("Avx512", "__x86_64__"),
}


def write_sources(
    folder: Path, name: str, made: tuple[bytes, bytes, bytes], sets: Iterable[str] = ()
) -> None:
    """NAME.h, NAME.cpp, NAME_ISA.cpp for each instruction set, and what they include.
    Without `sets` they choose by the compiler's target.
    """
    source, header, weights = made
    listed = " ".join(f"X({INSTRUCTION_SETS[isa][0]})" for isa in sets)
    chosen = f"#define MLBRIDGE_AOT_ISAS(X) {listed}\n" if listed else ""
    (folder / f"{name}.cpp").write_bytes(chosen.encode() + source)
    (folder / f"{name}.h").write_bytes(header)
    (folder / f"{name}_weights.bin").write_bytes(weights)
    for isa in sets or INSTRUCTION_SETS:
        (folder / f"{name}_{isa}.cpp").write_text(evaluation(name, isa))
    for part, headers in (("kernels", PACKAGE / "kernels"), ("mlbridge", None)):
        (folder / part).mkdir(exist_ok=True)
        for file in headers.glob("*.h") if headers else [PACKAGE / "include/mlbridge/aot.h"]:
            shutil.copyfile(file, folder / part / file.name)


def evaluation(name: str, isa: str) -> str:
    """The source of one instruction set; empty for a machine that hasn't got it."""
    written, machine = INSTRUCTION_SETS[isa]
    lines = [
        f"#define MLBRIDGE_AOT_ISA {written}",
        f'#define MLBRIDGE_AOT_VECTOR "vector_{isa}.h"',
        *(["#define MLBRIDGE_NATIVE_SPECIALIZE"] if isa != "portable" else []),
        f'#include "{name}.cpp"',
    ]
    if machine:
        lines = [f"#ifdef {machine}", *lines, "#endif"]
    return "\n".join(["// Made by mlbridge compile.", *lines, ""])


def write_depfile(path: Path, target: Path, files: Iterable[str]) -> None:
    """What the sources were made of, as make and Ninja read it: the model and this very program."""
    tools = [_core.__file__, __file__, PACKAGE / "include/mlbridge/aot.h"]
    tools += sorted((PACKAGE / "kernels").glob("*.h"))
    names = [str(name).replace("\\", "\\\\").replace(" ", "\\ ") for name in (*files, *tools)]
    path.write_text(f"{str(target).replace(' ', chr(92) + ' ')}: {' '.join(names)}\n")
