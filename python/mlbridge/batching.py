# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One call of the policy for the requests of many compilers."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ._core import Context, Event, EventKind
from .errors import Closed, Error

if TYPE_CHECKING:
    from .server import Server

_Shapes = tuple[tuple[int, ...], ...]


class BatchPolicy(Protocol):
    """Decides for several requests at once.

    `observations` maps the names of the inputs to arrays with one row for each request, and
    `contexts` says who asks in each row. The answer is a mapping of all outputs by name, or the
    value of the only one; each an array, or a list, with one row for each request. The rows belong
    to different compilers, or to threads of one.
    """

    def __call__(self, observations: Mapping[str, Any], contexts: Sequence[Context], /) -> Any: ...


class Batcher:
    """Gathers requests from a server, and gives them to a policy, `max_batch` at most at once."""

    def __init__(
        self,
        server: Server,
        policy: BatchPolicy,
        *,
        max_batch: int,
        max_wait: float,
        pad: float | None,
        on_event: Callable[[Event], None] | None,
    ) -> None:
        if max_batch < 1:
            raise ValueError(f"max_batch must be at least 1, not {max_batch}")
        if not 0 <= max_wait < float("inf"):
            raise ValueError(f"max_wait must be zero or more seconds, not {max_wait}")
        self._server = server
        self._policy = policy
        self._max_batch = max_batch
        self._max_wait = max_wait
        self._pad = pad
        self._on_event = on_event

    def turn(self) -> bool:
        """Wait for a first request, gather others, and answer them; False once stopped."""
        event = self._server.next()
        requests: list[Event] = []
        asking: set[tuple[int, int]] = set()
        until = time.monotonic() + self._max_wait
        try:
            while event is not None:
                stream = event.context.connection, event.context.stream
                if event.kind is EventKind.REQUEST:
                    requests.append(event)
                    asking.add(stream)
                    if len(requests) >= self._max_batch:
                        break
                else:
                    if stream in asking:  # what comes after a request is told after its answer
                        self._answer(requests)
                        requests, asking = [], set()
                    if self._on_event is not None:
                        self._on_event(event)
                event = self._server.next(max(0.0, until - time.monotonic()))
        finally:
            # Whatever ended the gathering, compilers wait for these.
            self._answer(requests)
        return not self._server.stopped

    def _answer(self, requests: list[Event]) -> None:
        groups: dict[tuple[object, _Shapes | None], list[tuple[Event, Mapping[str, Any]]]] = {}
        for event in requests:
            inputs = event.inputs
            shapes = tuple(value.shape for value in inputs.values())
            key = str(event.signature), None if self._pad is not None else shapes
            groups.setdefault(key, []).append((event, inputs))
        for group in groups.values():
            self._answer_group([event for event, _ in group], [inputs for _, inputs in group])

    def _answer_group(self, events: list[Event], inputs: list[Mapping[str, Any]]) -> None:
        self._server._note_batch(len(events))
        try:
            rows = self._rows(
                events, self._policy(self._stacked(inputs), [e.context for e in events])
            )
        except Exception as error:
            logging.getLogger("mlbridge").exception("the policy failed")
            for event in events:
                self._fail(event, f"{type(error).__name__}: {error}")
            return
        except BaseException:
            for event in events:
                self._fail(event, "the server was interrupted")
            raise
        for event, row in zip(events, rows, strict=True):
            try:
                event.reply(row)
            except Closed:  # a compiler that has gone away is no concern of the others
                continue
            except Exception as error:  # this answer does not fit; the others may
                self._fail(event, str(error))

    @staticmethod
    def _fail(event: Event, why: str) -> None:
        with contextlib.suppress(Error):  # it may have gone away
            event.fail(why)

    def _stacked(self, inputs: list[Mapping[str, Any]]) -> dict[str, Any]:
        stacked: dict[str, Any] = {}
        for name in inputs[0]:
            arrays = [one[name] for one in inputs]
            if any(array.shape != arrays[0].shape for array in arrays):
                largest = np.max([array.shape for array in arrays], axis=0)
                whole = np.full((len(arrays), *largest), self._pad, arrays[0].dtype)
                for row, array in zip(whole, arrays, strict=True):
                    row[tuple(map(slice, array.shape))] = array
                stacked[name] = whole
            else:
                stacked[name] = np.stack(arrays)
            if self._pad is not None and arrays[0].ndim:
                stacked[name + ".shape"] = np.array([array.shape for array in arrays], np.int64)
        return stacked

    @staticmethod
    def _rows(events: list[Event], answer: Any) -> list[Any]:
        if not isinstance(answer, Mapping):
            outputs = events[0].signature.outputs
            if len(outputs) != 1:
                raise ValueError(
                    f"the policy gave one value for {len(outputs)} outputs; a mapping was expected"
                )
            answer = {outputs[0].name: answer}
        for name, value in answer.items():
            if not hasattr(value, "__len__") or len(value) != len(events):
                got = len(value) if hasattr(value, "__len__") else "no"
                raise ValueError(f"output '{name}' has {got} rows for {len(events)} requests")
        return [{name: value[k] for name, value in answer.items()} for k in range(len(events))]
