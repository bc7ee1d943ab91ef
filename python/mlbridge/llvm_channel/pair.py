# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The FIFOs BASE.in and BASE.out through which LLVM asks, and the processes at their other end.

Starts neither NumPy nor the extension: `mlbridge run` makes a pair for every file of a build.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import stat
import time
from collections.abc import Sequence
from typing import Protocol

from ..processes import Process

#: Seconds that a process has to end by SIGTERM.
PATIENCE = 2.0
_SHOWN = 3  # items in a message
_OF_OTHERS = 0o077

#: The device and number of a file.
File = tuple[int, int]


class Began(Protocol):
    """Is told of a compiler that has begun a conversation."""

    def __call__(self, compiler: Process, channel: tuple[File, File], /) -> None:
        """`channel` is what the compiler has open: BASE.in and BASE.out."""


class ChannelPair:
    """The host's end of BASE.in, which compilers read, and of BASE.out, which they write.

    Compilers come one after another. Closing removes the FIFOs. Of the processes that have them
    open, only compilers are ever ended: those that have begun a conversation with this host.
    """

    def __init__(self, base: str, began: Began | None = None) -> None:
        """Make the FIFOs, readable by this user only, or take over those of a host that is gone.

        `began` is told of each compiler, once it has sent the beginning of a conversation. Raises
        InvalidArgument if something else is there, Busy if another process uses them, and NotFound
        if there is no such folder.
        """
        self.base = os.fspath(base)
        self._began = began
        self._compilers: list[Process] = []
        # Processes that had the channel open, and how many beginnings came: whose isn't known.
        self._unclear: list[tuple[list[Process], int]] = []
        self.closed = False
        self._questions = self._replies = -1
        _refuse_files(self.base)
        # A server at pipe:BASE locks .out, its compiler .in.
        self._lock, made = _opened(self.base, "out", os.O_RDONLY)
        made_in = False
        try:
            _lock(self._lock, f"{self.base}.out")
            # Before .in is opened: a compiler that waits for a host has it open only afterwards.
            _refuse_users(self.base)
            # A writer of our own keeps a compiler from the end of .in, at which it would spin.
            self._replies, made_in = _opened(self.base, "in", os.O_RDWR)
            _lock(self._replies, f"{self.base}.in")
            self._questions = self._again()
        except BaseException:
            for side, ours, opened in (("out", made, self._lock), ("in", made_in, self._replies)):
                if ours:
                    _remove(f"{self.base}.{side}", opened)
                if opened >= 0:
                    os.close(opened)
            raise
        self._wake, self._waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._in, self._out = map(_file, (self._replies, self._lock))

    def _again(self) -> int:
        """.out, opened anew, whatever has its name by now."""
        return os.open(f"/proc/self/fd/{self._lock}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def read(self, seconds: float | None = None) -> bytes | None:
        """Read what a compiler has sent; b"" if it has hung up; None after wake() or `seconds`.

        `seconds` is for a compiler that has begun: the longest wait for more of it. After b"" the
        next compiler can come.
        """
        while True:
            with contextlib.suppress(BlockingIOError):
                data = os.read(self._questions, 1 << 16)
                # The system doesn't tell of one that left before the FIFO was opened again.
                if data or self._hung_up() or seconds is not None:
                    return data
            ready = _events(seconds, self._questions, self._wake)
            if not ready or self._wake in ready:
                return None

    def wait(self) -> bool:
        """Wait for a compiler; False after wake()."""
        return self._questions in _events(None, self._questions, self._wake)

    def _hung_up(self) -> bool:
        """True if a compiler has hung up; then the FIFO is made ready for the next."""
        events = _events(0, self._questions).get(self._questions, 0)
        if not events or events & select.POLLIN:
            return False  # none yet, or one that has come since
        # Opened before the old one is closed: a compiler that opens it meanwhile has a reader.
        after = self._again()
        os.close(self._questions)
        self._questions = after
        self._unclear.clear()
        return True

    def wake(self) -> None:
        """End a read() now and every later one. From any thread or signal handler."""
        with contextlib.suppress(OSError):
            os.write(self._waker, b"x")

    @property
    def pending(self) -> bool:
        """True if more has been sent, or the compiler has hung up: it waits for no answer."""
        return bool(_events(0, self._questions))

    @property
    def writers(self) -> int:
        """The number of times that compilers in a conversation have .out open."""
        opens = (_opens(compiler, self._in, self._out) for compiler in self._compilers)
        return sum(writes for _, (_, writes) in opens)

    def other_readers(self, *, silent: bool) -> list[Process]:
        """The processes that have .in open but are no compiler, and may take the answers.

        `silent`: also those that have .out open, as a compiler has that is about to begin."""
        compilers = self._known()
        return [
            process
            for process, ((reads, _), (_, writes)) in _users(self._in, self._out)
            if reads and (silent or not writes) and process not in compilers
        ]

    def _known(self) -> set[Process]:
        """The compilers, and the processes that may be some."""
        return {*self._compilers, *(one for wave, _ in self._unclear for one in wave)}

    def begun(self, conversations: int) -> None:
        """The beginnings of so many conversations have come: find out whose they are.

        The system doesn't say who has written. A compiler opens .in to read and .out to write, and
        begins at once: of those that have both open, the ones that had not before.
        """
        known = self._known()
        fresh = [
            process
            for process, ((reads, answers), (listens, writes)) in _users(self._in, self._out)
            if reads and writes and not answers and not listens and process not in known
        ]
        if fresh:
            self._unclear.append((fresh, 0))
        if not self._unclear:
            return
        wave, came = self._unclear.pop()
        came += conversations
        if came < len(wave):
            self._unclear.append((wave, came))
            return
        self._compilers = [one for one in self._compilers if Process.of(one.number) == one]
        for process in wave:
            self._compilers.append(process)
            if self._began is not None:
                self._began(process, (self._in, self._out))

    def reply(self, data: bytes) -> None:
        """Answer; never waits. Raises BlockingIOError if nobody has read the answers before."""
        os.write(self._replies, data)

    def drain(self) -> None:
        """Forget answers that a compiler didn't read."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._replies, 1 << 16):
                pass

    def end_compilers(self) -> str:
        """End those that use the pair: they would wait for an answer for ever.

        First by SIGTERM, at which compilers remove what they have half written. What is returned
        names those of which it is not known whether they are compilers, and which go on.
        """
        until = time.monotonic() + PATIENCE
        left = [one for one in self._compilers if uses(one, self._in, self._out)]
        for process in left:
            process.signal(signal.SIGTERM)
        while left := [one for one in left if uses(one, self._in, self._out)]:
            if time.monotonic() > until:
                for process in left:
                    process.signal(signal.SIGKILL)
                break
            time.sleep(0.01)
        unclear = [one for wave, _ in self._unclear for one in wave]
        return listed([one for one in unclear if uses(one, self._in, self._out)])

    def close(self) -> None:
        """Remove the FIFOs, and end the compilers that use them. May be called twice."""
        if self.closed:
            return
        self.closed = True
        _remove(f"{self.base}.in", self._replies)
        _remove(f"{self.base}.out", self._lock)
        self.end_compilers()
        for descriptor in (self._replies, self._questions, self._lock, self._wake, self._waker):
            os.close(descriptor)


def _events(seconds: float | None, *descriptors: int) -> dict[int, int]:
    """The events of descriptors that can be read or have hung up, after `seconds` at most."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return dict(poll.poll(None if seconds is None else max(0, round(seconds * 1000))))


def listed(items: Sequence[object]) -> str:
    """Some of them, for a message."""
    shown = ", ".join(map(str, items[:_SHOWN]))
    return shown + (f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else "")


def _opened(base: str, side: str, flags: int) -> tuple[int, bool]:
    """The FIFO, and whether it was made. One that other users may have open is made anew."""
    path = f"{base}.{side}"
    try:
        made = _made(path)
        if not made and _is_open_to_others(path):
            os.unlink(path)
            made = _made(path)
        if _mine(os.lstat(path)):
            opened = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
            found = os.fstat(opened)  # of what was opened, whatever has the name by now
            if _mine(found) and not found.st_mode & _OF_OTHERS:
                return opened, made
            os.close(opened)
    except OSError as error:
        from ..errors import NotFound

        raise NotFound(f"{path}: no FIFO can be made: {error.strerror}") from None
    _refuse_files(base)
    from ..errors import Busy

    raise Busy(f"{path}: another process has just made it anew; try again")


def _is_open_to_others(path: str) -> bool:
    with contextlib.suppress(OSError):
        found = os.lstat(path)
        return _mine(found) and bool(found.st_mode & _OF_OTHERS)
    return False


def open_channel(base: str) -> list[int]:
    """Both FIFOs, opened as no compiler and no reader of answers has them: it only keeps them."""
    opened = []
    for side, flags in (("in", os.O_WRONLY), ("out", os.O_RDONLY)):
        with contextlib.suppress(OSError):
            opened.append(os.open(f"{base}.{side}", flags | os.O_NONBLOCK | os.O_CLOEXEC))
    return opened


def _refuse_files(base: str) -> None:
    """InvalidArgument if something is there that is not this user's FIFO."""
    for path in (f"{base}.in", f"{base}.out"):
        with contextlib.suppress(OSError):
            if not _mine(os.lstat(path)):
                from ..errors import InvalidArgument

                raise InvalidArgument(f"{path} is there already, and not a FIFO of this user")
    if _is_open_to_others(f"{base}.in") or _is_open_to_others(f"{base}.out"):
        _refuse_users(base)  # before they are made anew


def _made(path: str) -> bool:
    try:
        os.mkfifo(path, 0o600)
    except FileExistsError:
        return False
    return True


def _mine(found: os.stat_result) -> bool:
    return stat.S_ISFIFO(found.st_mode) and found.st_uid == os.geteuid()


def _lock(descriptor: int, path: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _file(descriptor) == _file(path):
            return
    except OSError:
        pass
    from ..errors import Busy

    raise Busy(f"{path}: another host answers there, or a server at pipe:")


def _refuse_users(base: str) -> None:
    """Busy if another process has one of the FIFOs open."""
    files = []
    for side in ("in", "out"):
        with contextlib.suppress(OSError):
            files.append(_file(f"{base}.{side}"))
    if users := [process for process, _ in _users(*files)]:
        from ..errors import Busy

        raise Busy(
            f"{base}.in or {base}.out is open in {listed(users)}: end it, if it is a compiler that "
            "an earlier host has left, or choose another place"
        )


def uses(process: Process, *files: File) -> bool:
    """True if the process has one of the files open."""
    return any(map(any, _opens(process, *files)))


def _file(file: int | str) -> File:
    found = os.fstat(file) if isinstance(file, int) else os.lstat(file)
    return found.st_dev, found.st_ino


def _remove(path: str, opened: int) -> None:
    """Remove a FIFO by its name, unless something else has that by now."""
    with contextlib.suppress(OSError):
        if _file(path) == _file(opened):
            os.unlink(path)


def _users(*files: File) -> list[tuple[Process, list[tuple[int, int]]]]:
    """The processes that have one of the files open, but for this one, as _opens() says it."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid() and (process := Process.of(int(name))):
            opens = _opens(process, *files)
            if any(map(any, opens)):
                found.append((process, opens))
    return found


def _opens(process: Process, *files: File) -> list[tuple[int, int]]:
    """The number of times that the process has each file open for reading, and for writing."""
    folder = f"/proc/{process.number}/fd"
    reads, writes = dict.fromkeys(files, 0), dict.fromkeys(files, 0)
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                found = os.stat(f"{folder}/{name}")
                file = (found.st_dev, found.st_ino)
                if file in reads:
                    mode = os.lstat(f"{folder}/{name}").st_mode
                    reads[file] += bool(mode & stat.S_IRUSR)
                    writes[file] += bool(mode & stat.S_IWUSR)
    if Process.of(process.number) != process:  # it was a later one with its number
        return [(0, 0)] * len(files)
    return [(reads[file], writes[file]) for file in files]
