# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge serve`: a model from a file, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any

from .. import Error, Server, Statistics
from ..loading import LoadedModel, load, parse_signature
from . import CommandError


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
    if as_json:
        print(json.dumps(numbers), flush=True)
        return
    width = max(map(len, numbers))
    for name, value in numbers.items():
        print(f"{name:{width}}  {value}", flush=True)


def seconds(name: str, text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s|m)", text, re.ASCII)
    if match is None:
        raise CommandError(f"{name}: expected a time such as 1ms or 250us, got '{text}'")
    return float(match[1]) * {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}[match[2]]


def number_from_one(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"0*[1-9][0-9]{0,17}", text, re.ASCII):
        raise CommandError(f"{name}: expected a number from 1 on, got '{text}'")
    return int(text)


def limits(texts: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in texts:
        match = re.fullmatch(r"([a-z_]+)=(.+)", text, re.ASCII)
        if match is None:
            raise CommandError(f"--limit: expected NAME=NUMBER, got '{text}'")
        name, value = match.groups()
        found[name] = (
            value if name == "handshake_time" else number_from_one(f"--limit {name}", value)
        )
    return found


def run(options: argparse.Namespace) -> int:
    stop = Stop()
    batch = number_from_one("--batch", options.batch)
    max_wait = 0.0 if options.max_wait is None else seconds("--max-wait", options.max_wait)
    if batch is None and (options.max_wait is not None or options.pad is not None):
        raise CommandError("--max-wait and --pad are for batches; add --batch N")
    with stop.on_signals(), contextlib.suppress(KeyboardInterrupt):
        try:
            signature = None if options.signature is None else parse_signature(options.signature)
            model = load(options.model, signature)
            agents: dict[str, LoadedModel] = {}
            for text in options.agent:
                name, equals, place = text.partition("=")
                if not name or not equals:
                    raise CommandError(f"--agent: expected NAME=MODEL, got '{text}'")
                agents[name] = load(place, signature)
            statistics = model.serve(
                options.at,
                batch=batch,
                max_wait=max_wait,
                pad=options.pad,
                agents=agents,
                ready=stop.ready,
                **limits(options.limit),
            )
        except (Error, OSError, ImportError, TypeError) as error:
            raise CommandError(str(error)) from error
        show_statistics(statistics, as_json=options.json)
    return 0
