# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Folders as bytes, which are sent to other machines."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from .errors import NotFound
from .process_runner import run_tool

#: Seconds in which a folder is packed or unpacked.
PACKING = 600.0


def packed(folder: Path, names: Iterable[str] = (".",)) -> bytes:
    """An archive of a folder, or of some of its files and folders. NotFound, Error"""
    if not folder.is_dir():
        raise NotFound(f"{folder} is no folder")
    with tempfile.TemporaryDirectory(prefix="mlbridge-packed-") as place:
        archive = Path(place) / "archive.tar.gz"
        command = ["tar", "-C", str(folder), "-czf", str(archive), "--", *names]
        run_tool(command, timeout=PACKING)
        return archive.read_bytes()


def unpack(archive: bytes, folder: Path) -> None:
    """Put what was packed into a folder, which is made if it isn't there."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(prefix="mlbridge-packed-") as file:
        file.write(archive)
        file.flush()
        run_tool(["tar", "-C", str(folder), "-xzf", file.name], timeout=PACKING)
