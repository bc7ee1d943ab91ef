# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the optimization.toml beside each compiler plugin says."""

from __future__ import annotations

from typing import Any

import tomllib
from building import ROOT

DESCRIPTIONS: dict[str, dict[str, Any]] = {}
for file in sorted((ROOT / "compilers").glob("**/optimization.toml")):
    DESCRIPTIONS |= tomllib.loads(file.read_text())


def packaged() -> set[str]:
    """The files of all optimizations in the package: plugins, models and their cards."""
    files = set()
    for keys in DESCRIPTIONS.values():
        for version in keys["versions"]:
            of_llvm = keys.get("compiler", "llvm") == "llvm"
            ending = f"-{version}" if of_llvm and version != 22 else ""
            files.add(f"plugins/{keys['plugin']}{ending}.so")
        if model := keys.get("model"):
            networks = {f"{agent}.onnx" for agent in keys.get("agents", ["policy"])}
            files |= {f"models/{model}/{name}" for name in {*networks, "README.md"}}
    return files
