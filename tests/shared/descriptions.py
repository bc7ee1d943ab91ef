# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the optimization.toml beside each compiler plugin says."""

from __future__ import annotations

from typing import Any

import tomllib
from building import ROOT

DESCRIPTIONS: dict[str, dict[str, Any]] = {}
for file in sorted((ROOT / "compilers").glob("**/optimization.toml")):
    DESCRIPTIONS |= tomllib.loads(file.read_text())


def plugins() -> dict[str, set[str]]:
    """The files of the compiler plugins, by the compiler that they are for: llvm22, gcc12, …"""
    files: dict[str, set[str]] = {}
    for keys in DESCRIPTIONS.values():
        for version in keys["versions"]:
            compiler = keys.get("compiler", "llvm")
            ending = f"-{version}" if compiler == "llvm" and version != 22 else ""
            name = f"plugins/{keys['plugin']}{ending}.so"
            files.setdefault(f"{compiler}{version}", set()).add(name)
    return files


def models() -> set[str]:
    """The files of the shipped models, and their cards."""
    files = set()
    for keys in DESCRIPTIONS.values():
        if model := keys.get("model"):
            networks = {f"{agent}.onnx" for agent in keys.get("agents", ["policy"])}
            files |= {f"models/{model}/{name}" for name in {*networks, "README.md"}}
    return files
