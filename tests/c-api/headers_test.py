# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each header of the C interface alone is strict C11, and C++17 as well."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from headers import INCLUDE, c_headers

COMMON = ("-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", f"-I{INCLUDE}")


@pytest.mark.parametrize("compiler", ["gcc", "clang-22"])
@pytest.mark.parametrize("language", ["c11", "c++17"])
def test_headers_compile_alone(compiler: str, language: str, tmp_path: Path) -> None:
    sources = []
    for header in c_headers():
        source = tmp_path / f"{header.stem}.{'c' if language == 'c11' else 'cpp'}"
        include = f"#include <mlbridge/c/{header.name}>\n"
        source.write_text(include + include + "typedef int a_translation_unit_needs_something;\n")
        sources.append(source)
    assert sources
    strict = ("-Wstrict-prototypes",) if language == "c11" else ()
    done = subprocess.run(
        [compiler, f"-std={language}", *COMMON, *strict, *sources],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
