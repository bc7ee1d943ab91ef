# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The processor that something was measured or tested on."""

from __future__ import annotations

import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
AVX512 = {f"avx512{part}" for part in ("f", "bw", "dq", "vl")}


def _entry(name: str, cpuinfo: str) -> str:
    """The first value of that name in the text of /proc/cpuinfo."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def instruction_sets(cpuinfo: str | None = None) -> list[str]:
    """The instruction sets of the native engine that it has, the best one last."""
    flags = set(_entry("flags", CPUINFO.read_text() if cpuinfo is None else cpuinfo).split())
    found = ["portable"]
    if {"avx2", "fma"} <= flags:
        found.append("avx2")
    if flags >= AVX512:
        found.append("avx512")
    return found


def multiplies_bytes_exactly(cpuinfo: str | None = None) -> bool:
    """False where ONNX Runtime's products of bytes saturate: on x86-64 without VNNI."""
    flags = _entry("flags", CPUINFO.read_text() if cpuinfo is None else cpuinfo).split()
    return platform.machine() != "x86_64" or bool({"avx512_vnni", "avx_vnni"} & set(flags))


def processor(cpuinfo: str | None = None) -> str:
    """Its name and best instruction set, such as "AMD EPYC (avx512)"."""
    text = CPUINFO.read_text() if cpuinfo is None else cpuinfo
    return f"{_entry('model name', text) or platform.machine()} ({instruction_sets(text)[-1]})"


def not_run_here(cpuinfo: str | None = None) -> list[str]:
    """What tests leave out since the processor lacks it."""
    sets = instruction_sets(cpuinfo)
    if platform.machine() != "x86_64":
        return []
    names = {"avx2": "AVX2", "avx512": "AVX-512"}
    return [
        f"kernels of native: and aot: for {name}: needs {name}"
        for key, name in names.items()
        if key not in sets
    ]
