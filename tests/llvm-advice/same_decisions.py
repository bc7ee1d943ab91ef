# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs compiled with a policy that is asked in several ways: the objects and the decisions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from once import SharedBuild
from reports import add_row

Decisions = TypeVar("Decisions")
REAL = "zlib bzip2 lz4 lua jansson cjson pugixml jsoncpp tinyxml2 double-conversion".split()


def real(name: str, compiler: Sequence[str], folder: Path, level: str = "-Oz") -> list[bytes]:
    from programs.build import compile_program
    from programs.catalog import load as catalog
    from programs.catalog import select
    from programs.fetch import fetch

    (program,) = fetch(select(catalog(), [name]))
    made = compile_program(program, folder / "objects", compiler, (level,))
    return [item.object.read_bytes() for item in made]


def digest(objects: list[bytes]) -> str:
    return hashlib.sha256(b"".join(hashlib.sha256(one).digest() for one in objects)).hexdigest()


def kept(
    shared_build: SharedBuild, name: str, make: Callable[[Path], dict[str, tuple[str, Decisions]]]
) -> dict[str, tuple[str, Decisions]]:
    """What `make` gives, by program the digest of the objects and the decisions; made once."""

    def write(folder: Path) -> None:
        (folder / "made.json").write_text(json.dumps(make(folder)))

    read = json.loads((shared_build(name, write) / "made.json").read_text())
    return {name: (objects, decisions) for name, (objects, decisions) in read.items()}


def compare(
    result: Path,
    site: str,
    runner: str,
    made: Mapping[str, Any],
    expected: Mapping[str, Any],
    decided: int,
) -> None:
    """Notes in the file `result` whether both are the same, and asserts it."""
    row = {"site": site, "runner": runner, "programs": list(made), "decisions": decided}
    add_row(result, {**row, "identical": made == expected}, "site", "runner")
    assert decided and made == expected
