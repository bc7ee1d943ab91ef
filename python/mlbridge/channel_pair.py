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

#: Seconds that a process has to end by SIGTERM.
PATIENCE = 2.0


class ChannelPair:
    """The host's end of BASE.in, which compilers read, and of BASE.out, which they write.

    Compilers come one after another. Closing removes the FIFOs.
    """

    def __init__(self, base: str) -> None:
        """Make the FIFOs, readable by this user only, or take over those of a host that is gone.

        Compilers that such a host left waiting are ended. Raises InvalidArgument if something else
        is there, Busy if another host uses them, and NotFound if there is no such folder.
        """
        self.base = os.fspath(base)
        self._replies, taken_over = _opened(f"{self.base}.in", os.O_RDWR)
        try:
            # With a writer of our own a compiler never sees the end of .in, at which it would spin.
            _lock(self._replies, f"{self.base}.in")
            self._questions, _ = _opened(f"{self.base}.out", os.O_RDONLY)
        except BaseException:
            os.close(self._replies)
            raise
        self._wake, self._waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        found = [os.fstat(descriptor) for descriptor in (self._replies, self._questions)]
        self._files = {(file.st_dev, file.st_ino) for file in found}
        self.closed = False
        if taken_over:
            self.end_users()

    def read(self, seconds: float | None = None) -> bytes | None:
        """What a compiler has sent; b"" if it has hung up; None after wake() or `seconds`.

        `seconds` is for a compiler that has begun: the longest wait for more of it. After b"" the
        next compiler can come.
        """
        while True:
            with contextlib.suppress(BlockingIOError):
                data = os.read(self._questions, 1 << 16)
                # The system doesn't tell of one that left before the FIFO was opened again.
                if data or self._hung_up() or seconds is not None:
                    return data
            poll = select.poll()
            poll.register(self._questions, select.POLLIN)
            poll.register(self._wake, select.POLLIN)
            ready = poll.poll(None if seconds is None else max(0, round(seconds * 1000)))
            if not ready or any(descriptor == self._wake for descriptor, _ in ready):
                return None

    def wait(self) -> bool:
        """Wait for a compiler; False after wake()."""
        poll = select.poll()
        poll.register(self._questions, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        return any(descriptor == self._questions for descriptor, _ in poll.poll())

    def _hung_up(self) -> bool:
        """Whether there was a compiler, after which the FIFO is made ready for the next."""
        poll = select.poll()
        poll.register(self._questions, select.POLLIN)
        events = dict(poll.poll(0)).get(self._questions, 0)
        if not events or events & select.POLLIN:
            return False  # none yet, or one that has come since
        # Opened before the old one is closed: a compiler that opens it meanwhile has a reader.
        after = os.open(f"{self.base}.out", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.close(self._questions)
        self._questions = after
        return True

    def wake(self) -> None:
        """End a read() now and every later one. From any thread or signal handler."""
        with contextlib.suppress(OSError):
            os.write(self._waker, b"x")

    @property
    def pending(self) -> bool:
        """Whether more has been sent, or the compiler has hung up: it waits for no answer."""
        poll = select.poll()
        poll.register(self._questions, select.POLLIN)
        return bool(poll.poll(0))

    @property
    def writers(self) -> int:
        """How often .out is open, in other processes."""
        found = os.fstat(self._questions)
        return sum(count for _, count in _users({(found.st_dev, found.st_ino)}))

    def reply(self, data: bytes) -> None:
        """Answer; never waits. Raises BlockingIOError if nobody has read the answers before."""
        os.write(self._replies, data)

    def drain(self) -> None:
        """Forget answers that a compiler didn't read."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._replies, 1 << 16):
                pass

    def end_users(self) -> None:
        """End the other processes that use the pair: they would wait for an answer for ever.

        First by SIGTERM, at which compilers remove what they have half written.
        """
        until = time.monotonic() + PATIENCE
        first = {process for process, _ in _users(self._files)}
        for process in first:
            _signal(process, signal.SIGTERM)
        while first and (left := first & {process for process, _ in _users(self._files)}):
            if time.monotonic() > until:
                for process in left:
                    _signal(process, signal.SIGKILL)
                return
            time.sleep(0.01)

    def close(self) -> None:
        """Remove the FIFOs, and end the processes that use them. May be called twice."""
        if self.closed:
            return
        self.closed = True
        for side in ("in", "out"):
            with contextlib.suppress(OSError):
                os.unlink(f"{self.base}.{side}")
        self.end_users()
        for descriptor in (self._replies, self._questions, self._wake, self._waker):
            os.close(descriptor)


def _opened(path: str, flags: int) -> tuple[int, bool]:
    """The FIFO, and whether it was there."""
    try:
        there = False
        try:
            os.mkfifo(path, 0o600)
        except FileExistsError:
            there = True
        found = os.lstat(path)
        if stat.S_ISFIFO(found.st_mode) and found.st_uid == os.geteuid():
            os.chmod(path, 0o600)
            return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW), there
    except OSError as error:
        from .errors import NotFound

        raise NotFound(f"{path}: no FIFO can be made: {error.strerror}") from None
    from .errors import InvalidArgument

    raise InvalidArgument(f"{path} is there already, and not a FIFO of this user")


def _lock(descriptor: int, path: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == os.stat(path).st_ino:
            return
    except OSError:
        pass
    from .errors import Busy

    raise Busy(f"{path}: another host answers there")


def _users(files: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """The processes that have these files open, but for this one, and how often."""
    found = [
        (int(name), _open_in(name, files))
        for name in os.listdir("/proc")
        if name.isdigit() and int(name) != os.getpid()
    ]
    return [(process, count) for process, count in found if count]


def _open_in(process: str, files: set[tuple[int, int]]) -> int:
    folder, count = f"/proc/{process}/fd", 0
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                found = os.stat(f"{folder}/{name}")
                count += (found.st_dev, found.st_ino) in files
    return count


def _signal(process: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(process, number)
