# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints which room of the tree includes or imports which, and fails on an arrow against the rule
or a circle: tools/rooms.py [TREE]

Tests may include anything.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

CORE, TRANSPORTS, SERDES, ENGINES = "src/core", "src/transport", "src/serdes", "src/engine"
FAMILIES = (ENGINES, SERDES, TRANSPORTS)
# What plugins share; headers that lie in compilers/llvm itself belong to it.
PLUGIN = "compilers/llvm/plugin"
ANY_COMPILER = ("compilers/shared", "compilers/c")
SHARED = (PLUGIN, *(f"compilers/llvm/{name}" for name in ("trials", "embeddings", "versions")))
SHARED += ANY_COMPILER
# The rooms that a room may include or import, besides itself and public headers. A room of a
# family, such as src/engine/onnx, may use its family's own files and the core; "/*" is all rooms of
# a family.
# Python's package has floors: a room may import from those that stand in its row.
# docs/architecture.md shows this table.
RULE: dict[str, tuple[str, ...]] = {
    "include": (),
    CORE: (),
    **dict.fromkeys(FAMILIES, (CORE,)),
    "src/conversation": (CORE, SERDES, TRANSPORTS),
    "src/runner": (CORE, "src/conversation", ENGINES, ENGINES + "/*"),
    "src/server": (CORE, SERDES, TRANSPORTS, "src/conversation", "src/runner"),
    "src/rl": (CORE, "src/conversation", "src/runner", "src/server"),
    "src/c": (CORE, "src/conversation", "src/runner", "src/server", "src/rl"),
    "python/extension": (CORE, ENGINES, ENGINES + "/*", "src/runner", "src/rl"),
    "compat": (CORE, SERDES, TRANSPORTS, TRANSPORTS + "/*", "src/runner"),
    "compilers/llvm/versions": (),
    "compilers/llvm/embeddings": ("compilers/llvm/versions",),
    "compilers/llvm/trials": ("compilers/llvm/versions",),
    PLUGIN: ("compilers/shared", "compilers/llvm/versions", "compilers/llvm/trials"),
    "compilers/llvm/*": SHARED,
    **dict.fromkeys(ANY_COMPILER, ()),
    "compilers/*": ANY_COMPILER,
    "mlbridge": (),
    "mlbridge.corpus": ("mlbridge",),
    "mlbridge.rewards": ("mlbridge",),
    "mlbridge.gym": ("mlbridge", "mlbridge.corpus", "mlbridge.rewards", "mlbridge.vocabulary"),
    "mlbridge.training": (
        *("mlbridge", "mlbridge.corpus", "mlbridge.gym", "mlbridge.report", "mlbridge.rewards"),
    ),
    "mlbridge.report": ("mlbridge", "mlbridge.specializing"),
    "mlbridge.*": ("mlbridge", "mlbridge.corpus"),
    "mlbridge.cli": ("mlbridge", "mlbridge.*"),
}
# Modules of the package's folder that stand on a floor above the bridge.
ABOVE = ("candidates", "vocabulary")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)
TEST = re.compile(r"(^|/)(tests?|testing|parallel-test)/|_test\.\w+$|(^|/)(test_[^/]*|testing\.h)$")
SEARCHED = ("src", "include", "compat/src", "compat/include")
# What Python outside of compat/ must not import, and where that lies.
COMPAT, COMPAT_MODULES = "compat", ("CompilerInterface", "compat")
Arrows = dict[str, dict[str, list[str]]]  # from, to, and where that is written


def arrows() -> Arrows:
    return defaultdict(lambda: defaultdict(list))


def room_of(path: str) -> str:
    """The room of a C or C++ file."""
    parts = path.split("/")
    if parts[0] in RULE:
        return parts[0]
    if parts[:2] == ["compilers", "llvm"]:
        return PLUGIN if len(parts) == 3 else "/".join(parts[:3])
    room = "/".join(parts[:2])
    return "/".join(parts[:3]) if room in FAMILIES and len(parts) > 3 else room


def python_room(module: str) -> str:
    """The room of a module of the package mlbridge or of mlbridge_compat."""
    parts = module.split(".")
    name = ".".join(parts[:2])
    return name if len(parts) > 2 or name in RULE or parts[-1] in ABOVE else parts[0]


def allowed_for(room: str) -> tuple[str, ...]:
    while room not in RULE and room:
        parent, separator, _ = room.removesuffix("*").rpartition("/" if "/" in room else ".")
        if parent + separator + "*" in RULE:
            return RULE[parent + separator + "*"]
        room = parent
    return RULE.get(room, ())


