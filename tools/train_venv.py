# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge train …` in build/venv-train, which has PyTorch, Ray and Stable-Baselines3.

tools/train_venv.py ARGUMENTS    as of `mlbridge train`; makes the environment first, if need be
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import packing
from common import BUILD, ROOT, environment
from install_package import WHEELS
from install_package import main as build_package

VENV = BUILD / "venv-train"
PYTHON = VENV / "bin" / "python"
REQUIREMENTS = [
    ROOT / "tools" / "requirements" / f"{n}.txt" for n in ("run", "test", "docs", "train")
]


def prepare() -> None:
    """Makes the environment, or brings it up to date. Raises CalledProcessError."""
    if code := build_package():
        raise subprocess.CalledProcessError(code, "tools/install_package.py")
    stamp, digest = VENV / ".made-of", hashlib.sha256()
    wheels = sorted(WHEELS.glob("*.whl"))
    for path in (*REQUIREMENTS, *wheels):
        digest.update(path.read_bytes())
    if stamp.is_file() and stamp.read_text() == digest.hexdigest():
        return
    env = environment()
    pip: list[str | Path] = [PYTHON, "-m", "pip", "install", "--quiet"]
    pip.append("--disable-pip-version-check")
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], env=env, check=True)
    listed = [f"--requirement={path}" for path in REQUIREMENTS]
    print("installing PyTorch, Ray and Stable-Baselines3 into build/venv-train ...", flush=True)
    subprocess.run([*pip, *listed], env=env, check=True)
    for some in packing.in_order(WHEELS):
        subprocess.run([*pip, "--no-deps", "--force-reinstall", *some], env=env, check=True)
    stamp.write_text(digest.hexdigest())


def main() -> int:
    prepare()
    command: list[str | Path] = [PYTHON, "-m", "mlbridge", "train", *sys.argv[1:]]
    return subprocess.run(command, env=environment(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
