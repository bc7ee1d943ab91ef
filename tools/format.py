# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Formats the C, C++ and Python sources in place; with --check only says which are not."""

from __future__ import annotations

import subprocess
import sys

from common import ROOT, environment, source_files


def main() -> int:
    check = "--check" in sys.argv[1:]
    # Inputs of tests are written as users write.
    sources = [str(p) for p in source_files(".h", ".c", ".cpp") if "inputs" not in p.parts]
    env = environment()
    clang_format = ["clang-format-22", *(["--dry-run", "-Werror"] if check else ["-i"]), *sources]
    ruff = ["ruff", "format", *(["--check"] if check else []), str(ROOT)]
    codes = [
        subprocess.run(c, cwd=ROOT, env=env, check=False).returncode for c in (clang_format, ruff)
    ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
