# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the reference of the C++, C and Python interfaces in build/docs/; start at index.html.

Doxygen reads the headers, Sphinx the docstrings of the installed package. A public name without a
comment, or a reference to nothing, is an error.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from common import BUILD, PYTHON, ROOT, environment, version

SOURCE = ROOT / "docs" / "reference"
TARGET = BUILD / "docs"


def main() -> int:
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    doxygen: list[str | Path] = ["doxygen", SOURCE / "Doxyfile"]
    flags = "--quiet --nitpicky --fail-on-warning --keep-going --fresh-env".split()
    flags += ["--doctree-dir", str(BUILD / "cache" / "docs"), "-D", f"release={version()}"]
    sphinx: list[str | Path] = [PYTHON, "-m", "sphinx", *flags, SOURCE, TARGET]
    failed = []
    for name, command in (("Doxygen", doxygen), ("Sphinx", sphinx)):
        print(f"== {name}", flush=True)
        if (
            subprocess.run(
                command, cwd=ROOT, env=environment() | {"MLBRIDGE_VERSION": version()}, check=False
            ).returncode
            != 0
        ):
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
        return 1
    print((TARGET / "index.html").relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
