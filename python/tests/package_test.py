# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The modules of the package, and what they import of each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import mlbridge

PACKAGE = Path(__file__).parents[1] / "mlbridge"


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {name_of(path): path for path in PACKAGE.rglob("*.py")}


def imported(module: str, path: Path) -> Iterator[str]:
    """The modules of the package that this one imports, at once or when it needs them."""
    tree = ast.parse(path.read_text())
    # What only type checkers see imports nothing.
    for top in tree.body:
        if isinstance(top, ast.If) and ast.unparse(top.test) == "TYPE_CHECKING":
            top.body.clear()
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in SOURCES)
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = package.rsplit(".", node.level - 1)[0] if node.level > 1 else package
            whole = f"{base}.{node.module}" if node.module else base
            for alias in node.names:
                inner = f"{whole}.{alias.name}"
                found = inner if inner in SOURCES else whole
                if found in SOURCES:
                    yield found


def test_no_module_imports_itself_through_others() -> None:
    graph = {module: set(imported(module, path)) for module, path in SOURCES.items()}
    assert graph["mlbridge.client"] >= {"mlbridge.errors", "mlbridge.server"}, "the reader works"
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_every_public_name_is_there() -> None:
    for name in mlbridge.__all__:
        assert getattr(mlbridge, name) is not None, name
