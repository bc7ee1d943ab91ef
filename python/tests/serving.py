# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Servers on threads, for the tests."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import mlbridge

SMALL = mlbridge.Signature(
    [mlbridge.TensorSpec("x", "float32", [4])], [mlbridge.TensorSpec("action", "int64")]
)


@dataclass
class Running:
    """A server on a thread."""

    server: mlbridge.Server
    thread: threading.Thread
    uri: str
    #: The result of serve_forever, or what it raised.
    result: list[Any] = field(default_factory=list)

    def open(self, signature: mlbridge.Signature | None = None, **options: Any) -> mlbridge.Runner:
        options.setdefault("deadline", 20)
        return mlbridge.open(self.uri, signature, **options)

    def finish(self) -> Any:
        self.server.stop()
        self.thread.join(30)
        assert not self.thread.is_alive(), "the server did not stop"
        (result,) = self.result
        if isinstance(result, BaseException):
            raise result
        return result


@contextlib.contextmanager
def running(
    policy: Callable[..., Any],
    uri: str,
    signature: mlbridge.Signature | Mapping[str, mlbridge.Signature] | None = None,
    *,
    query: str = "",
    **options: Any,
) -> Iterator[Running]:
    metadata = options.pop("metadata", None)
    limits = {k: options.pop(k) for k in list(options) if k.startswith("max_")}
    with mlbridge.Server(uri, signature, metadata, **limits) as server:

        def run() -> None:
            try:
                result.append(server.serve_forever(policy, **options))
            except BaseException as error:
                result.append(error)

        result: list[Any] = []
        thread = threading.Thread(target=run)
        thread.start()
        state = Running(server, thread, server.address + query, result)
        try:
            yield state
        finally:
            server.stop()
            thread.join(30)


def at_once(work: Callable[[int], object], count: int) -> None:
    """Call `work` with 0, 1, … on a thread each, and wait for all of them."""
    threads = [threading.Thread(target=work, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)


@contextlib.contextmanager
def on_a_thread(serve: Callable[..., object], *arguments: Any, **named: Any) -> Iterator[Running]:
    """A function that serves until it is stopped, such as mlbridge.forward, once it listens."""
    listening = queue.SimpleQueue[mlbridge.Server]()
    named["ready"] = listening.put
    thread = threading.Thread(target=serve, args=arguments, kwargs=named)
    thread.start()
    server = listening.get(timeout=20)
    try:
        yield Running(server, thread, server.address)
    finally:
        server.stop()
        thread.join(20)
        assert not thread.is_alive()
