# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What docs/reference/comments.py shows Doxygen; no name gets the comment of another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from headers import ROOT

FILTER = ROOT / "docs" / "reference" / "comments.py"


def shown(text: str, folder: Path) -> str:
    header = folder / "x.h"
    header.write_text(text)
    return subprocess.run(
        [sys.executable, FILTER, header], capture_output=True, text=True, check=True, timeout=60
    ).stdout


def test_a_comment_is_about_the_functions_up_to_a_blank_line(tmp_path: Path) -> None:
    text = "// SPDX\n// The role.\n\n/// Of both.\nint a();\nint b(int x = f());\n\nint c();\n"
    assert shown(text, tmp_path) == (
        "/// @file\n/// The role.\n\n\n/// Of both.\nint a();\n/// Of both.\n"
        "int b(int x = f());\n\nint c();\n"
    )


def test_variables_and_bodies_inherit_nothing(tmp_path: Path) -> None:
    text = (
        "// S\n\nstruct S {\n  /// One.\n  int f() { g(); }\n  int x;\n"
        "  /// X.\n  int y;\n  int z;\n};\n"
    )
    result = shown(text, tmp_path)
    assert result.count("One.") == 1 and result.count("X.") == 1


def test_comments_of_c_become_documentation(tmp_path: Path) -> None:
    text = (
        "/* SPDX-License-Identifier: L\n *\n * The role.\n */\n#ifdef __cplusplus\n"
        'extern "C" {\n#endif\n\n/* Of both;\n * two lines. */\nint a(void);\nint b(void);\n'
        "int c(void); /* null is nothing */\nstruct s {\n  int x; /* first */\n};\n"
        "#ifdef __cplusplus\n} /* end */\n#endif\n"
    )
    result = shown(text, tmp_path)
    assert result.startswith("/** @file\n *\n * The role.\n */\n")
    assert result.count("/** Of both;") == 2
    assert "int c(void); /**< null is nothing */" in result and "int x; /**< first */" in result
    assert "} /* end */" in result
