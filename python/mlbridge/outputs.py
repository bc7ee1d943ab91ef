# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files that commands write: whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat

from .errors import InvalidArgument


def write_whole(
    place: str | os.PathLike[str], contents: bytes, *, executable: bool = False
) -> None:
    """Write a file so that nobody ever sees a part of it; a failure leaves what was there.

    A symbolic link stays, and the file that it names is written; a file keeps its permissions, to
    which `executable` adds. A device or pipe, and what is below /dev or /proc, such as /dev/stdout,
    takes the contents as it is, which may wait for a reader. Raises OSError, with the place as its
    file name.
    """
    path = os.fspath(place)
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = None
    folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    is_special = folder.startswith(("/dev/", "/proc/")) or folder in ("/dev", "/proc")
    try:
        if is_special or (mode is not None and not stat.S_ISREG(mode)):
            with open(path, "wb", buffering=0) as file:
                write_all(file.fileno(), contents)
            return
        target = os.path.realpath(path)
        replace_whole(target, contents, mode=mode, executable=executable, on_disk=False)
    except OSError as error:
        raise _named(error, path) from None


def must_begin_with(place: str | os.PathLike[str], start: bytes, what: str) -> None:
    """InvalidArgument if a file is there that would be overwritten, and begins otherwise, in upper
    or lower case; an empty one may go, and a device is written to. OSError if it can't be read."""
    if os.path.isfile(place) and os.path.getsize(place):
        with open(place, "rb") as file:
            if file.read(len(start)).upper() != start.upper():
                raise InvalidArgument(
                    f"{os.fspath(place)} is there, and no {what}; remove it, or choose another name"
                )


def replace_whole(
    path: str | os.PathLike[str],
    contents: bytes,
    *,
    mode: int | None = None,
    executable: bool = False,
    on_disk: bool = True,
) -> None:
    """Put a new file in the place of what is there, a symbolic link too, so that nobody ever sees a
    part of it. A kill may leave a file .NAME.PROCESS-NUMBER beside it. With `on_disk`, the contents
    are on the disk before the file appears, and survive a power failure. Raises OSError, with the
    path as its file name.
    """
    folder, name = os.path.split(os.path.abspath(path))
    partial = os.path.join(folder, f".{name[:50]}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with open(partial, "xb", buffering=0) as file:
            write_all(file.fileno(), contents)
            allowed = os.fstat(file.fileno()).st_mode if mode is None else mode
            os.fchmod(file.fileno(), stat.S_IMODE(allowed) | (0o111 if executable else 0))
            if on_disk:
                os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise _named(error, path) if isinstance(error, OSError) else error from None


def _named(error: OSError, path: str | os.PathLike[str]) -> OSError:
    return OSError(error.errno, os.strerror(error.errno or 0), os.fspath(path))


def write_all(descriptor: int, contents: bytes) -> None:
    """Write all of the contents to a descriptor that blocks."""
    left = memoryview(contents)
    while left:
        left = left[os.write(descriptor, left) :]
