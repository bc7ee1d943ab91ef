# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge serve`: a server that answers until Ctrl-C or SIGTERM, as `replay` is."""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from .. import files
from ..errors import Error
from ..uri import SCHEMES, is_uri
from .arguments import AT, Parser, add_answering, answering, assignment, number_from_one, seconds
from .common import DONE, FAILED, CommandError, UsageError, show

if TYPE_CHECKING:
    from .._core import Signature, Statistics
    from ..llvm_channel.host import InteractiveHost
    from ..server import Server

#: The schemes of addresses at which servers can listen; other transports are components.
PLACES = ("unix", "shm", "pipe", "grpc")
#: The prefix of a channel at which LLVM's own advisors ask.
INTERACTIVE = "llvm-interactive:"


def limit(text: str) -> tuple[str, int | str]:
    """The type of --limit."""
    name, value = assignment("NAME=NUMBER", text)
    try:
        return name, value if name == "handshake_time" else number_from_one(value)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{name}: {error}") from None


def add_listening(parser: Parser) -> None:
    """The options that every server has."""
    parser.option("--at URI", AT, required=True)
    parser.option("--json", "print the final statistics as JSON")
    parser.option(
        "--drain TIME",
        "how long episodes that are open at a SIGTERM may go on: 5s, the default",
        type=seconds,
    )


def add_arguments(parser: Parser) -> None:
    """The options of `mlbridge serve`."""
    parser.describe(
        """\
Serves a model to compilers until Ctrl-C or SIGTERM. Prints `ready URI` once they can connect, and
its statistics at the end. After SIGTERM it drains: compilers that know other servers go there.""",
        """\
MODEL is
  FILE.onnx         answered by ONNX Runtime as in process; its inputs and outputs are the signature
  FILE.pt           TorchScript (state --signature), or a program saved by torch.export
  MODULE:NAME       a Python policy(observation, context), or a function without arguments that
  FILE.py:NAME      makes one, or a torch.nn.Module and its Signature
  URI               another model; 'URI?record=FOLDER' keeps what it is asked and answers

With --batch, the requests to an ONNX network or exported program are concatenated along the dynamic
first dimension that all its inputs and outputs must have; a torch.nn.Module and a Python policy get
an additional leading dimension.

example:
  mlbridge serve policy.onnx --at unix:/tmp/policy.sock --batch 64 --max-wait 1ms""",
    )
    parser.add_argument("model", metavar="MODEL", help="what to serve; see below")
    parser.option("--batch N", "answer up to N waiting requests in one call", type=number_from_one)
    parser.option(
        "--max-wait TIME", "how long the first request of a batch waits for more: 1ms", type=seconds
    )
    parser.option("--pad X", "pad shorter inputs of a batch with X", type=float)
    parser.option("--signature TEXT", "such as '(x: float32[4]) -> (action: int64)'")
    parser.option(
        "--agent NAME=MODEL ...",
        "answer compilers that state this agent with another model; may be repeated",
        type=functools.partial(assignment, "NAME=MODEL"),
    )
    parser.option(
        "--stateless",
        "each answer depends on its question alone, as a network's in a FILE.onnx does: compilers "
        "that know several servers may go on with another one in an episode",
    )
    parser.option(
        "--limit NAME=NUMBER ...",
        "a limit of docs/serving.md, such as max_connections=2000; may be repeated",
        type=limit,
    )
    add_answering(parser.add_argument_group("at llvm-interactive:BASE (docs/llvm-advice.md)"))
    add_listening(parser)


#: Seconds that open episodes may go on after SIGTERM.
DRAIN = 5.0


