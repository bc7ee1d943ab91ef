# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mypy --strict on each group of Python files that is imported together."""

from __future__ import annotations

import subprocess
import sys

from common import PYTHON, ROOT, environment, source_files

# Folders whose files import each other by their bare names have to be checked one by one.
GROUPS = ("python/mlbridge", "programs", "demo", "tools", "bench", "models", "examples", "tests",
          "compilers")


def main() -> int:
    worst = 0
    for group in GROUPS:
        files = [str(p) for p in source_files(".py", ".pyi", under=(group,))]
        if not files:
            continue
        print(f"== {group}", flush=True)
        command = [str(PYTHON), "-m", "mypy", "--strict", "--no-error-summary"]
        command += ["--cache-dir", str(ROOT / "build/cache/mypy"), *files]
        worst = max(worst, subprocess.run(command, cwd=ROOT, env=environment(),
                                          check=False).returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main())
