# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mypy --strict on all Python of the tree, each folder that is imported together by itself."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from common import BUILD, PYTHON, ROOT, environment, source_files

# PyTorch is installed for training only, TensorFlow apart from the rest; without them what derives
# from them has no types.
UNTYPED = ["--allow-subclassing-any", "--allow-untyped-decorators", "--no-warn-return-any"]

UNTYPED_FOLDERS = ("models", "tests/tensorflow", "tests/torch-exports")

# What a folder takes from beside it: floors the policy of their benchmark, tests the tools.
BESIDE = {
    "floor": "bench/round-trip",
    "attacks": "python/tests:tests/attacks",
    "footprint": "bench/in-process",
    "hostile-models": "tests/golden/hostile:tools",
    "install": "bench/in-process",
    "c-api": "bench/in-process",
    "repository": "tools",
    "closure": "tools",
    "onnx-nodes": "tools",
    "random-networks": "tools",
}


def base_of(path: Path) -> Path:
    """The folder that is on the path when this file is imported."""
    folder = path.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def take_stub() -> None:
    """What is known of the extension is made when the package is built (make build)."""
    stubs = list(BUILD.glob("venv/lib/python*/site-packages/mlbridge/_core.pyi"))
    if not stubs:
        sys.exit("there is no package to take the extension's types from: make build")
    shutil.copyfile(stubs[0], ROOT / "python" / "mlbridge" / "_core.pyi")


def main() -> int:
    take_stub()
    groups: dict[Path, list[str]] = {}
    for path in source_files(".py", ".pyi"):
        groups.setdefault(base_of(path), []).append(str(path))
    worst = 0
    for base, files in groups.items():
        print(f"== {base.relative_to(ROOT)}", flush=True)
        env = environment()
        if base != ROOT / "python":
            beside = [ROOT / part for part in BESIDE.get(base.name, "").split(":") if part]
            env["MYPYPATH"] = ":".join(map(str, [base, *beside]))
        command = [str(PYTHON), "-m", "mypy", "--strict", "--no-error-summary"]
        command += ["--cache-dir", str(BUILD / "cache" / "mypy" / base.relative_to(ROOT))]
        if any(base.is_relative_to(ROOT / part) for part in UNTYPED_FOLDERS):
            command += UNTYPED
        code = subprocess.run([*command, *files], cwd=ROOT, env=env, check=False).returncode
        worst = max(worst, code)
    return worst


if __name__ == "__main__":
    sys.exit(main())
