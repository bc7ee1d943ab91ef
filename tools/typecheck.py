# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mypy --strict on all Python of the tree, in as few runs as there are modules of one name."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from common import BUILD, CHECKED, PYTHON, ROOT, environment, source_files

# PyTorch is installed for training only, TensorFlow apart from the rest; without them what derives
# from them has no types.
UNTYPED = ["--allow-subclassing-any", "--allow-untyped-decorators", "--no-warn-return-any"]
UNTYPED_FOLDERS = ("tests/tensorflow", "tests/torch-exports", "tests/llvm-advice/tfaot")
IMPORTED = (  # from other folders
    "cmake",
    *("python", "compat/python", "python/tests", "tests/golden/hostile", "tools", "tests/shared"),
    *("models/polly-tiling", "models/shared", "tests/attacks", "tests/random-networks"),
    *("tests/llvm-advice", "bench", "bench/errors", "bench/in-process", "bench/operators"),
    "bench/round-trip",
)


def base_of(path: Path) -> Path:
    """The folder that is on the path when this file is imported."""
    folder = path.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def take_stubs() -> None:
    """Copies the types of what is made when the package is built (make build)."""
    packages = list(BUILD.glob("venv/lib/python*/site-packages/mlbridge"))
    if not packages:
        sys.exit("there is no package to take the extension's types from: make build")
    for name in ("_core.pyi", "_optimizations.py"):
        stub = (ROOT / "python" / "mlbridge" / name).with_suffix(".pyi")
        shutil.copyfile(packages[0] / name, stub)


def runs(paths: list[Path]) -> list[dict[Path, list[Path]]]:
    """Folders that are imported together and their files, such that no two have a module of the
    same name."""
    groups: dict[Path, list[Path]] = {}
    for path in paths:
        groups.setdefault(base_of(path), []).append(path)
    found: list[dict[Path, list[Path]]] = []
    taken: list[set[str]] = []
    for base, files in groups.items():
        names = {str(f.relative_to(base)) for f in files}
        free = next((i for i, others in enumerate(taken) if not names & others), len(found))
        if free == len(found):
            found.append({})
            taken.append(set())
        taken[free] |= names
        found[free][base] = files
    return found


def main() -> int:
    take_stubs()
    sources = source_files(".py", ".pyi")
    untyped = [p for p in sources if any(p.is_relative_to(ROOT / u) for u in UNTYPED_FOLDERS)]
    worst = 0
    for paths, more in ((sources, []), (untyped, UNTYPED)):
        for together in runs([p for p in paths if more or p not in untyped]):
            print("==", *(base.relative_to(ROOT) for base in together), flush=True)
            search = dict.fromkeys([*together, *(ROOT / folder for folder in IMPORTED)])
            # Relative, as the cache is looked up by path: another clone's results are of use.
            path = ":".join(str(folder.relative_to(ROOT)) for folder in search)
            env = environment() | {"MYPYPATH": path}
            command: list[str | Path] = [PYTHON, "-m", "mypy", "--strict", "--no-error-summary"]
            command += ["--cache-dir", CHECKED / "mypy", *more]
            command += [file.relative_to(ROOT) for files in together.values() for file in files]
            worst = max(worst, subprocess.run(command, cwd=ROOT, env=env, check=False).returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main())
