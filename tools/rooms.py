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
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

FAMILIES = ("src/engine", "src/serdes", "src/transport")
CORE = "src/core"
# What a room may include besides itself and public headers. A member of a family, such as
# src/engine/onnx, may include its family's own files and core; "/*" is all members of a family.
RULE: dict[str, tuple[str, ...]] = {
    "include": (),
    CORE: (),
    **dict.fromkeys(FAMILIES, (CORE,)),
    "src/conversation": (CORE, "src/serdes", "src/transport"),
    "src/runner": (CORE, "src/conversation", "src/engine", "src/engine/*"),
    "src/server": (CORE, "src/serdes", "src/transport", "src/conversation", "src/runner"),
    "src/rl": (CORE, "src/conversation", "src/runner", "src/server"),
    "src/c": (CORE, "src/conversation", "src/runner", "src/server", "src/rl"),
    "python/extension": (CORE, "src/engine", "src/engine/*", "src/runner", "src/rl"),
    "compat": (CORE, "src/serdes", "src/transport", "src/transport/*", "src/runner"),
    "compilers": (),
}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)
TEST = re.compile(r"(^|/)(tests?|testing)/|_test\.\w+$|(^|/)(test_[^/]*|testing\.h)$")
SEARCHED = ("src", "include", "compat/src", "compat/include")
Arrows = dict[str, dict[str, list[str]]]  # from, to, and where that is written


def room_of(path: str) -> str:
    parts = path.split("/")
    if parts[0] in RULE:
        return parts[0]
    room = "/".join(parts[:2])
    return "/".join(parts[:3]) if room in FAMILIES and len(parts) > 3 else room


def is_allowed(source: str, target: str) -> bool:
    family = target.rpartition("/")[0]
    if source.rpartition("/")[0] in FAMILIES:
        return target in (CORE, source.rpartition("/")[0])
    allowed = RULE.get(source, ())
    return target in allowed or (family in FAMILIES and family + "/*" in allowed)


def includes(tree: Path) -> tuple[Arrows, Arrows]:
    """Of rooms, and of folders."""
    rooms: Arrows = defaultdict(lambda: defaultdict(list))
    folders: Arrows = defaultdict(lambda: defaultdict(list))
    for base in sorted({room.split("/")[0] for room in RULE}):
        for path in sorted((tree / base).rglob("*.*")):
            name = str(path.relative_to(tree))
            if path.suffix not in (".h", ".c", ".cpp") or TEST.search(name):
                continue
            for target in INCLUDE.findall(path.read_text(errors="replace")):
                places = [path.parent, *(tree / part for part in SEARCHED)]
                found = next((p / target for p in places if (p / target).is_file()), None)
                if found is None or not found.resolve().is_relative_to(tree):
                    continue
                other = str(found.resolve().relative_to(tree))
                where = f"{name} includes {other}"
                rooms[room_of(name)][room_of(other)].append(where)
                folders[str(Path(name).parent)][str(Path(other).parent)].append(where)
    return rooms, folders


def imports(tree: Path) -> Arrows:
    """Of the modules of a Python package among themselves; a package is what is in its folder."""
    arrows: Arrows = defaultdict(lambda: defaultdict(list))
    sources = (tree / "python", tree / "compat" / "python")
    packages = {p.parent for source in sources for p in source.rglob("__init__.py")}
    for base in sorted(p for p in packages if p.parent not in packages):
        for path in sorted(base.rglob("*.py")):
            inner = path.relative_to(base).with_suffix("").parts
            for node in ast.walk(ast.parse(path.read_text())):
                if not isinstance(node, ast.ImportFrom) or not node.level:
                    continue
                folder = path.parents[node.level - 1]
                module = folder.joinpath(*(node.module or "").split("."))
                for found in [module, *(module / alias.name for alias in node.names)]:
                    if found.with_suffix(".py").is_file() and found != path.with_suffix(""):
                        other = found.relative_to(base).parts
                        where = f"{'/'.join(inner)}.py imports {'/'.join(other)}.py"
                        arrows[".".join([base.name, *inner])][".".join([base.name, *other])].append(
                            where
                        )
    return arrows


def circle(arrows: Arrows) -> list[str]:
    """One way that leads back to where it starts, or nothing."""
    try:
        TopologicalSorter({source: set(arrows[source]) - {source} for source in arrows}).prepare()
    except CycleError as error:
        way: list[str] = error.args[1]
        return way[::-1]
    return []


def main() -> int:
    tree = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1]).resolve()
    rooms, folders = includes(tree)
    modules = imports(tree)
    bad = []
    for arrows in (rooms, modules):
        for source in sorted(arrows):
            others = sorted(set(arrows[source]) - {source, "include"})
            if others:
                print(f"{source} -> {', '.join(others)}")
            if arrows is rooms:
                wrong = [t for t in others if not is_allowed(source, t)]
                bad += [f"against the rule: {w}" for t in wrong for w in arrows[source][t]]
        # A room may have inner folders, between which there is no circle either.
    bad += [f"circle: {' -> '.join(c)}" for a in (rooms, folders, modules) if (c := circle(a))]
    bad = list(dict.fromkeys(bad))
    print("\n".join(bad) if bad else "no arrow against the rule, no circle")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
