# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The model's side: answering compilers with a policy."""

from __future__ import annotations

import atexit
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

from ._core import CallContext, Event, Signature, Statistics, _Server
from .errors import Cancelled


class Policy(Protocol):
    """Decides: from what a compiler observed to the outputs of the signature.

    `observation` maps the names of the inputs to read-only arrays. They are the server's own
    memory and cost nothing; keeping one is allowed, it never changes afterwards. (PyTorch warns of
    read-only arrays: `torch.tensor(observation["x"])` makes a copy.) The answer is a mapping of all
    outputs by name, or the value of the only one.
    """

    def __call__(self, observation: Mapping[str, Any], context: CallContext, /) -> Any: ...


class BatchPolicy(Protocol):
    """Decides for several requests at once.

    `observations` maps the names of the inputs to arrays with one row for each request, and
    `contexts` says who asks in each row. The answer is a mapping of all outputs by name, or the
    value of the only one; each an array, or a list, with one row for each request. The rows belong
    to different compilers, or to threads of one.
    """

    def __call__(
        self, observations: Mapping[str, Any], contexts: Sequence[CallContext], /
    ) -> Any: ...


class Server(_Server):
    """Accepts many compilers at once and hands their requests, one at a time, to one thread.

    It listens as soon as it is made. Input and output are done by threads of its own; `next` and
    `serve_forever` belong to one thread; `stop` and `close` may be called from any, and end the
    serving with the request in work.

        with mlbridge.Server("unix:/tmp/policy.sock", signature) as server:
            server.serve_forever(policy)

    A child process made by fork() cannot use its parent's server; it gets InvalidArgument.
    """

    def __init__(
        self,
        uri: str,
        signature: Signature | Mapping[str, Signature] | None = None,
        metadata: Mapping[str, str] | None = None,
        *,
        environment: bool = False,
        stateless: bool = False,
        **limits: float | str | timedelta,
    ) -> None:
        """Listen at "unix:PATH", "shm:PATH", "grpc:HOST:PORT", "pipe:FOLDER/" or "pipe:BASE".

        A compiler whose signature differs from `signature` is refused; None takes what each
        compiler states. A mapping has the signature of each of several agents by name. Compilers
        can read `metadata` before they state theirs. Limits are those of docs/serving.md, such as
        `max_connections` or `max_message` (bytes). With `environment` it is no model that is
        served; see serve_environment. `stateless` says that an answer depends on its request
        alone, so that a compiler may go on with another server in the middle of an episode.
        """
        one = None if isinstance(signature, Mapping) else signature
        agents = list(signature.items()) if isinstance(signature, Mapping) else []
        super().__init__(uri, one, metadata or {}, environment, agents, stateless, limits)

    def serve_forever(
        self,
        policy: Policy,
        *,
        on_event: Callable[[Event], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Statistics:
        """Answer until stop() is called, `stop` says so after an event, or Ctrl-C.

        A policy that raises, or answers what does not fit the signature, fails that one request:
        its compiler gets the text, and the traceback goes to the logger "mlbridge". `on_event`
        is told of the begin, rewards and end of episodes; what it raises ends the serving.
        """
        with _serving(self), contextlib.suppress(KeyboardInterrupt):
            self._serve(policy, on_event, stop)
        return self.statistics

    def serve_batches(
        self,
        policy: BatchPolicy,
        *,
        max_batch: int = 64,
        max_wait: float = 0.0,
        pad: float | None = None,
        on_event: Callable[[Event], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Statistics:
        """Like serve_forever, with one call of the policy for up to `max_batch` requests.

        Requests that wait already are taken together. The first of a batch waits up to `max_wait`
        seconds for more, but only while another connected compiler may still ask, and rarely for
        one that recently made it wait for nothing. Requests of different shapes go to the policy
        one shape after another, or, with `pad`, all at once: shorter ones are padded with it, and
        the observations have "NAME.shape" (int64, one row for each request) for each input that is
        no scalar. What the policy raises fails the requests of that call.
        """
        if max_batch < 1:
            raise ValueError(f"max_batch must be at least 1, not {max_batch}")
        if not 0 <= max_wait < float("inf"):
            raise ValueError(f"max_wait must be zero or more seconds, not {max_wait}")
        with _serving(self), contextlib.suppress(KeyboardInterrupt, Cancelled):
            self._serve_batches(policy, on_event, stop, max_batch, max_wait, pad)
        return self.statistics

    def next(self, timeout: float | str | timedelta | None = None) -> Event | None:
        """Wait for what a compiler sends next; None if nothing came in `timeout` seconds.

        Raises Cancelled after stop().
        """
        with _serving(self):
            return self._next(timeout)

    def events(self) -> Iterator[Event]:
        """Whatever compilers send, in turn, until stop() or Ctrl-C."""
        with contextlib.suppress(KeyboardInterrupt, Cancelled):
            while (event := self.next()) is not None:
                yield event

    def close(self) -> None:
        """Say goodbye to all compilers and remove the socket or FIFOs. May be called twice."""
        with _awaited(self):
            super().close()

    def __repr__(self) -> str:
        return f"<mlbridge.Server {self.address}{' (closed)' if self.closed else ''}>"


_changed = threading.Condition()
_elsewhere: list[Server] = []  # in use by threads other than the main one
_PATIENCE = 1.0


@atexit.register
def _end_serving() -> None:
    """Python before 3.14 aborts if a thread comes back from an extension after the end."""
    with _changed:
        for server in _elsewhere:
            server.stop()
        _changed.wait_for(lambda: not _elsewhere, _PATIENCE)


@contextlib.contextmanager
def _awaited(server: Server) -> Iterator[None]:
    """The end of the program stops a server that is used on another thread, and waits for it."""
    if threading.current_thread() is threading.main_thread():
        yield
        return
    with _changed:
        _elsewhere.append(server)
    try:
        yield
    finally:
        with _changed:
            _elsewhere.remove(server)
            _changed.notify_all()


@contextlib.contextmanager
def _serving(server: Server) -> Iterator[None]:
    """Lets a signal end the waiting, so that Python's own handlers run at once."""
    if threading.current_thread() is not threading.main_thread():
        with _awaited(server):
            yield
        return
    before = signal.set_wakeup_fd(server._wake_descriptor, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before, warn_on_full_buffer=False)


def serve(
    policy: Policy,
    uri: str,
    signature: Signature | Mapping[str, Signature] | None = None,
    metadata: Mapping[str, str] | None = None,
    *,
    on_event: Callable[[Event], None] | None = None,
    ready: Callable[[Server], None] | None = None,
    stop: Callable[[], bool] | None = None,
    stateless: bool = False,
    **limits: int,
) -> Statistics:
    """Serve `policy(observation, context)` at `uri` until Ctrl-C; returns its statistics.

    `ready` is called with the Server once compilers can connect, from which another thread can
    stop() it. The rest is described at Server. Of several agents, `context.agent` says which one is
    asked.
    """
    with Server(
        uri, signature, metadata, environment=False, stateless=stateless, **limits
    ) as server:
        with contextlib.suppress(KeyboardInterrupt):
            if ready is not None:
                ready(server)
            server.serve_forever(policy, on_event=on_event, stop=stop)
        return server.statistics
