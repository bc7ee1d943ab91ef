# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the steps of the evaluation have in common as commands."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

from mlbridge.outputs import write_whole
from programs.corpus import extracted


def parser_of(about: str | None, part: str = "") -> argparse.ArgumentParser:
    """A parser with -o, and with --set, whose default is `part`, if there is one."""
    made = argparse.ArgumentParser(description=(about or "").split("\n")[0])
    if part:
        made.add_argument("--set", default=part, help="a set of programs, or one of them")
    made.add_argument("-o", dest="output", type=Path, metavar="FILE", help="what was found")
    return made


def keep(found: Any, output: Path | None) -> None:
    """Writes what was found as JSON, if a file was named."""
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_whole(output, json.dumps(found, indent=1).encode() + b"\n")


def modules_of(part: str, count: int, folder: Path) -> Path:
    """A new folder with about so many modules of a set: every nth by size."""
    modules = folder / "modules"
    modules.mkdir()
    listed = sorted(extracted(part), key=lambda pair: (pair[0].bytes, pair[0].name))
    for _, path in listed[:: max(1, len(listed) // count)]:
        shutil.copy(path, modules)
    return modules
