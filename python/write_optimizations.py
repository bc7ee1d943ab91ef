# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes what the optimization.toml beside each compiler plugin says, as the package's table, and
prints the files of their models: write_optimizations.py TREE TABLE.py"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:  # which scikit-build-core requires there
    import tomli as tomllib

#: LLVM's optimizations come first.
COMPILERS = ("llvm", "gcc", "mlir")
#: What is shipped of a model's folder.
SHIPPED = ("*.onnx", "README.md", "actions.json", "candidates.json", "link-candidates.json")


def descriptions(tree: Path) -> dict[str, dict[str, Any]]:
    """The keys of each optimization, by its name."""
    listed = {}
    for path in tree.glob("compilers/**/optimization.toml"):
        listed.update(tomllib.loads(path.read_text(encoding="utf-8")))
    order = {name: COMPILERS.index(keys.get("compiler", "llvm")) for name, keys in listed.items()}
    return {name: listed[name] for name in sorted(listed, key=lambda name: (order[name], name))}


def table(described: dict[str, dict[str, Any]]) -> str:
    """The package's table, in Python; the keys for tests aren't in it."""
    lines = []
    for name, keys in described.items():
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in keys.items()}
        values.pop("tests", None)
        lines.append(f"    {name!r}: {values},\n")
    head = "from typing import Any\n\nTABLE: dict[str, dict[str, Any]] = {\n"
    return head + "".join(lines) + "}\n"


def model_files(tree: Path, described: dict[str, dict[str, Any]]) -> list[str]:
    """The files of shipped models, relative to the folder `models`."""
    models = tree / "models"
    folders = [models / keys["model"] for keys in described.values() if "model" in keys]
    files = (path for folder in folders for name in SHIPPED for path in folder.glob(name))
    return sorted(str(path.relative_to(models)) for path in files)


if __name__ == "__main__":
    root = Path(sys.argv[1])
    found = descriptions(root)
    Path(sys.argv[2]).write_text(table(found), encoding="utf-8")
    print(*model_files(root, found), sep=";", end="")
