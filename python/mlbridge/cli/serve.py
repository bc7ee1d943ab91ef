# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge serve`, `record` and `replay`: servers until Ctrl-C or SIGTERM; `mlbridge stats`."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

from .. import files
from .._core import Model, Statistics
from ..errors import Error
from ..server import Server
from .common import DONE, FAILED, CommandError, UsageError
from .flags import SCHEMES

if TYPE_CHECKING:
    from ..interactive import InteractiveHost

#: Where servers can listen; other transports are components.
PLACES = ("unix", "shm", "pipe", "grpc")
#: Seconds that a server may take to say what it has done.
DEADLINE = 5.0
#: Where LLVM's own advisors ask.
INTERACTIVE = "llvm-interactive:"


class Stop:
    """Ends a server by a signal: after the request in work, or with the second signal at once."""

    def __init__(self) -> None:
        self._server: Server | InteractiveHost | None = None

    def ready(self, server: Server | InteractiveHost) -> None:
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


def serve_until_stopped(
    options: argparse.Namespace, serving: Callable[..., Statistics], *arguments: Any, **named: Any
) -> int:
    """Have it serve at --at until a signal, and show what was done."""
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)", options.at)
    name = scheme[0] if scheme else ""
    if name not in PLACES and not files.find_component("transport", name):
        what = "the URI of a model" if name in SCHEMES else "not an address to listen at"
        known = ", ".join([*(f"{place}:" for place in PLACES), INTERACTIVE])
        raise UsageError(f"--at: '{options.at}' is {what}; expected one of {known}")
    stop = Stop()
    with stop.on_signals(), contextlib.suppress(KeyboardInterrupt):
        try:
            statistics = serving(*arguments, ready=stop.ready, **named)
        except (Error, OSError, ImportError, TypeError) as error:
            raise CommandError(str(error)) from error
        numbers = {
            name: getattr(statistics, name)
            for name in "connections streams requests replies errors dropped refused".split()
        }
        for name in ("over_limit", "events_dropped"):
            if count := getattr(statistics, name):
                numbers[name.replace("_", "-")] = count
        if statistics.replies:
            for name, fraction in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
                numbers[f"latency-{name}-us"] = round(1e6 * statistics.latency(fraction))
        show(numbers, as_json=options.json)
    return DONE


def run(options: argparse.Namespace) -> int:
    """Serve a model from a file."""
    from ..loading import load, parse_signature

    if options.at.startswith(INTERACTIVE):
        return serve_llvm(options)
    if options.batch is None and (options.max_wait is not None or options.pad is not None):
        raise UsageError("--max-wait and --pad are for batches; add --batch N")

    def serve(**named: Any) -> Statistics:
        signature = None if options.signature is None else parse_signature(options.signature)
        return load(options.model, signature).serve(
            options.at,
            batch=options.batch,
            max_wait=options.max_wait or 0.0,
            pad=options.pad,
            agents={name: load(place, signature) for name, place in options.agent},
            **named,
        )

    return serve_until_stopped(options, serve, **dict(options.limit))


def serve_llvm(options: argparse.Namespace) -> int:
    """Answer the compilers at a channel of LLVM's own, one after another."""
    from ..channel_pair import ChannelPair
    from ..interactive import InteractiveHost
    from ..loading import parse_signature
    from .run import Guardian, first_traceback, must_be_there

    base = options.at.removeprefix(INTERACTIVE)
    for name in ("batch", "max_wait", "pad", "agent", "limit"):
        if getattr(options, name):
            raise UsageError(f"--{name.replace('_', '-')} is not for {INTERACTIVE}BASE")
    must_be_there(options.model, "MODEL")

    def failed(why: str) -> None:
        print(f"mlbridge serve: {' '.join(why.split())}", file=sys.stderr, flush=True)

    guardian = Guardian([base])
    stop = Stop()
    try:
        signature = None if options.signature is None else parse_signature(options.signature)
        with (
            first_traceback(),
            stop.on_signals(),
            contextlib.closing(ChannelPair(base, guardian.compiler)) as pair,
            InteractiveHost(
                pair,
                options.model,
                signature,
                deadline=options.deadline,
                missing=options.missing,
                on_failure=options.on_failure,
                log=options.log,
                failed=failed,
            ) as host,
        ):
            host.load()
            stop.ready(host)
            host.serve()
    except KeyboardInterrupt:
        return DONE
    except (Error, OSError, ImportError, TypeError) as error:
        raise CommandError(str(error)) from error
    finally:
        guardian.done()
    show(host.statistics.described(), as_json=options.json)
    if host.stuck:
        # A thread that comes back from a policy after the end aborts the interpreter.
        sys.stdout.flush()
        os._exit(DONE)
    return DONE


def record(options: argparse.Namespace) -> int:
    """Keep what another model is asked and answers."""
    from ..recording import record

    failures: list[str] = []

    def failed(why: str) -> None:
        failures.append(why)
        print(f"mlbridge: {why}; what follows is not recorded", file=sys.stderr, flush=True)

    code = serve_until_stopped(
        options, record, options.model, options.at, options.file, failed=failed
    )
    return FAILED if failures else code


def replay(options: argparse.Namespace) -> int:
    """Answer from a recording."""
    from ..recording import replay

    def damaged(why: str) -> None:
        print(f"mlbridge replay: {why}", file=sys.stderr, flush=True)

    return serve_until_stopped(options, replay, options.file, options.at, damaged=damaged)


def stats(options: argparse.Namespace) -> int:
    """Print what a running server has done."""
    try:
        found = Model.open(options.uri, deadline=DEADLINE).statistics()
    except Error as error:
        raise CommandError(str(error)) from error
    numbers: dict[str, object] = dict(found)
    for name, text in found.items():
        with contextlib.suppress(ValueError, RecursionError):  # one that is no number
            numbers[name] = json.loads(text)
    show(numbers, as_json=options.json)
    return DONE


def show(numbers: Mapping[str, object], *, as_json: bool) -> None:
    """Print them, one a line."""
    if as_json:
        print(json.dumps(numbers), flush=True)
        return
    width = max(map(len, numbers), default=0)
    for name, value in numbers.items():
        print(f"{name:{width}}  {value}", flush=True)
