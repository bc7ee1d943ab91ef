# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Serves a model that a URI names, wherever it runs, to the compilers at another address."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ._core import Event, EventKind, Model, Runner, Statistics
from .errors import Closed, Error, LimitExceeded
from .server import Server

# Nothing tells when a stream ends, so the runner that was not used for longest is forgotten.
_MOST_RUNNERS = 512
# Whose answers depend on nothing but the question.
_NETWORKS = ("onnx:", "native:", "aot:", "tfaot:")


class _Forwarder:
    """The model that is asked, with a runner for each stream of the server."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._runners: OrderedDict[tuple[int, int], Runner] = OrderedDict()

    def runner(self, event: Event) -> Runner:
        context = event.context
        stream = (context.connection, context.stream)
        if stream not in self._runners:
            if len(self._runners) >= _MOST_RUNNERS:
                self._runners.popitem(last=False)
            bound = self._model.bound_to(event.signature, context.agent)
            self._runners[stream] = bound.new_runner(episode=context.episode, unit=context.unit)
        self._runners.move_to_end(stream)
        return self._runners[stream]

    def ask(self, event: Event) -> None:
        try:
            outputs = self.runner(event).evaluate(event.inputs)
        except Error as error:
            with contextlib.suppress(Error):
                event.fail(error.message)
            return
        with contextlib.suppress(Closed):
            event.reply(outputs)

    def tell(self, event: Event) -> None:
        runner = self.runner(event)
        if event.kind is EventKind.EPISODE_BEGIN:
            runner.begin_episode(event.context.episode, event.context.unit)
        elif event.kind is EventKind.REWARD:
            runner.reward(event.reward)
        elif event.kind is EventKind.EPISODE_END:
            outcome = event.outcome
            runner.end_episode("" if outcome.ok else outcome.message or outcome.code.name)


def forward(
    model: str,
    uri: str,
    *,
    stateless: bool | None = None,
    ready: Callable[[Server], None] | None = None,
    failed: Callable[[str], None] | None = None,
    **limits: Any,
) -> Statistics:
    """Serve the model that the URI `model` names at `uri`, until Ctrl-C.

    With `?record=FOLDER` in `model`, requests, answers and rewards are kept. Compilers see the
    model's signature and metadata, and get its failures as PolicyFailed. One request is in work at
    a time. `stateless` is that of Server; unless given, whether the model is a network in this
    process that draws nothing. `ready` is called with the Server once compilers can connect. If the
    recording ended before, as the disk was full, `failed` is called with the reason at the end, or
    there is LimitExceeded.
    """
    with contextlib.closing(Model.open(model)) as opened:
        forwarder = _Forwarder(opened)
        if stateless is None:
            stateless = model.startswith(_NETWORKS) and "choose=sample" not in model
        with Server(
            uri, opened.model_signature, opened.metadata, stateless=stateless, **limits
        ) as server:
            if ready is not None:
                ready(server)
            for event in server.events():
                if event.kind is EventKind.REQUEST:
                    forwarder.ask(event)
                else:
                    with contextlib.suppress(Error):
                        forwarder.tell(event)
            served = server.statistics
        if "record=" in model and (failure := opened.statistics().get("record.failed")):
            if failed is None:
                raise LimitExceeded(f"not everything is recorded: {failure}")
            failed(failure)
        return served
