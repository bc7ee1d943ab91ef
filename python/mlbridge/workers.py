# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Many environments at once, one process each, so that a fault affects only its own."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import random
import re
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from ._core import Signature
from .driving import Driver, drive
from .errors import (
    Busy,
    Closed,
    DeadlineExceeded,
    Error,
    InvalidArgument,
    ProtocolError,
    Unavailable,
)

Task = TypeVar("Task")
Result = TypeVar("Result")

#: What a worker's fault looks like from here; everything else is the task's.
FAULTS = (Busy, Closed, DeadlineExceeded, ProtocolError, Unavailable)
#: A line of a compiler that says why it ended.
_TELLING = re.compile(r"\berror\b|assertion|terminate called|out of memory", re.IGNORECASE)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0

_log = logging.getLogger("mlbridge")


def addresses(pattern: str, count: int) -> list[str]:
    """The addresses of `count` workers: "unix:/tmp/opt-{}.sock" with 0, 1, … in place of {}.

    Braces may hold the first number, for ports: "grpc:localhost:{5000}".
    """
    before, opened, rest = pattern.partition("{")
    first, closed, after = rest.partition("}")
    if not (opened and closed) or (first and not first.isdecimal()):
        raise InvalidArgument(f"{pattern}: expected one {{}} or {{FIRST}} for a worker's number")
    return [f"{before}{int(first or 0) + number}{after}" for number in range(count)]


def pause(attempt: int) -> float:
    """Seconds before retry `attempt`, from 1: exponential back-off with full jitter and a cap."""
    return random.uniform(0, min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(attempt, 20)))


def said(process: subprocess.Popen[Any] | None) -> str:
    """What a process that has ended wrote to standard error, if that is a file."""
    stream = None if process is None else process.stderr
    if stream is None or not stream.seekable():
        return ""
    stream.seek(max(0, stream.seek(0, os.SEEK_END) - 4000))
    text = stream.read()
    lines = (text if isinstance(text, str) else text.decode(errors="replace")).splitlines()
    # Of a compiler that crashes a trace follows, whose end says nothing.
    telling = [line for line in lines if _TELLING.search(line)] or lines[-1:]
    return f": {telling[0].strip()[:500]}" if telling else ""


def last_words(process: subprocess.Popen[Any] | None) -> str:
    """`said` of a process that has failed; one that goes on is waited for, but not for long."""
    if process is None:
        return ""
    try:
        process.wait(1.0)
    except subprocess.TimeoutExpired:
        return ""
    return said(process)


@dataclass
class WorkersStatistics:
    """What has happened to the workers so far."""

    episodes: int = 0  #: results given out; each task counts once, however often it was begun
    begun: int = 0  #: times that a task was begun
    restarts: int = 0  #: workers that were started again
    faults: int = 0  #: episodes that a worker's fault ended


class Worker:
    """One environment, its process if that is ours, and the connection to it."""

    def __init__(
        self,
        number: int,
        address: str,
        start: Callable[[int, str], subprocess.Popen[Any]] | None,
        deadline: float | str | timedelta | None,
        wait: float,
    ) -> None:
        self.number, self.address = number, address
        self._start, self._deadline, self._wait = start, deadline, wait
        self.process: subprocess.Popen[Any] | None = None
        self._driver: Driver | None = None
        self.starts = 0
        self.faults = 0  #: since its last result

    def driver(self) -> Driver:
        if self._driver is None:
            gone = self.process is None or self.process.poll() is not None
            if self._start is not None and gone:
                self.process = self._start(self.number, self.address)
                self.starts += 1
            self._driver = self._connected()
        return self._driver

    def _connected(self) -> Driver:
        """Waits for one that is starting, but not for one that has ended."""
        if "wait=" in self.address:
            return drive(self.address, deadline=self._deadline)
        end = time.monotonic() + self._wait
        joint = "&" if "?" in self.address else "?"
        while True:
            left = max(0.0, min(end - time.monotonic(), 1e9))
            turn = left if self.process is None else min(left, 0.5)
            try:
                return drive(f"{self.address}{joint}wait={turn:.3f}s", deadline=self._deadline)
            except Unavailable as error:
                code = None if self.process is None else self.process.poll()
                if code is not None:
                    raise Unavailable(
                        f"{self.address}: its process ended with {code} before it listened"
                        f"{said(self.process)}"
                    ) from error
                if turn >= left:
                    raise

    def drop(self) -> None:
        """After a fault: nothing of it is used again."""
        if self._driver is not None:
            with contextlib.suppress(Error):
                self._driver.close()
            self._driver = None
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
                if stream is not None:
                    stream.close()
            self.process = None


