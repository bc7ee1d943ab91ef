# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds what the demo runs, and meanwhile fetches the sources of its programs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

import install_package
from common import BUILD, PYTHON, ROOT, environment

LOG = BUILD / "fetch.log"


def main() -> int:
    # Only parts of the package that are in Python, and of the tree: there may be no other yet.
    env = environment() | {"PYTHONPATH": str(ROOT / "python")}
    with (
        LOG.open("w") as log,
        subprocess.Popen(
            [PYTHON, "-m", "programs.fetch", "demo"],
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        ) as fetching,
    ):
        code = install_package.main(install_package.DEMO)
        if code:
            fetching.terminate()
    # What could not be fetched the demo tries once more, and says why if it can't.
    return code


if __name__ == "__main__":
    sys.exit(main())
