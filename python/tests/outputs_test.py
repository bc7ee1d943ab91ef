# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Outputs of commands are whole or not there, and never take a device's or a link's place."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mlbridge.corpus import store
from mlbridge.errors import LimitExceeded
from mlbridge.outputs import replace_whole, write_whole
from mlbridge.training.folder import write_json


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_and_keeps_its_permissions(tmp_path: Path) -> None:
    place = tmp_path / "file"
    write_whole(place, b"one")
    place.chmod(0o640)
    write_whole(place, b"two", executable=True)
    assert place.read_bytes() == b"two"
    assert stat.S_IMODE(place.stat().st_mode) == 0o751
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("there", [True, False])
def test_a_symbolic_link_stays(there: bool, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    if there:
        target.write_bytes(b"old")
    link.symlink_to("folder/target")
    write_whole(link, b"new")
    assert link.is_symlink() and target.read_bytes() == b"new"
    assert names(tmp_path / "folder") == ["target"]


def test_a_pipe_gets_the_contents(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    given: list[bytes] = []
    reader = threading.Thread(target=lambda: given.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, b"contents")
    reader.join(60)
    assert given == [b"contents"] and stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_stays(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a device")
    device = tmp_path / "full"
    os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 7))  # of /dev/full
    with pytest.raises(OSError, match="full") as raised:
        write_whole(device, b"contents")
    assert raised.value.filename == str(device)
    assert stat.S_ISCHR(device.stat().st_mode)


def test_the_terminal_is_no_file_to_replace(tmp_path: Path) -> None:
    output = tmp_path / "output"
    program = "from mlbridge.outputs import write_whole; write_whole('/dev/stdout', b'whole')"
    with output.open("wb") as file:
        subprocess.run([sys.executable, "-c", program], stdout=file, check=True)
    assert output.read_bytes() == b"whole"


def test_a_link_in_a_folder_of_commands_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    replace_whole(link, b"new")
    assert (link.is_symlink(), link.read_bytes(), target.read_bytes()) == (False, b"new", b"old")


WRITERS: list[Callable[[Path, bytes], None]] = [
    lambda place, data: write_whole(place, data, executable=True),
    store.write,
    lambda place, data: write_json(place, data.decode()),
]


@pytest.mark.parametrize("write", WRITERS, ids=["output", "corpus", "training"])
@pytest.mark.parametrize("before", [b"before", None])
def test_a_full_disk_leaves_what_was_there(
    before: bytes | None, write: Callable[[Path, bytes], None], tmp_path: Path
) -> None:
    place = tmp_path / "file"
    if before is not None:
        place.write_bytes(before)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, limits[1]))  # as if there were no more room
    try:
        with pytest.raises((OSError, LimitExceeded), match="file"):
            write(place, b"longer than that")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert names(tmp_path) == (["file"] if before is not None else [])
    assert before is None or place.read_bytes() == before