class Stop:
    """Ends a server by a signal: SIGTERM drains it, Ctrl-C stops it after the request in work, and
    so does the second SIGTERM; one more signal ends it at once."""

    def __init__(self, drain: float = DRAIN) -> None:
        self._server: Server | InteractiveHost | None = None
        self._drain = drain
        self._draining = False

    def ready(self, server: Server | InteractiveHost) -> None:
        """Say that compilers can connect."""
        self._server = server
        print(f"ready {server.address}", flush=True)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._server is None or self._server.stopped:
            raise KeyboardInterrupt
        if number == signal.SIGTERM and hasattr(self._server, "drain") and not self._draining:
            self._draining = True
            self._server.drain(self._drain)
        else:
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
    """Call `serving` to serve at --at until a signal, and print its statistics."""
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)", options.at)
    name = scheme[0] if scheme else ""
    if name not in PLACES and not files.find_component("transport", name):
        what = "the URI of a model" if name in SCHEMES else "not an address to listen at"
        known = ", ".join([*(f"{place}:" for place in PLACES), INTERACTIVE])
        raise UsageError(f"--at: '{options.at}' is {what}; expected one of {known}")
    stop = Stop(DRAIN if options.drain is None else options.drain)
    with stop.on_signals():
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


def refuse(options: argparse.Namespace, names: Sequence[str], what: str) -> None:
    """UsageError if one of these options is given."""
    for name in names:
        if getattr(options, name):
            raise UsageError(f"--{name.replace('_', '-')} is not for {what}")


def run(options: argparse.Namespace) -> int:
    """Serve a model."""
    from ..forwarding import forward
    from ..policy_files import load

    if options.at.startswith(INTERACTIVE):
        return serve_llvm(options)
    # "onnx:FILE" without options is a file to load here.
    is_file = options.model.startswith("onnx:") and "?" not in options.model
    if is_uri(options.model) and not is_file:
        refuse(options, ("batch", "max_wait", "pad", "agent", "signature"), "the URI of a model")
        failures: list[str] = []
        code = serve_until_stopped(
            options,
            forward,
            options.model,
            options.at,
            failed=failures.append,
            stateless=options.stateless or None,
            **dict(options.limit),
        )
        for failure in failures:
            print(f"mlbridge serve: not everything is recorded: {failure}", file=sys.stderr)
        return FAILED if failures else code
    if options.batch is None and (options.max_wait is not None or options.pad is not None):
        raise UsageError("--max-wait and --pad are for batches; add --batch N")

    signature = signature_of(options.signature)

    def serve(**named: Any) -> Statistics:
        return load(options.model, signature).serve(
            options.at,
            batch=options.batch,
            max_wait=options.max_wait or 0.0,
            pad=options.pad,
            agents={name: load(place, signature) for name, place in options.agent},
            stateless=options.stateless or None,
            **named,
        )

    return serve_until_stopped(options, serve, **dict(options.limit))


def signature_of(text: str | None) -> Signature | None:
    """The signature that --signature states."""
    from ..policy_files import parse_signature

    try:
        return None if text is None else parse_signature(text)
    except Error as error:
        raise UsageError(f"--signature: {error}") from None


def serve_llvm(options: argparse.Namespace) -> int:
    """Answer the compilers at a channel of LLVM's own, one after another."""
    from ..llvm_channel.guardian import Guardian
    from ..llvm_channel.host import InteractiveHost
    from ..llvm_channel.pair import ChannelPair
    from .run import first_traceback, must_be_there

    base = options.at.removeprefix(INTERACTIVE)
    refuse(
        options,
        ("batch", "max_wait", "pad", "agent", "limit", "stateless", "drain"),
        f"{INTERACTIVE}BASE",
    )
    signature = signature_of(options.signature)
    must_be_there(options.model, "MODEL")

    def failed(why: str) -> None:
        print(f"mlbridge serve: {' '.join(why.split())}", file=sys.stderr, flush=True)

    guardian = Guardian([base])
    stop = Stop()
    try:
        with (
            first_traceback(),
            stop.on_signals(),
            contextlib.closing(ChannelPair(base, guardian.compiler)) as pair,
            InteractiveHost(
                pair, options.model, signature, failed=failed, **answering(options)
            ) as host,
        ):
            guardian.hold()
            host.load()
            stop.ready(host)
            host.serve()
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
