# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The plugins of LLVM's own questions with the policies as TensorFlow's compiler makes them."""

from __future__ import annotations

import sys
from pathlib import Path

from building import run

from mlbridge.optimizations import OPTIMIZATIONS

ROOT = Path(__file__).resolve().parents[2]
TENSORFLOW = ROOT / "build" / "tensorflow"


def build(folder: Path) -> None:
    """Sets TensorFlow up, which is large, if it isn't there; minutes."""
    tool = [sys.executable, str(ROOT / "cmake" / "tensorflow_aot.py"), "--set-up", str(TENSORFLOW)]
    python = run(*tool).strip()
    here = Path(__file__).with_name("tfaot")
    table = ROOT / "models" / "inliner-size" / "table.json"
    run(python, here / "policies.py", table, folder)
    prefix, made = folder / "prefix", folder / "build"
    run("cmake", "--install", ROOT / "build" / "cmake" / "dev", "--prefix", prefix)
    options = [f"-DCMAKE_PREFIX_PATH={prefix}", f"-DSAVED_MODEL={folder / 'policies'}"]
    options += [f"-DMLBRIDGE_TENSORFLOW_FOLDER={TENSORFLOW}", "-G", "Ninja"]
    run("cmake", "-S", here, "-B", made, *options)
    run("cmake", "--build", made)


def plugin(site: str, folder: Path) -> Path:
    return folder / "build" / f"{OPTIMIZATIONS[site].plugin}.so"


def uri(site: str) -> str:
    return {"inliner": "tfaot:Inline", "regalloc-eviction": "tfaot:Evict"}[site]