class Workers(Generic[Task, Result]):
    """Plays episodes on several environments at once, and restarts those that fail.

        def play(driver, task, generator):
            observation = driver.reset(task.module)
            while not driver.done:
                observation, reward, done = driver.step(choose(observation, generator))
            return reward

        with Workers("unix:/tmp/opt-{}.sock", start, count=4, seed=1) as workers:
            for result in workers.map(play, tasks):
                ...

    `start(number, address)` starts worker `number`, which listens at `address`, and gives its
    process; without it workers are started elsewhere, and only reconnected to after a fault. An
    episode that a fault of its worker ended (it died, hung past `deadline`, broke the protocol) is
    retried on whichever worker is free, `retries` times at most; what it had done is forgotten.
    """

    def __init__(
        self,
        where: str | Sequence[str],
        start: Callable[[int, str], subprocess.Popen[Any]] | None = None,
        *,
        count: int | None = None,
        deadline: float | str | timedelta | None = None,
        wait: float = 30.0,
        retries: int = 5,
        seed: int = 0,
    ) -> None:
        """`where`: a pattern for `count` addresses, or a list. `wait`: seconds for one to start."""
        if isinstance(where, str):
            where = addresses(where, count or 1)
        elif count not in (None, len(where)):
            raise InvalidArgument(f"{len(where)} addresses for {count} workers")
        if not where:
            raise InvalidArgument("no worker was given")
        self._workers = [Worker(i, at, start, deadline, wait) for i, at in enumerate(where)]
        self._retries, self._seed = retries, seed
        self._next_task = 0
        self.statistics = WorkersStatistics()

    def __enter__(self) -> Workers[Task, Result]:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers:
            worker.drop()

    @property
    def addresses(self) -> list[str]:
        """Where each worker is."""
        return [worker.address for worker in self._workers]

    def signature(self) -> Signature:
        """That of the environment; starts the first worker if need be."""
        for attempt in range(self._retries + 1):
            try:
                return self._workers[0].driver().signature
            except FAULTS:
                self._workers[0].drop()
                if attempt == self._retries:
                    raise
                time.sleep(pause(attempt + 1))
        raise AssertionError("unreachable")

    @property
    def processes(self) -> list[subprocess.Popen[Any] | None]:
        """Of each worker, if it is ours and was started."""
        return [worker.process for worker in self._workers]

    def map(
        self, play: Callable[[Driver, Task, random.Random], Result], tasks: Iterable[Task]
    ) -> Iterator[Result]:
        """The results in the order of the tasks, each once.

        Task number n of these workers gets `random.Random` seeded with their seed and n, whichever
        worker plays it and however often, so that a deterministic `play` gives the same results in
        every run. What `play` raises, other than a worker's fault, is raised here in the task's
        turn, and ends the mapping; so does the last fault when there are no retries left.
        """
        idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        for worker in self._workers:
            idle.put(worker)
        counting, over = threading.Lock(), threading.Event()

        def run(number: int, task: Task) -> Result:
            for attempt in range(self._retries + 1):
                worker = idle.get()  # at once: there are as many threads
                with counting:
                    self.statistics.begun += 1
                try:
                    generator = random.Random(f"{self._seed} {number}")
                    result = play(worker.driver(), task, generator)
                    worker.faults = 0
                    return result
                except FAULTS as fault:
                    _log.warning("worker %d (%s): %s", worker.number, worker.address, fault)
                    worker.drop()
                    worker.faults += 1
                    with counting:
                        self.statistics.faults += 1
                    if attempt == self._retries or over.wait(pause(worker.faults)):
                        raise
                finally:
                    with counting:
                        starts = [worker.starts for worker in self._workers]
                        self.statistics.restarts = sum(max(n - 1, 0) for n in starts)
                    idle.put(worker)
            raise AssertionError("unreachable")

        pool = ThreadPoolExecutor(len(self._workers), thread_name_prefix="mlbridge worker")
        results = deque(
            pool.submit(run, number, task) for number, task in enumerate(tasks, self._next_task)
        )
        self._next_task += len(results)
        try:
            while results:
                result = results.popleft().result()
                self.statistics.episodes += 1
                yield result
        finally:
            over.set()
            pool.shutdown(cancel_futures=True)
