# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The public functions of the C++ and the C interface, as libclang reads them in the headers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clang import cindex
from clang.cindex import AccessSpecifier, CursorKind

from common import ROOT

INCLUDE = ROOT / "include"
CLANG = "clang-22"
SCOPES = {
    CursorKind.NAMESPACE,
    CursorKind.LINKAGE_SPEC,
    CursorKind.UNEXPOSED_DECL,
    CursorKind.STRUCT_DECL,
    CursorKind.CLASS_DECL,
    CursorKind.CLASS_TEMPLATE,
    CursorKind.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION,
    CursorKind.FRIEND_DECL,
}
FUNCTIONS = {
    CursorKind.FUNCTION_DECL,
    CursorKind.FUNCTION_TEMPLATE,
    CursorKind.CXX_METHOD,
    CursorKind.CONSTRUCTOR,
    CursorKind.DESTRUCTOR,
    CursorKind.CONVERSION_FUNCTION,
}


@dataclass(frozen=True, order=True)
class Function:
    """`name` is without the namespace mlbridge: "Runner::evaluate"."""

    name: str
    parameters: str
    header: str

    def __str__(self) -> str:
        return f"{self.name}({self.parameters})"


def cxx_headers() -> list[Path]:
    return sorted((INCLUDE / "mlbridge").glob("*.h"))


def c_headers() -> list[Path]:
    return sorted((INCLUDE / "mlbridge" / "c").glob("*.h"))


def resource_directory() -> str:
    """libclang of PyPI has no headers of its own (stddef.h)."""
    return subprocess.run(
        [CLANG, "-print-resource-dir"], capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def parse(header: Path, *options: str) -> Any:
    arguments = [*options, f"-I{INCLUDE}", "-resource-dir", resource_directory()]
    unit = cindex.Index.create().parse(str(header), args=arguments)
    errors = [str(d) for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
    if errors:
        raise RuntimeError(f"{header.name} cannot be parsed:\n" + "\n".join(errors))
    return unit.cursor


def cxx_functions() -> list[Function]:
    """Each overload by itself; deleted ones are none."""
    found = set()
    for header in cxx_headers():
        root = parse(header, "-x", "c++", "-std=c++17")
        for namespace in root.get_children():
            if namespace.kind == CursorKind.NAMESPACE and namespace.spelling == "mlbridge":
                found |= set(functions_in(namespace, header, ""))
    return sorted(found)


def c_functions() -> list[Function]:
    found = set()
    for header in c_headers():
        found |= set(functions_in(parse(header, "-x", "c", "-std=c11"), header, ""))
    return sorted(found)


def functions_in(scope: Any, header: Path, prefix: str) -> Iterator[Function]:
    for cursor in scope.get_children():
        if not cursor.location.file or Path(cursor.location.file.name) != header:
            continue
        if cursor.access_specifier in (AccessSpecifier.PRIVATE, AccessSpecifier.PROTECTED):
            continue
        if cursor.kind in FUNCTIONS:
            if cursor.is_deleted_method():
                continue
            parameters = cursor.displayname[cursor.displayname.index("(") + 1 : -1]
            name = cursor.spelling.split("<")[0] if "operator" not in cursor.spelling else None
            yield Function(prefix + (name or cursor.spelling), parameters, header.name)
        elif cursor.kind in SCOPES:
            if cursor.kind in (CursorKind.NAMESPACE,) and cursor.spelling == "detail":
                continue
            named = cursor.kind not in (
                CursorKind.LINKAGE_SPEC,
                CursorKind.UNEXPOSED_DECL,
                CursorKind.FRIEND_DECL,
            )
            yield from functions_in(
                cursor, header, f"{prefix}{cursor.spelling}::" if named else prefix
            )