def is_allowed(source: str, target: str) -> bool:
    family = target.rpartition("/")[0]
    if source.rpartition("/")[0] in FAMILIES:
        return target in (CORE, source.rpartition("/")[0])
    allowed = allowed_for(source)
    return (
        target in allowed
        or (family in FAMILIES and family + "/*" in allowed)
        or (target.startswith("mlbridge.") and "mlbridge.*" in allowed)
    )


def includes(tree: Path) -> tuple[Arrows, Arrows]:
    """The arrows between rooms, and between folders."""
    rooms, folders = arrows(), arrows()
    for base in sorted({room.split("/")[0] for room in RULE}):
        for path in sorted((tree / base).rglob("*.*")):
            name = str(path.relative_to(tree))
            if path.suffix not in (".h", ".c", ".cpp") or TEST.search(name):
                continue
            for target in INCLUDE.findall(path.read_text(errors="replace")):
                places = [path.parent, *(tree / part for part in SEARCHED)]
                if name.startswith("compilers/"):
                    places += [
                        tree / "compilers",
                        *((tree / "compilers/llvm",) * ("/llvm/" in name)),
                    ]
                found = next((p / target for p in places if (p / target).is_file()), None)
                if found is None or not found.resolve().is_relative_to(tree):
                    continue
                other = str(found.resolve().relative_to(tree))
                where = f"{name} includes {other}"
                rooms[room_of(name)][room_of(other)].append(where)
                folders[str(Path(name).parent)][str(Path(other).parent)].append(where)
    return rooms, folders


def imported(path: Path) -> Iterator[Path]:
    """The modules and packages that a module imports from its own package, without a suffix."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            module = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            for found in [module, *(module / alias.name for alias in node.names)]:
                if (found / "__init__.py").is_file() and found not in path.parents:
                    yield found / "__init__"
                elif found.with_suffix(".py").is_file() and found != path.with_suffix(""):
                    yield found


def imports(tree: Path) -> tuple[Arrows, Arrows]:
    """The arrows between the rooms of Python packages, and between their modules.

    A package is what is in its folder. The faces of a package, __init__ and __main__, may import
    any of its rooms.
    """
    rooms, modules = arrows(), arrows()
    sources = (tree / "python", tree / "compat" / "python")
    packages = {p.parent for source in sources for p in source.rglob("__init__.py")}
    for base in sorted(p for p in packages if p.parent not in packages):
        for path in sorted(base.rglob("*.py")):
            inner = path.relative_to(base).with_suffix("").parts
            name = ".".join([base.name, *inner])
            for found in imported(path):
                other = ".".join([base.name, *found.relative_to(base).parts])
                where = f"{'/'.join(inner)}.py imports {'/'.join(found.relative_to(base).parts)}.py"
                if found.name != "__init__":  # which may import what imports it
                    modules[name][other].append(where)
                if base.name == "mlbridge" and inner[0] not in ("__init__", "__main__"):
                    rooms[python_room(name)][python_room(other)].append(where)
    return rooms, modules


def compat_imports(tree: Path) -> Iterator[str]:
    """Imports of the interfaces of 2024 outside of their folder."""
    others = [f for f in tree.glob("[!.]*") if f.is_dir() and f.name not in (COMPAT, "build")]
    for path in sorted(path for folder in others for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names = [node.module]
            for name in names:
                if name.split(".")[0] in COMPAT_MODULES:
                    yield f"{path.relative_to(tree)} imports {name}"


def circle(arrows: Arrows) -> list[str]:
    """One path that leads back to where it starts, or nothing."""
    try:
        TopologicalSorter({source: set(arrows[source]) - {source} for source in arrows}).prepare()
    except CycleError as error:
        path: list[str] = error.args[1]
        return path[::-1]
    return []


def main() -> int:
    tree = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1]).resolve()
    rooms, folders = includes(tree)
    python_rooms, modules = imports(tree)
    bad = []
    for found in (rooms, python_rooms, modules):
        for source in sorted(found):
            others = sorted(set(found[source]) - {source, "include"})
            if others:
                print(f"{source} -> {', '.join(others)}")
            if found is not modules:
                wrong = [target for target in others if not is_allowed(source, target)]
                bad += [f"against the rule: {w}" for t in wrong for w in found[source][t]]
    # A room may have inner folders, between which there is no circle either.
    every = (rooms, folders, python_rooms, modules)
    bad += [f"circle: {' -> '.join(path)}" for one in every if (path := circle(one))]
    bad += [f"against the rule: {text}" for text in compat_imports(tree)]
    bad = list(dict.fromkeys(bad))
    print("\n".join(bad) if bad else "no arrow against the rule, no circle")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
