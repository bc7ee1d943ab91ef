# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Evaluates trials, in threads of this process or on the nodes of a Ray cluster.

A trial is one thing to be measured: a module with a list of candidates, a program to be validated,
a setting of a compiler. It carries its inputs as bytes, since nodes share no file system, and a
function, which every node has, evaluates it:

    def size(trial):
        return len(zlib.compress(trial.inputs))

    trials = (Trial(str(path), path.read_bytes()) for path in paths)
    for result in evaluate(size, trials, Options(cluster="10.0.0.1:6379")):
        print(result.key, result.get())
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable
from typing import Any

from .errors import DeadlineExceeded, InvalidArgument
from .trial import GRACE, Needs, Options, Result, Trial, Value, evaluated

__all__ = ["Needs", "Options", "Result", "Trial", "evaluate"]

_Numbered = Generator[tuple[int, "Result[Any]"], None, None]


def evaluate(
    function: Callable[[Trial], Value],
    trials: Iterable[Trial],
    options: Options | None = None,
    *,
    ordered: bool = True,
) -> Generator[Result[Value], None, None]:
    """The results of a function, in the order of the trials, or else as they complete.

    Trials are taken from the iterable when there is somebody to evaluate them. An error that the
    function raises is its trial's result; it doesn't run again. A trial whose node or process is
    lost runs again, at most `retries` times, and is then Unavailable. For a cluster function and
    values must be picklable.

    Raises Unavailable if no cluster answers, or if it has had no node that takes trials for
    `patience` seconds; results that were yielded before are the caller's. NotFound without Ray.
    Whoever stops early closes the iterator, which waits for trials that run in threads.
    """
    options = options or Options()
    if options.jobs < 1:
        raise InvalidArgument(f"jobs are {options.jobs}; expected at least 1")
    if options.cluster:
        from .cluster import on_nodes

        results: _Numbered = on_nodes(function, trials, options)
    else:
        results = _in_threads(function, trials, options.jobs)
    return _in_order(results) if ordered else _as_completed(results)


def _as_completed(results: _Numbered) -> Generator[Result[Any], None, None]:
    with contextlib.closing(results):
        for _, result in results:
            yield result


def _in_order(results: _Numbered) -> Generator[Result[Any], None, None]:
    early: dict[int, Result[Any]] = {}
    following = 0
    with contextlib.closing(results):
        for number, result in results:
            early[number] = result
            while following in early:
                yield early.pop(following)
                following += 1


def _in_threads(function: Callable[[Trial], Any], trials: Iterable[Trial], jobs: int) -> _Numbered:
    asked: queue.SimpleQueue[tuple[int, Trial] | None] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, Result[Any]]] = queue.SimpleQueue()

    def work() -> None:
        while (item := asked.get()) is not None:
            done.put((item[0], evaluated(function, item[1])))

    def started() -> threading.Thread:
        thread = threading.Thread(target=work, daemon=True)  # one that hangs keeps nobody
        thread.start()
        return thread

    threads = [started() for _ in range(jobs)]
    running: dict[int, tuple[Trial, float]] = {}  # and when it must have ended
    given_up = 0
    left = enumerate(trials)
    try:
        while True:
            while len(running) < jobs and (item := next(left, None)) is not None:
                running[item[0]] = (item[1], time.monotonic() + item[1].limit + GRACE)
                asked.put(item)
            if not running:
                return
            ends = min(end for _, end in running.values())
            try:
                number, result = done.get(timeout=max(0.0, ends - time.monotonic()))
            except queue.Empty:
                number = min(running, key=lambda n: running[n][1])
                trial = running[number][0]
                why = f"{trial.key}: did not end within {trial.limit:g} s"
                result = Result(trial.key, None, DeadlineExceeded(why), trial.limit)
                threads.append(started())
                given_up += 1
            if running.pop(number, None):  # else it was given up
                yield number, result
    finally:
        for _ in threads:
            asked.put(None)
        while not given_up and any(thread.is_alive() for thread in threads):
            for thread in threads:
                thread.join()
