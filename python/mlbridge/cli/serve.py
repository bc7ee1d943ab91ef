# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge serve`: a model from a file, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
from collections.abc import Iterator
from types import FrameType

from .. import files
from .._core import Statistics
from ..errors import Error
from ..loading import load, parse_signature
from ..server import Server
from .common import DONE, CommandError, UsageError
from .flags import SCHEMES
from .stats import show

#: Where servers can listen; other transports are components.
PLACES = ("unix", "shm", "pipe", "grpc")


class Stop:
    """Ends a server by a signal: after the request in work, or with the second signal at once."""

    def __init__(self) -> None:
        self._server: Server | None = None

    def ready(self, server: Server) -> None:
        """Say that compilers can connect."""
        self._server = server
        print(f"ready {server.address}", flush=True)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._server is None or self._server.stopped:
            raise KeyboardInterrupt
        self._server.stop()

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """While this lasts, Ctrl-C (ignored in a shell's background otherwise) and SIGTERM."""
        before = {
            number: signal.signal(number, self._handle)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def show_statistics(statistics: Statistics, *, as_json: bool) -> None:
    names = ("connections", "streams", "requests", "replies", "errors", "dropped", "refused")
    numbers = {name: getattr(statistics, name) for name in names}
    for name in ("over_limit", "events_dropped"):
        if count := getattr(statistics, name):
            numbers[name.replace("_", "-")] = count
    if statistics.replies:
        for name, fraction in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
            numbers[f"latency-{name}-us"] = round(1e6 * statistics.latency(fraction))
    show(numbers, as_json=as_json)


def check_place(uri: str) -> None:
    """A server listens at a transport's address; a model's URI is a mistake that is often made."""
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)", uri)
    name = scheme[0] if scheme else ""
    if name not in PLACES and not files.find_component("transport", name):
        what = "the URI of a model" if name in SCHEMES else "no place"
        known = ", ".join(f"{place}:" for place in PLACES)
        raise UsageError(f"--at: '{uri}' is {what}; state where to listen, with one of {known}")


def run(options: argparse.Namespace) -> int:
    """Serve until a signal."""
    stop = Stop()
    check_place(options.at)
    if options.batch is None and (options.max_wait is not None or options.pad is not None):
        raise UsageError("--max-wait and --pad are for batches; add --batch N")
    with stop.on_signals(), contextlib.suppress(KeyboardInterrupt):
        try:
            signature = None if options.signature is None else parse_signature(options.signature)
            statistics = load(options.model, signature).serve(
                options.at,
                batch=options.batch,
                max_wait=options.max_wait or 0.0,
                pad=options.pad,
                agents={name: load(place, signature) for name, place in options.agent},
                ready=stop.ready,
                **dict(options.limit),
            )
        except (Error, OSError, ImportError, TypeError) as error:
            raise CommandError(str(error)) from error
        show_statistics(statistics, as_json=options.json)
    return DONE
