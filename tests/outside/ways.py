# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ways in which campaigns compile a program: each optimization at the levels where it acts, as
it ships and with agents that decide at random."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Way:
    """Flags to add to a compiler's command line."""

    optimization: str
    name: str  #: shipped, random, effort-3, …
    levels: tuple[str, ...]
    flags: tuple[str, ...]
    gcc: bool = False
    #: Whether no object may have more executable bytes than the stock compiler's.
    never_larger: bool = False

    @property
    def c(self) -> str:
        return "gcc-12" if self.gcc else "clang-22"

    @property
    def cxx(self) -> str:
        return "g++-12" if self.gcc else "clang++-22"


@cache
def flags(*arguments: str) -> tuple[str, ...]:
    """What `mlbridge flags` prints."""
    command = [sys.executable, "-m", "mlbridge", "flags", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return tuple(shlex.split(done.stdout))


ROOT = Path(__file__).resolve().parents[2]
SIZE, ALL, LOOPS = "Os Oz", "O1 O2 O3 Os Oz", "O2 O3"
LEVELS = {
    ("phase-ordering", "shipped"): SIZE,
    ("phase-ordering", "effort-3"): SIZE,
    ("phase-ordering", "policy"): SIZE,
    ("inliner", "shipped"): SIZE,
    ("regalloc-eviction", "shipped"): SIZE,
    ("regalloc-eviction", "effort-0"): SIZE,
    ("register-allocation", "shipped"): ALL,
    ("register-allocation", "effort-0"): "O2 Oz",
    ("register-allocation", "random"): ALL,
    ("loop-distribution", "shipped"): LOOPS,
    ("loop-distribution", "random"): LOOPS,
    ("polly-tiling", "shipped"): "O1 O2 O3",
    ("gcc-settings", "shipped"): "O2 O3 Os",
    ("gcc-settings", "random"): "O2 O3 Os",
}


@cache
def random_settings(seed: int) -> str:
    """The model of gcc-settings that decides at random; the plugin has no agent of its own."""
    folder = ROOT / "build" / "nightly" / f"random-settings-{seed}"
    with tempfile.TemporaryDirectory() as temporary:
        command = [sys.executable, str(ROOT / "tools" / "gcc_policy.py"), "random"]
        subprocess.run([*command, "--seed", str(seed), "-o", temporary], check=True)
        folder.mkdir(parents=True, exist_ok=True)
        # Another campaign may be reading it.
        made = Path(shutil.copy(Path(temporary) / "policy.onnx", folder / f"{os.getpid()}.onnx"))
        made.replace(folder / "policy.onnx")
    return f"native:{folder / 'policy.onnx'}"


def way(optimization: str, name: str, seed: int) -> Way:
    """One of LEVELS; what is random in it, by this seed."""
    options = {
        "shipped": [],
        "effort-0": ["--effort", "0"],
        "effort-3": ["--effort", "3"],
        "policy": ["--effort", "0"],
        "random": ["--model", f"function:random?seed={seed}"],
    }
    if (optimization, name) == ("gcc-settings", "random"):
        options["random"] = ["--model", random_settings(seed)]
    return Way(
        optimization,
        name,
        tuple(LEVELS[optimization, name].split()),
        flags(optimization, "--deadline", "60s", *options[name]),
        gcc=optimization == "gcc-settings",
        never_larger=optimization == "phase-ordering" and name != "policy",
    )


def ways(seed: int) -> list[Way]:
    """All of them."""
    return [way(optimization, name, seed) for optimization, name in LEVELS]
