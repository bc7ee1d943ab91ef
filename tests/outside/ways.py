# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ways in which campaigns compile a program: each optimization at the levels where it acts, as
it ships and with agents that decide at random."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mlbridge import candidates
from mlbridge.optimizations import OPTIMIZATIONS
from mlbridge.outputs import write_whole

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "shared"), str(ROOT / "models" / "shared")]
from compiler import printed_flags  # noqa: E402


@dataclass(frozen=True)
class Configuration:
    """Flags to add to a compiler's command line."""

    optimization: str
    name: str  #: shipped, random, effort-3, …
    levels: tuple[str, ...]
    flags: tuple[str, ...]
    gcc: bool = False
    #: Whether no object may have more executable bytes than the stock compiler's.
    never_larger: bool = False
    #: full or thin: the program is linked in link-time optimization, and so is the stock one.
    lto: str = ""

    @property
    def c(self) -> str:
        return "gcc-12" if self.gcc else "clang-22"

    @property
    def cxx(self) -> str:
        return "g++-12" if self.gcc else "clang++-22"


SETTINGS = ["stock", "size", "speed", "inline-less", "inline-more", "unroll", "keep-loops"]
SIZE, ALL, LOOPS = "Os Oz", "O1 O2 O3 Os Oz", "O2 O3"
#: Each optimization as it ships, at its own levels, and others.
LEVELS = {
    **{
        (name, "shipped"): " ".join(sorted(one.levels))
        for name, one in OPTIMIZATIONS.items()
        if one.model and one.levels
    },
    ("phase-ordering", "effort-3"): SIZE,
    ("phase-ordering", "policy"): SIZE,
    ("phase-ordering", "link-full"): SIZE,
    ("phase-ordering", "link-thin"): SIZE,
    ("regalloc-eviction", "shipped"): SIZE,
    ("regalloc-eviction", "effort-0"): SIZE,
    ("register-allocation", "effort-0"): "O2 Oz",
    ("register-allocation", "random"): ALL,
    ("loop-distribution", "random"): LOOPS,
    ("gcc-settings", "random"): "O2 O3 Os",
}


@cache
def link_candidate(seed: int) -> str:
    """One of the shipped candidates for links as a list of its own, so that larger ones lose only
    to the stock link."""
    everywhere = candidates.read(ROOT / "models/phase-ordering-size/link-candidates.json")
    listed = [one for one in everywhere if one.target in ("", platform.machine())]
    one = listed[seed % len(listed)]
    path = ROOT / "build" / "nightly" / f"link-candidate-{seed % len(listed)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, candidates.text([one]).encode())
    return f"candidates:{path}"


@cache
def random_settings(seed: int) -> str:
    """A model of gcc-settings with weights of this seed; the plugin has no agent of its own."""
    import numpy as np
    import onnx
    import onnx_text

    weights = np.random.default_rng(seed).integers(-9, 10, (25, len(SETTINGS)))
    graph = """
    random (float[25] features) => (int64 setting) {
      scores = MatMul (features, weights)
      setting = ArgMax <axis = 0, keepdims = 0> (scores)
    }"""
    network = onnx_text.network(
        graph, {"weights": weights.astype(np.float32)}, {"settings": ",".join(SETTINGS)}
    )
    folder = ROOT / "build" / "nightly" / f"random-settings-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    own = folder / f"{os.getpid()}.onnx"  # another campaign may be reading the model
    onnx.save(network, own)
    own.replace(folder / "policy.onnx")
    return f"native:{folder / 'policy.onnx'}"


def way(optimization: str, name: str, seed: int) -> Configuration:
    """One of LEVELS; what is random in it, by this seed."""
    options = {
        "shipped": [],
        "effort-0": ["--effort", "0"],
        "effort-3": ["--effort", "3"],
        "policy": ["--effort", "0"],
        "random": ["--model", f"function:random?seed={seed}"],
    }
    lto = name.removeprefix("link-") if name.startswith("link-") else ""
    if lto:
        options[name] = ["--lto", lto, "--model", link_candidate(seed)]
    if (optimization, name) == ("gcc-settings", "random"):
        options["random"] = ["--model", random_settings(seed)]
    return Configuration(
        optimization,
        name,
        tuple(LEVELS[optimization, name].split()),
        printed_flags(optimization, "--deadline", "60s", *options[name]),
        gcc=OPTIMIZATIONS[optimization].compiler == "gcc",
        never_larger=optimization == "phase-ordering" and name != "policy",
        lto=lto,
    )


def ways(seed: int, *, only: Sequence[str] = (), links: bool = True) -> list[Configuration]:
    """All of them; `only` those of an optimization, or of OPTIMIZATION/NAME. Without `links` none
    that needs a link."""
    found = [(one, name) for one, name in LEVELS if links or not name.startswith("link-")]
    if only:
        found = [key for key in found if key[0] in only or "/".join(key) in only]
    return [way(optimization, name, seed) for optimization, name in found]
