# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The public functions of the C++ and the C interface, as libclang reads them in the headers."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clang import cindex
from clang.cindex import AccessSpecifier, CursorKind

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include"
#: Includes headers of LLVM, and is for LLVM's own interface, which is C++.
FOR_LLVM = "llvm_model_runner.h"
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
NAMELESS = {CursorKind.LINKAGE_SPEC, CursorKind.UNEXPOSED_DECL, CursorKind.FRIEND_DECL}
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
    return sorted(h for h in (INCLUDE / "mlbridge").glob("*.h") if h.name != FOR_LLVM)


def c_headers() -> list[Path]:
    return sorted((INCLUDE / "mlbridge" / "c").glob("*.h"))


@functools.cache
def resource_directory() -> str:
    """libclang of PyPI has no headers of its own (stddef.h)."""
    return subprocess.run(
        [CLANG, "-print-resource-dir"], capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def parse(headers: list[Path], language: str) -> Any:
    """One translation unit of all of them, which is quicker than one for each."""
    text = "".join(f'#include "{header}"\n' for header in headers)
    arguments = [*language.split(), f"-I{INCLUDE}", "-resource-dir", resource_directory()]
    unit = cindex.Index.create().parse(
        "all.h",
        args=arguments,
        unsaved_files=[("all.h", text)],
        options=cindex.TranslationUnit.PARSE_SKIP_FUNCTION_BODIES,
    )
    errors = [str(d) for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
    if errors:
        raise RuntimeError("the headers cannot be parsed:\n" + "\n".join(errors))
    return unit


@functools.cache
def cxx_functions() -> list[Function]:
    """Each overload by itself; deleted ones are none."""
    found: set[Function] = set()
    headers = cxx_headers()
    unit = parse(headers, "-x c++ -std=c++17")
    for namespace in unit.cursor.get_children():
        if namespace.kind == CursorKind.NAMESPACE and namespace.spelling == "mlbridge":
            found |= set(functions_in(namespace, headers, ""))
    return sorted(found)


@functools.cache
def c_functions() -> list[Function]:
    headers = c_headers()
    unit = parse(headers, "-x c -std=c11")
    return sorted(set(functions_in(unit.cursor, headers, "")))


def constants() -> dict[str, int]:
    """The numbers that the headers of the C interface name."""
    headers = c_headers()
    return {
        cursor.spelling: cursor.enum_value
        for cursor in parse(headers, "-x c -std=c11").cursor.walk_preorder()
        if cursor.kind == CursorKind.ENUM_CONSTANT_DECL
        and Path(cursor.location.file.name) in headers
    }


def functions_in(scope: Any, headers: list[Path], prefix: str) -> Iterator[Function]:
    for cursor in scope.get_children():
        if not cursor.location.file or Path(cursor.location.file.name) not in headers:
            continue
        if cursor.access_specifier == AccessSpecifier.PRIVATE:  # protected is for who derives
            continue
        if cursor.kind in FUNCTIONS:
            if cursor.is_deleted_method():
                continue
            name = cursor.spelling
            if "operator" not in name:
                name = name.partition("<")[0]
            parameters = cursor.displayname[cursor.displayname.index("(") + 1 : -1]
            header = Path(cursor.location.file.name).name
            yield Function(prefix + name, parameters, header)
        elif cursor.kind in SCOPES:
            inner = prefix if cursor.kind in NAMELESS else f"{prefix}{cursor.spelling}::"
            yield from functions_in(cursor, headers, inner)
