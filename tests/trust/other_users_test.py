# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What another user has made is neither taken over by a server nor asked by a compiler."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from users import as_other, python

import mlbridge
from mlbridge.llvm_channel.host import InteractiveHost

SIGNATURE = mlbridge.Signature(
    [mlbridge.TensorSpec("a", "int64", [1])], [mlbridge.TensorSpec("b", "int64", [1])]
)
HANGS = 60
#: Folders in which another user can make files.
FOLDERS = pytest.mark.parametrize("mode", [0o1777, 0o777], ids=["sticky", "writable by all"])
#: Makes what it is told, all of it for everybody, and says what it was sent when its input ends.
STRANGER = """
import os, select, socket, sys
os.umask(0)
kept = []
for what, path in zip(sys.argv[1::2], sys.argv[2::2]):
    if what == "fifo":
        os.mkfifo(path, 0o666)
        kept.append(os.open(path, os.O_RDWR | os.O_NONBLOCK))
    elif what == "open":
        kept.append(os.open(path, os.O_RDWR | os.O_NONBLOCK))
    elif what == "folder":
        os.mkdir(path, 0o777)
    else:
        one = socket.socket(socket.AF_UNIX)
        one.bind(path)
        if what == "listen":
            one.listen()
            kept.append(one)
print("made", flush=True)
sys.stdin.read()
got = b""
for one in kept:
    if isinstance(one, int):
        if select.select([one], [], [], 0)[0]:
            got += os.read(one, 1000)
    elif select.select([one], [], [], 0)[0]:
        got += one.accept()[0].recv(1000)
print(len(got))
"""


@contextlib.contextmanager
def stranger(*made: str | Path) -> Iterator[None]:
    """Another user, who has made these things and must not be sent anything."""
    with subprocess.Popen(
        as_other([python(), "-c", STRANGER, *made]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "made\n"
            yield
            assert process.communicate(timeout=HANGS)[0] == "0\n"
        finally:
            process.kill()


@contextlib.contextmanager
def served(address: str) -> Iterator[mlbridge.Server]:
    with mlbridge.Server(address, SIGNATURE) as server:
        policy = threading.Thread(
            target=server.serve_forever, args=(lambda features, context: features["a"] + 1,)
        )
        policy.start()
        try:
            yield server
        finally:
            server.stop()
            policy.join(HANGS)


def ask(uri: str) -> int:
    model = mlbridge.Model.open(uri, deadline=10)
    model.bind(SIGNATURE)
    return int(model.new_runner().evaluate({"a": np.array([1])})["b"][0])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


MADE = {
    "pipe: both": ("pipe:{}", (("fifo", ".in"), ("fifo", ".out"))),
    "pipe: answers": ("pipe:{}", (("fifo", ".in"),)),
    "pipe: questions": ("pipe:{}", (("fifo", ".out"),)),
    "a folder": ("pipe:{}/", (("folder", ""),)),
    "a folder with a rendezvous": ("pipe:{}/", (("folder", ""), ("fifo", "/rendezvous"))),
    "unix: listening": ("unix:{}", (("listen", ""),)),
    "unix: left behind": ("unix:{}", (("bind", ""),)),
    "shm: listening": ("shm:{}", (("listen", ""),)),
    "shm: left behind": ("shm:{}", (("bind", ""),)),
}


@FOLDERS
@pytest.mark.parametrize(("address", "made"), MADE.values(), ids=MADE.keys())
def test_servers(address: str, made: tuple[tuple[str, str], ...], mode: int, common: Path) -> None:
    common.chmod(mode)
    words = [word for what, name in made for word in (what, f"{common}/s{name}")]
    with stranger(*words):
        before = names(common)
        with pytest.raises(mlbridge.InvalidArgument, match="belongs to user"):
            mlbridge.Server(address.format(common / "s"), SIGNATURE)
        assert names(common) == before


@FOLDERS
@pytest.mark.parametrize("side", ["in", "out"])
def test_hosts_of_interactive_channels(side: str, mode: int, common: Path) -> None:
    common.chmod(mode)
    with stranger("fifo", common / f"s.{side}"):
        with pytest.raises(mlbridge.InvalidArgument, match="not a FIFO of this user"):
            InteractiveHost(common / "s", lambda features, context: 0)
        assert names(common) == [f"s.{side}"]


@FOLDERS
@pytest.mark.parametrize(
    ("uri", "made"), [made for made in MADE.values() if len(made[1]) > 1 or "listen" in made[1][0]]
)
def test_compilers(uri: str, made: tuple[tuple[str, str], ...], mode: int, common: Path) -> None:
    common.chmod(mode)
    words = [word for what, name in made for word in (what, f"{common}/s{name}")]
    with stranger(*words), pytest.raises(mlbridge.Error, match="belongs to user"):
        ask(uri.format(common / "s"))


def test_a_rendezvous_of_another_user_in_a_common_folder(common: Path) -> None:
    common.chmod(0o1777)
    with stranger("fifo", common / "rendezvous"):
        with pytest.raises(mlbridge.InvalidArgument, match="belongs to user"):
            mlbridge.Server(f"pipe:{common}/", SIGNATURE)
        with pytest.raises(mlbridge.Error, match="belongs to user"):
            ask(f"pipe:{common}/")


def test_a_folder_that_all_may_change(common: Path) -> None:
    common.chmod(0o777)
    with pytest.raises(mlbridge.InvalidArgument, match="every user may change"):
        mlbridge.Server(f"pipe:{common}/", SIGNATURE)
    assert names(common) == []
    common.chmod(0o1777)
    with served(f"pipe:{common}/"):
        assert ask(f"pipe:{common}/") == 2
    assert names(common) == []


@pytest.mark.parametrize("kind", ["pipe:{}", "pipe:{}/"])
def test_fifos_that_another_user_may_have_open_are_made_anew(kind: str, common: Path) -> None:
    files = ["s.in", "s.out"]
    if kind.endswith("/"):
        (common / "s").mkdir()
        files = ["s/rendezvous"]
    for name in files:
        os.mkfifo(common / name)
        (common / name).chmod(0o666)
    with stranger(*(word for name in files for word in ("open", common / name))):
        with pytest.raises(mlbridge.InvalidArgument, match="can be used by other users"):
            ask(kind.format(common / "s"))
        with served(kind.format(common / "s")):
            assert stat.S_IMODE((common / files[0]).stat().st_mode) == 0o600
            assert ask(kind.format(common / "s")) == 2


def test_a_channel_that_another_user_may_have_open_is_made_anew(common: Path) -> None:
    for side in ("in", "out"):
        os.mkfifo(common / f"s.{side}")
        (common / f"s.{side}").chmod(0o666)
    with InteractiveHost(common / "s", lambda features, context: 0):
        assert [stat.S_IMODE(path.stat().st_mode) for path in common.iterdir()] == [0o600] * 2


@pytest.mark.parametrize("address", ["pipe:{}", "llvm-interactive:{}"])
@pytest.mark.parametrize("side", ["in", "out"])
def test_links_are_not_followed(address: str, side: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "other", 0o600)
    (tmp_path / f"s.{side}").symlink_to(tmp_path / "other")
    with pytest.raises(mlbridge.InvalidArgument, match=r"not a FIFO( of this user)?$"):
        if address.startswith("pipe"):
            mlbridge.Server(address.format(tmp_path / "s"), SIGNATURE)
        else:
            InteractiveHost(tmp_path / "s", lambda features, context: 0)
    if address.startswith("pipe"):
        with contextlib.suppress(FileExistsError):
            os.mkfifo(tmp_path / "s.in", 0o600)
        with pytest.raises(mlbridge.InvalidArgument, match="symbolic link"):
            ask(address.format(tmp_path / "s"))


@pytest.mark.parametrize("address", ["unix:{}", "shm:{}", "pipe:{}", "pipe:{}/"])
def test_another_user_can_ask_no_server(address: str, common: Path) -> None:
    """Nor the channel of a host, whose FIFOs have the same mode."""
    tries = """
import os, socket, sys
for path in sys.argv[1:]:
    try:
        if path.endswith("s"):
            socket.socket(socket.AF_UNIX).connect(path)
        else:
            os.open(path, os.O_RDWR | os.O_NONBLOCK)
        print("opened", path)
    except PermissionError:
        pass
"""
    with served(address.format(common / "s")):
        assert ask(address.format(common / "s")) == 2
        found = [p for p in common.rglob("*") if p.is_fifo() or p.is_socket()]
        assert found
        ran = subprocess.run(
            as_other([python(), "-c", tries, *found]), capture_output=True, text=True, check=True
        )
        assert (ran.stdout, ran.stderr) == ("", "")


def test_a_socket_of_another_kind_stays(tmp_path: Path) -> None:
    """Somebody listens at it whom a stream can't reach."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(tmp_path / "s"))
        with pytest.raises(mlbridge.Busy):
            mlbridge.Server(f"unix:{tmp_path}/s", SIGNATURE)
        assert (tmp_path / "s").is_socket()
